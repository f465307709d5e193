"""Whole shards on the machines of a Ray cluster: each worker holds the model, the head keeps the folder."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, final

from drawahead.chains.base import Chain
from drawahead.errors import InputError, SamplingError
from drawahead.executors import Replicas
from drawahead.executors.actors import RayWorkers
from drawahead.executors.pool import Pool
from drawahead.executors.shards import chain_of
from drawahead.jobs.config import Config
from drawahead.jobs.model import Drawn, JobRequest, Model, OnRound
from drawahead.oracles.condition import Conditions
from drawahead.oracles.denoisers import DenoisingTarget
from drawahead.oracles.tokens import TokenOracle
from drawahead.report import Report
from drawahead.rounds.run import Stop
from drawahead.validate import short

Make = Callable[[], Any]
"""Builds the model: an oracle, a denoising target, a chain, or `Replicas` of one on several devices of the worker."""
Task = JobRequest | tuple[Config, int] | None
"""Begin a job, draw a shard of one, or tell the condition."""


@final
class ShardWorker:
    """One process that holds a model. It knows nothing of what sends it shards."""

    def __init__(self) -> None:
        self._rounds = 0

    def build(self, make: Make) -> dict[str, Any]:
        """Build the model. -> what it says about its samples."""
        made = make()
        self._model = Model(made.chain, made) if isinstance(made, Replicas) else Model(chain_of(made))
        return self._model.facts

    def evaluate(self, asked: Task) -> tuple[Any, str]:
        """Do a task. -> what came of it, and nothing to remark."""
        if asked is None:
            return self._model.condition(), ""
        try:
            if isinstance(asked, JobRequest):
                return self._model.begin(asked), ""
            return self._model.shard(*asked, self._count), ""
        except SamplingError as error:  # its result would have to travel, and the cause says what happened
            raise error.__cause__ or error from None

    def pulse(self) -> int:
        """A number that grows while there is progress."""
        return self._rounds

    def _count(self, report: Report) -> None:
        self._rounds += 1


@contextmanager
def drawing(workers: RayWorkers, target: Any) -> Iterator[Pooled]:
    """Workers with this target, for as long as a job is drawn."""
    make = target
    if isinstance(target, Chain | TokenOracle | DenoisingTarget):
        make = lambda: target  # noqa: E731
    elif not callable(target):
        raise InputError(f"target must be a function that makes the model in a worker, or a chain, not {short(target)}")
    with workers.pool(ShardWorker, make) as pool:
        yield Pooled(pool)


@final
class Pooled:
    """Draws with the workers of a pool, as `Model` does here."""

    def __init__(self, pool: Pool) -> None:
        self.facts: dict[str, Any] = pool.built
        self._pool = pool

    def begin(self, asked: JobRequest) -> Config:
        config: Config = self._pool.run([asked])[0]
        return config

    def condition(self) -> Conditions:
        condition: Conditions = self._pool.run([None])[0]
        return condition

    def draw(
        self, config: Config, missing: Iterable[int], watch: Callable[[], OnRound], stop: Stop | None
    ) -> Iterator[Sequence[Drawn]]:
        """Shards in any order; now and then none, so that whoever draws has a look."""
        for group in self._pool.stream((config, index) for index in missing):
            yield [drawn for _, drawn in group]

    def workers(self) -> dict[str, Any]:
        pool = self._pool
        notes = pool.notes[-1] if pool.notes else ""
        return {"workers": pool.size, "ready": pool.ready, "replaced": pool.replaced, "note": notes[:500]}
