"""Answer a round on several devices of this machine: one replica of the model on each, one thread for each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from threading import Barrier
from typing import Self, final

import torch
from torch import Tensor

from drawahead.chains.base import Chain
from drawahead.errors import AnswerError, InputError
from drawahead.executors.chunks import Chunks, Notes
from drawahead.executors.shards import chain_of, cut, joined, parted
from drawahead.oracles.denoisers import DenoisingTarget
from drawahead.oracles.tokens import TokenOracle
from drawahead.rounds.threads import Query
from drawahead.validate import whole


@final
class Replicas:
    """Several replicas of one model in this process, each usually on its own GPU.

    A round is split into shards, one for each replica; each is evaluated in a thread, and answers are collected in
    order on the chain's device. The replicas must give the same answers: the executor cannot check that. Threads of one
    process take turns in Python, so this is for models whose calls are long; where they are short, `Ray` with workers
    on this machine has a process for each.

    replicas: oracles, or chains around them, each an object of its own. Draw from `chain`, or from any of them.
    max_batch_size: the largest batch for a replica.
    min_batch_size: a round is not cut into shards smaller than this. Where a batch of up to so many takes no longer
        than one item, smaller shards save nothing.
    """

    def __init__(
        self,
        replicas: Sequence[Chain | TokenOracle | DenoisingTarget],
        *,
        max_batch_size: int | None = None,
        min_batch_size: int = 1,
    ) -> None:
        if not isinstance(replicas, Sequence) or not len(replicas):
            raise InputError("replicas must be a list of at least one oracle or chain")
        chains = [chain_of(replica) for replica in replicas]
        self.chain = chains[0]
        """The chain around the first replica: what to draw from."""
        self._replicas = [chain.model for chain in chains]
        if len({id(replica) for replica in self._replicas}) < len(self._replicas):
            raise InputError("every replica must be an object of its own: two threads cannot share one")
        self.min_batch_size = whole("min_batch_size", min_batch_size, 1)
        self._chunks = [Chunks(max_batch_size) for _ in self._replicas]
        self._notes = Notes()
        self._threads = _threads(len(self._replicas))

    @classmethod
    def on(
        cls,
        make: Callable[[torch.device], Chain | TokenOracle | DenoisingTarget],
        devices: Sequence[torch.device | str],
        *,
        max_batch_size: int | None = None,
        min_batch_size: int = 1,
    ) -> Self:
        """A replica on each device, made by `make(device)`."""
        made = [make(torch.device(device)) for device in devices]
        return cls(made, max_batch_size=max_batch_size, min_batch_size=min_batch_size)

    def __repr__(self) -> str:
        devices = ", ".join(str(replica.device) for replica in self._replicas)
        return (
            f"Replicas(on {devices}; max_batch_size={self._chunks[0].max_batch_size}, "
            f"min_batch_size={self.min_batch_size})"
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """Problems that occurred and were handled, in words."""
        return self._notes.texts

    def answer(self, queries: Sequence[Query]) -> list[Tensor]:
        query = joined(queries, self._replicas)
        workers = len(self._replicas)
        home = torch.device(getattr(query.oracle, "device", "cpu"))
        shards = [query.take(*ends) for ends in cut(len(query), workers, self.min_batch_size, None)]
        futures = [self._threads.submit(self._evaluate, i, shard, home) for i, shard in enumerate(shards)]
        failed = [(i, error) for i, future in enumerate(futures) if (error := future.exception()) is not None]
        for i, chunks in enumerate(self._chunks):
            self._notes.tell(f"memory of replica {i}", chunks.note and f"replica {i}: {chunks.note}")
        if failed:
            i, error = failed[0]
            where = f"replica {i} on {self._replicas[i].device}"
            raise AnswerError(f"{where} failed: {type(error).__name__}: {error}") from error
        parts = [future.result() for future in futures]
        return parted(parts[0] if len(parts) == 1 else torch.cat(parts), queries)

    def _evaluate(self, i: int, shard: Query, home: torch.device) -> Tensor:
        replica = self._replicas[i]
        # What a thread may inherit it does not: neither the device nor that gradients are off.
        with torch.cuda.device(replica.device) if replica.device.type == "cuda" else nullcontext(), torch.no_grad():
            return self._chunks[i].evaluate(shard.on(replica)).to(home)

    def close(self) -> None:
        """End the threads."""
        self._threads.shutdown()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _threads(number: int) -> ThreadPoolExecutor:
    """Threads that share the cores: if each took all of them, they would stand in each other's way."""
    cores = torch.get_num_threads()
    together = Barrier(number + 1)

    def begin() -> None:
        torch.set_num_threads(max(1, cores // number))
        torch.get_num_threads()  # only a thread that has asked keeps its number
        together.wait()

    threads = ThreadPoolExecutor(number, "drawahead-replica")
    for _ in range(number):
        threads.submit(begin)
    together.wait()
    torch.set_num_threads(cores)  # what this thread, and later ones of the process, go on with
    return threads
