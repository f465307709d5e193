"""Workers of a pool as Ray actors: how many, with what, and the start of Ray itself."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, final

from drawahead.errors import InputError
from drawahead.executors.backend import Died, Raised
from drawahead.executors.pool import Pool
from drawahead.validate import number, short, whole
from drawahead.values import dataclass

_PULSE = "pulse"
"""The thread of a worker that says how far it is while another one works."""


MOST_WORKERS = 10_000


@dataclass(eq=False)
class _Pulse:
    task: Any = None
    count: int = -1
    at: float = 0.0

    def felt(self, count: int) -> None:
        if count != self.count:
            self.count, self.at = count, time.monotonic()


@final
class Actors:
    """The pool's workers as Ray actors of some class with `build` and `evaluate`; if it has a `pulse`, that is felt."""

    def __init__(self, ray: Any, kind: type, make: Callable[[], Any], options: dict[str, Any]) -> None:
        self._ray = ray
        self._options = options
        self._pulses: dict[Any, _Pulse] | None = {} if hasattr(kind, "pulse") else None
        groups = {} if self._pulses is None else {"concurrency_groups": {_PULSE: 1}}
        self._class = ray.remote(max_restarts=0, max_task_retries=0, **groups, **options)(kind)
        try:
            self._make = ray.put(make)  # stored once, however many workers fetch it
        except TypeError as error:
            raise InputError(f"make cannot be sent to the workers: {error}; define it in a module they have") from error

    def start(self) -> Any:
        return self._class.remote()

    def build(self, worker: Any) -> Any:
        return worker.build.remote(self._make)

    def evaluate(self, worker: Any, shard: Any) -> Any:
        return worker.evaluate.remote(shard)

    def heard(self, worker: Any) -> float:
        if self._pulses is None:
            return 0.0
        pulse = self._pulses.setdefault(worker, _Pulse())
        if pulse.task is None:
            pulse.task = worker.pulse.options(concurrency_group=_PULSE).remote()
        elif self._ray.wait([pulse.task], timeout=0)[0]:
            with suppress(Died, Raised):  # that it died shows elsewhere
                pulse.felt(self.result(pulse.task))
            pulse.task = None
        return pulse.at

    def wait(self, tasks: Sequence[Any], seconds: float) -> list[Any]:
        ended, rest = self._ray.wait(list(tasks), num_returns=1, timeout=seconds)
        if ended and rest:
            ended += self._ray.wait(rest, num_returns=len(rest), timeout=0)[0]
        return list(ended)

    def result(self, task: Any) -> Any:
        errors = self._ray.exceptions
        try:
            return self._ray.get(task)
        except errors.RayTaskError as error:
            raise Raised from error.cause if isinstance(error.cause, Exception) else error
        except errors.RayError as error:
            raise Died(" ".join(str(error).split("\n")[0].split()) or type(error).__name__) from error

    def stop(self, worker: Any) -> None:
        if self._pulses is not None:
            self._pulses.pop(worker, None)
        self._ray.kill(worker)

    def resources(self) -> str:
        need = ", ".join(f"{name} {amount}" for name, amount in self._options.items() if amount)
        free = self._ray.available_resources()
        have = ", ".join(f"{name} {free.get(name, 0):g} of {total:g}" for name, total in _counted(self._ray))
        return f"each needs {need or 'nothing'}; free in the cluster: {have}"


def _counted(ray: Any) -> list[tuple[str, float]]:
    return [(name, total) for name, total in sorted(ray.cluster_resources().items()) if ":" not in name]


def most_workers(ray: Any, needs: Mapping[str, Any]) -> int:
    """How many workers with these needs the cluster has room for, if nothing else runs there."""
    wanted = {"CPU": needs["num_cpus"], "GPU": needs["num_gpus"], **needs["resources"]}
    have = dict(_counted(ray))
    return int(min(have.get(name, 0.0) / amount for name, amount in wanted.items() if amount))


def initialise(ray: Any, address: str | None) -> None:
    try:
        ray.init(address=address, include_dashboard=False, log_to_driver=False)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise InputError(f"Ray could not be started, or no cluster was found (address={address!r}): {error}") from error


def imported() -> Any:
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        raise InputError("Ray is not installed: pip install 'drawahead[ray]'") from error


@final
@dataclass(frozen=True)
class RayWorkers:
    """Workers of a Ray cluster that draw whole shards of a job: `da.jobs.draw(..., workers=da.RayWorkers(64, gpus=1))`.

    Workers may come and go: one that dies or hangs is replaced and its shard drawn again; a slow worker's last shard is
    also sent to an idle one, and one of the two results is used. Workers with access to the job's folder write their
    shards there; the others send the bytes to the main process, which writes them.

    workers: how many; None: as many as fit on the cluster.
    least: how many must be ready before the job begins; others join as they come.
    cpus, gpus, resources: what Ray sets aside for each.
    address: of the cluster, where Ray is not initialised yet; None: what RAY_ADDRESS says, or a new one on this
        machine, which ends with the call.
    retries: how many workers may die over a shard, one after another, before the job stops. An error that the model
        raises stops it at once.
    hedge: a shard that takes so many times longer than others, with nothing left to begin, goes to an idle worker too.
    timeout: seconds without a finished round after which a worker is considered hung and is replaced; None: never.
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
        if self.workers is not None and whole("workers", self.workers, 1) > MOST_WORKERS:
            raise InputError(
                f"workers must be at most {MOST_WORKERS}, not {short(self.workers)}: each is a process with the model, "
                "and one process looks after all of them; let each hold more with Replicas"
            )
        whole("least", self.least, 1, self.workers)
        whole("retries", self.retries, 0)
        for name, value in (("cpus", self.cpus), ("gpus", self.gpus), *dict(self.resources or {}).items()):
            number(name, value, least=0)
        for name, above in (("hedge", 1.0), ("timeout", 0.0), ("start_timeout", 0.0)):
            if getattr(self, name) is not None:
                number(name, getattr(self, name), above=above)

    @contextmanager
    def pool(self, kind: type, make: Callable[[], Any]) -> Iterator[Pool]:
        """Workers of some class with `build`, which is given `make`, and `evaluate`; if it has a `pulse`, that is
        felt."""
        ray = imported()
        needs = {"num_cpus": self.cpus, "num_gpus": self.gpus, "resources": dict(self.resources or {})}
        with ExitStack() as opened:
            if not ray.is_initialized():
                initialise(ray, self.address)
                opened.callback(ray.shutdown)
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
            opened.callback(pool.close)
            yield pool
