"""Answer a round on a Ray cluster: actors that hold replicas of the model, on as many machines as there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Self, final

import numpy as np
import torch
from torch import Tensor

from drawahead.chains.base import Chain
from drawahead.errors import InputError
from drawahead.executors.actors import RayWorkers
from drawahead.executors.shards import cut, joined, parted
from drawahead.executors.wire import Make, Packed, Worker
from drawahead.rounds.threads import Query
from drawahead.validate import whole


@final
class Ray:
    """A pool of Ray actors, each with a replica of the model; a round is cut into shards over them.

    The driver needs no model and no GPU: sample its `chain`, which holds only sizes. Plain arrays are sent, never
    weights. A worker that dies is replaced and its shard sent again, a slow one's shard is also sent to an idle one:
    the samples do not change.

    make: builds the model in a worker: a function without arguments that returns an oracle, a denoising target or a
        chain. It is pickled, once; what it needs must be importable in the workers.
    workers: how many; all must be ready before the first round.
    max_batch_size, min_batch_size: the most and the fewest items of a shard. With shards smaller than a worker's share
        idle workers take more of them, which evens out workers of unequal speed.
    timeout: seconds after which a busy worker is taken for hung, and replaced; None: never.
    cpus, gpus, resources, address, retries, hedge, start_timeout: as for `RayWorkers`. A cluster that is started here
        ends with this object.
    """

    def __init__(
        self,
        make: Make,
        workers: int,
        *,
        cpus: float = 1.0,
        gpus: float = 0.0,
        resources: Mapping[str, float] | None = None,
        address: str | None = None,
        max_batch_size: int | None = None,
        min_batch_size: int = 1,
        retries: int = 3,
        hedge: float | None = 3.0,
        timeout: float | None = None,
        start_timeout: float = 600.0,
    ) -> None:
        if not callable(make):
            raise InputError(f"make must be a function that builds the model in a worker, not {make!r}")
        self.workers = whole("workers", workers, 1)
        self.max_batch_size = None if max_batch_size is None else whole("max_batch_size", max_batch_size, 1)
        self.min_batch_size = whole("min_batch_size", min_batch_size, 1)
        settings = RayWorkers(
            self.workers, self.workers, cpus, gpus, resources, address, retries, hedge, timeout, start_timeout
        )
        self._opened = ExitStack()
        self._pool = self._opened.enter_context(settings.pool(Worker, make))
        self.chain: Chain = self._pool.built
        """What to draw from: the chain that `make` made, without its model."""

    def __repr__(self) -> str:
        return (
            f"Ray(workers={self.workers}, max_batch_size={self.max_batch_size}, min_batch_size={self.min_batch_size})"
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """Problems that occurred and were handled, in words."""
        return self._pool.notes

    @property
    def replaced(self) -> int:
        """How many workers died and were replaced."""
        return self._pool.replaced

    @property
    def resent(self) -> int:
        """How many shards were sent to a second worker because the first was slow."""
        return self._pool.resent

    def answer(self, queries: Sequence[Query]) -> list[Tensor]:
        query = joined(queries, [self.chain.model])
        workers = self.workers
        shards = cut(len(query), workers, self.min_batch_size, self.max_batch_size)
        parts = self._pool.run([Packed.of(query.take(*ends)) for ends in shards])
        return parted(torch.from_numpy(np.concatenate(parts)), queries)

    def close(self) -> None:
        """End the workers, and Ray itself if it was started here."""
        self._opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
