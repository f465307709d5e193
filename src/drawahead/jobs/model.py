"""What a job is drawn from, in the process that draws it; and where shards are drawn: here, one after another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, final

from drawahead.chains.base import Chain
from drawahead.jobs import files, manifest, shards
from drawahead.jobs.config import Config, Facts
from drawahead.jobs.request import JobRequest
from drawahead.oracles.condition import Given
from drawahead.report import Report
from drawahead.rounds.threads import Executor
from drawahead.sample import Result, Stop, sample
from drawahead.samplers import Sampler

OnRound = Callable[[Report], None] | None


@final
@dataclass(frozen=True)
class Model:
    """A chain, and what answers its rounds."""

    chain: Chain
    executor: Executor | None = None

    def begin(self, asked: JobRequest) -> tuple[Config, Given]:
        """The configuration of a new job, and the tables of its condition, on the CPU."""
        self.chain.check(asked.num)
        condition: Given = getattr(self.chain, "condition", {})
        return asked.begun(self.chain, self.executor), {name: table.cpu() for name, table in condition.items()}

    def shard(
        self, config: Config, sampler: Sampler, index: int, on_round: OnRound = None, stop: Stop | None = None
    ) -> Result:
        """Draw the shard with this number."""
        first, count = config.part(index)
        return sample(
            self.chain,
            count,
            first=first,
            sampler=sampler,
            seed=config.seed,
            max_batch_size=config.max_batch_size,
            max_live=config.max_live,
            executor=self.executor,
            graphs=config.graphs,
            on_round=on_round,
            stop=stop,
        )


@final
@dataclass(frozen=True)
class Drawn:
    """A shard that was drawn: its bytes, or the name under which a worker has left them among the shards."""

    index: int
    size: int
    """In bytes."""
    sha256: str
    report: dict[str, Any]
    """Totals."""
    data: bytes | None = None
    left: str = ""

    @staticmethod
    def of(index: int, result: Result, config: Config) -> Drawn:
        data = shards.encoded(result, config)
        return Drawn(index, len(data), files.sha256(data), manifest.totals([result.report.totals()]), data)


class Drawer(Protocol):
    """Who draws the shards of a job."""

    facts: Facts

    def begin(self, asked: JobRequest) -> tuple[Config, Given]:
        """As `Model.begin`."""

    def draw(
        self, config: Config, sampler: Sampler, missing: Iterable[int], watch: Callable[[], OnRound], stop: Stop | None
    ) -> Iterator[Sequence[Drawn]]:
        """Draw what is missing. -> shards as they come, in any order; now and then none, so that others have a look."""

    def workers(self) -> dict[str, Any]:
        """What is known about whoever draws: for `drawahead status`."""


@final
class Here:
    """Draws in this process."""

    def __init__(self, model: Model) -> None:
        self.facts = Facts.of(model.chain)
        self._model = model

    def begin(self, asked: JobRequest) -> tuple[Config, Given]:
        return self._model.begin(asked)

    def draw(
        self, config: Config, sampler: Sampler, missing: Iterable[int], watch: Callable[[], OnRound], stop: Stop | None
    ) -> Iterator[Sequence[Drawn]]:
        for index in missing:
            if stop is not None and stop.is_set():
                return
            result = self._model.shard(config, sampler, index, watch(), stop)
            if not result.complete:
                return
            yield [Drawn.of(index, result, config)]

    def workers(self) -> dict[str, Any]:
        return {}
