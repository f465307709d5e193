"""Whole shards on the machines of a Ray cluster: each worker holds the model, the head keeps the folder."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

from drawahead.chains.base import Chain
from drawahead.errors import InputError, SamplingError
from drawahead.executors import Replicas
from drawahead.executors.actors import RayWorkers
from drawahead.executors.pool import Pool
from drawahead.executors.shards import chain_of
from drawahead.jobs import files, lock, shards
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


@final
@dataclass(frozen=True)
class DrawShard:
    """A shard to draw."""

    config: Config
    index: int
    folder: Path
    token: str
    """Of the folder's lock: a worker that sees it there shares the folder with the process that asks."""


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

    def evaluate(self, asked: JobRequest | DrawShard | None) -> tuple[Any, str]:
        """Begin a job, draw a shard, or tell the condition. -> what came of it, and nothing to remark."""
        if asked is None:
            return self._model.condition(), ""
        try:
            if isinstance(asked, JobRequest):
                return self._model.begin(asked), ""
            drawn = self._model.shard(asked.config, asked.index, self._count)
        except SamplingError as error:  # its result would have to travel, and the cause says what happened
            raise error.__cause__ or error from None
        assert drawn is not None
        return _left(drawn, asked), ""

    def pulse(self) -> int:
        """A number that grows while there is progress."""
        return self._rounds

    def _count(self, report: Report) -> None:
        self._rounds += 1


def _left(drawn: Drawn, asked: DrawShard) -> Drawn:
    """The shard left in the job's folder under a name of its own; or with its bytes, for who asked to write them."""
    assert drawn.data is not None
    if not lock.held(asked.folder, asked.token):
        return drawn
    name = files.temporary_name(f"{shards.file_name(asked.index)}.{secrets.token_hex(4)}")
    try:
        files.write_synced(asked.folder / shards.SHARDS / name, drawn.data)
    except OSError:  # the disk is full, or not ours to write to: perhaps whoever asked has more luck
        return drawn
    return replace(drawn, data=None, left=name)


@contextmanager
def drawing(workers: RayWorkers, target: Any, folder: Path, token: str) -> Iterator[Pooled]:
    """Workers with this target, for as long as a job is drawn into the folder that was locked with this token."""
    make = target
    if isinstance(target, Chain | TokenOracle | DenoisingTarget):
        make = lambda: target  # noqa: E731
    elif not callable(target):
        raise InputError(f"target must be a function that makes the model in a worker, or a chain, not {short(target)}")
    with workers.pool(ShardWorker, make) as pool:
        yield Pooled(pool, folder.absolute(), token)


@final
class Pooled:
    """Draws with the workers of a pool, as `Model` does here."""

    def __init__(self, pool: Pool, folder: Path, token: str) -> None:
        self.facts: dict[str, Any] = pool.built
        self._pool, self._folder, self._token = pool, folder, token

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
        tasks = (DrawShard(config, index, self._folder, self._token) for index in missing)
        for group in self._pool.stream(tasks):
            yield [drawn for _, drawn in group]

    def workers(self) -> dict[str, Any]:
        pool = self._pool
        notes = pool.notes[-1] if pool.notes else ""
        return {"workers": pool.size, "ready": pool.ready, "replaced": pool.replaced, "note": notes[:500]}
