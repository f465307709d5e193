"""Whole shards on the machines of a Ray cluster: each worker holds the model, the head keeps the folder."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

from drawahead.chains.base import Chain
from drawahead.errors import InputError, SamplingError
from drawahead.executors import Replicas
from drawahead.executors.actors import Actors, check_above, imported, initialise, most_workers
from drawahead.executors.pool import Pool
from drawahead.executors.shards import chain_of
from drawahead.jobs import files, lock, shards
from drawahead.jobs.config import Config, Facts
from drawahead.jobs.request import JobRequest, Model, OnRound
from drawahead.jobs.shards import Drawn
from drawahead.oracles.condition import Given
from drawahead.oracles.denoisers import DenoisingTarget
from drawahead.oracles.tokens import TokenOracle
from drawahead.report import Report
from drawahead.runner import Stop
from drawahead.samplers import Sampler
from drawahead.validate import short, whole

Make = Callable[[], Any]
"""Builds the model: an oracle, a denoising target, a chain, or `Replicas` of one on several devices of the worker."""


@final
@dataclass(frozen=True)
class DrawShard:
    """A shard to draw."""

    config: Config
    sampler: Sampler
    index: int
    folder: Path
    token: str
    """Of the folder's lock: a worker that sees it there shares the folder with the process that asks."""


@final
class ShardWorker:
    """One process that holds a model. It knows nothing of what sends it shards."""

    def __init__(self) -> None:
        self._model: Model | None = None
        self._rounds = 0

    def build(self, make: Make) -> Facts:
        """Build the model."""
        made = make()
        self._model = Model(made.chain, made) if isinstance(made, Replicas) else Model(chain_of(made))
        return Facts.of(self._model.chain)

    def evaluate(self, asked: JobRequest | DrawShard | None) -> tuple[Any, str]:
        """Begin a job, draw a shard, or tell the condition. -> what came of it, and nothing to remark."""
        if self._model is None:
            raise InputError("the worker has no model yet: build it first")
        if asked is None:
            return self._model.condition, ""
        try:
            if isinstance(asked, JobRequest):
                return self._model.begin(asked), ""
            result = self._model.shard(asked.config, asked.sampler, asked.index, self._count)
        except SamplingError as error:  # its result would have to travel, and the cause says what happened
            raise error.__cause__ or error from None
        return _left(Drawn.of(asked.index, result, asked.config), asked), ""

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


@final
@dataclass(frozen=True)
class RayWorkers:
    """Workers of a Ray cluster that draw whole shards of a job: `da.jobs.draw(..., workers=da.RayWorkers(64, gpus=1))`.

    They come and go: a worker that dies or hangs is replaced and its shard drawn again, a slow one's last shard is also
    given to an idle one, and of two results one is kept. Workers that see the job's folder write their shards there;
    from others the bytes are sent, and the process that asked writes them.

    workers: how many; None: as many as the cluster has room for.
    least: how many must be ready before the job begins; others join as they come.
    cpus, gpus, resources: what Ray sets aside for each.
    address: of the cluster, where Ray is not initialised yet; None: what RAY_ADDRESS says, or a new one on this
        machine, which ends with the call.
    retries: how many workers may die over a shard, one after another, before the job stops. An error that the model
        raises stops it at once.
    hedge: a shard that takes so many times longer than others, with nothing left to begin, goes to an idle worker too.
    timeout: seconds without a finished round after which a worker is taken for hung, and replaced; None: never.
    start_timeout: seconds that the first workers may take until they have built the model.
    """

    workers: int | None = None
    least: int = 1
    cpus: float = 1.0
    gpus: float = 0.0
    resources: Mapping[str, float] | None = None
    address: str | None = None
    retries: int = 5
    hedge: float | None = 3.0
    timeout: float | None = 600.0
    start_timeout: float = 600.0

    def __post_init__(self) -> None:
        if self.workers is not None:
            whole("workers", self.workers, 1)
        whole("least", self.least, 1, self.workers)
        whole("retries", self.retries, 0)
        check_above("hedge", self.hedge, 1.0)
        check_above("timeout", self.timeout, 0.0)
        check_above("start_timeout", self.start_timeout, 0.0)

    @contextmanager
    def drawing(self, target: Any, folder: Path, token: str) -> Iterator[Pooled]:
        """Workers with this target, for as long as a job is drawn into the folder that was locked with this token."""
        with self.pool(ShardWorker, _maker(target)) as pool:
            yield Pooled(pool, folder.absolute(), token)

    @contextmanager
    def pool(self, kind: type, make: Callable[[], Any]) -> Iterator[Pool]:
        """Workers of some class with `build`, which is given `make`, `evaluate` and `pulse`."""
        ray = imported()
        own = not ray.is_initialized()
        if own:
            initialise(ray, self.address)
        try:
            with self._workers(ray, kind, make) as pool:
                yield pool
        finally:
            if own:
                ray.shutdown()

    @contextmanager
    def _workers(self, ray: Any, kind: type, make: Callable[[], Any]) -> Iterator[Pool]:
        needs = {"num_cpus": self.cpus, "num_gpus": self.gpus, "resources": dict(self.resources or {})}
        actors = Actors(ray, kind, make, needs)
        workers = self.workers or most_workers(ray, needs)
        if not workers:
            raise InputError(f"the cluster has no room for a worker ({actors.resources()}): ask for less for each")
        pool = Pool(
            actors,
            workers,
            retries=self.retries,
            hedge=self.hedge,
            timeout=self.timeout,
            start_timeout=self.start_timeout,
            least=self.least,
        )
        try:
            yield pool
        finally:
            pool.close()


@final
class Pooled:
    """Draws with the workers of a pool."""

    def __init__(self, pool: Pool, folder: Path, token: str) -> None:
        self.facts: Facts = pool.built
        self._pool, self._folder, self._token = pool, folder, token

    def begin(self, asked: JobRequest) -> Config:
        config: Config = self._pool.run([asked])[0]
        return config

    def condition(self) -> Given:
        condition: Given = self._pool.run([None])[0]
        return condition

    def draw(
        self, config: Config, sampler: Sampler, missing: Iterable[int], watch: Callable[[], OnRound], stop: Stop | None
    ) -> Iterator[Sequence[Drawn]]:
        tasks = (DrawShard(config, sampler, index, self._folder, self._token) for index in missing)
        for group in self._pool.stream(tasks):
            yield [drawn for _, drawn in group]

    def workers(self) -> dict[str, Any]:
        pool = self._pool
        notes = pool.notes[-1] if pool.notes else ""
        return {"workers": pool.size, "ready": pool.ready, "replaced": pool.replaced, "note": notes[:500]}


def _maker(target: Any) -> Callable[[], Any]:
    """What builds the target in a worker."""
    if isinstance(target, Chain | TokenOracle | DenoisingTarget):
        return lambda: target
    if not callable(target):
        raise InputError(f"target must be a function that makes the model in a worker, or a chain, not {short(target)}")
    make: Callable[[], Any] = target
    return make
