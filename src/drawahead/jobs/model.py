"""A model that shards of a job are drawn from: what is measured before a job begins, and a shard."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, final

from drawahead.chains.base import Chain
from drawahead.errors import InputError
from drawahead.jobs.config import MOST_SHARDS, Config, facts
from drawahead.jobs.shards import encoded
from drawahead.oracles.condition import Conditions
from drawahead.randomness import seed_from
from drawahead.report import Report
from drawahead.rounds.run import Result, Stop
from drawahead.rounds.threads import Executor
from drawahead.runner import Runner
from drawahead.samplers import Auto, Sampler
from drawahead.samplers.record import SamplerRecord

SECONDS = 30.0
"""That a shard takes unless the user says how large it is: what dies with a process is at most the shard under way."""
BYTES = 64 * 2**20
"""Of a shard, at most, unless the user says."""
_PILOT_SECONDS = 1.0
_OTHER_NOISE = 0x9E3779B97F4A7C15

OnRound = Callable[[Report], None] | None


@final
@dataclass(frozen=True)
class JobRequest:
    """The arguments of `draw` that decide the samples. None: as the job in the folder has it, or as usual."""

    name: str
    options: dict[str, Any]
    num: int
    sampler: Sampler | None = None
    seed: int | None = None
    shard_size: int | None = None
    max_batch_size: int | None = None
    max_live: int | None = None
    graphs: bool | None = None


@final
@dataclass(frozen=True)
class Drawn:
    """A shard that was drawn."""

    index: int
    totals: dict[str, Any]
    """Of its report."""
    data: bytes
    """Of its file."""


@final
class Model:
    """A chain, and the runner that draws all shards from it, in this process."""

    def __init__(self, chain: Chain, executor: Executor | None = None) -> None:
        self.chain, self.facts = chain, facts(chain)
        self._runner = Runner(chain, executor=executor)

    def condition(self) -> Conditions:
        """What the model is told about each sample, on the CPU."""
        condition: Conditions = getattr(self.chain, "condition", {})
        return {name: table.cpu() for name, table in condition.items()}

    def begin(self, asked: JobRequest) -> Config:
        """The configuration of a new job. Measures what the user left open: the sampler, the size of a shard."""
        self.chain.check(asked.num)
        seed, max_live = seed_from(asked.seed, None), asked.max_live or 1024
        runner = self._runner.using(sampler=asked.sampler, graphs=asked.graphs, max_batch_size=asked.max_batch_size)

        def pilot(num_samples: int, pace: Pace) -> Result:
            noise = (seed + _OTHER_NOISE) % 2**63
            return runner.sample(num_samples, seed=noise, max_live=max_live, on_round=pace, stop=pace)

        size = min(asked.shard_size or shard_size(self.chain, asked.num, pilot), asked.num)
        if -(-asked.num // size) > MOST_SHARDS:
            least = -(-asked.num // MOST_SHARDS)
            raise InputError(f"shard_size must be at least {least} here: a job has {MOST_SHARDS} shards at most")
        sampler = asked.sampler or Auto()
        written = SamplerRecord(repr(sampler), sampler)
        if isinstance(sampler, Auto):
            # Written down before anything is drawn: it depends on timings, and all shards must be drawn alike.
            chosen = runner.settle(size, seed=seed, max_live=max_live)
            written = SamplerRecord(repr(chosen.sampler), chosen.sampler, chosen.choice, chosen.probes)
        settled = {"seed": seed, "sampler": written, "shard_size": size, "max_live": max_live}
        return Config(**vars(asked) | settled | self.facts)

    def shard(self, config: Config, index: int, on_round: OnRound = None, stop: Stop | None = None) -> Drawn | None:
        """Draw the shard with this number; None if it was stopped."""
        first, count = config.part(index)
        runner = self._runner.using(
            sampler=config.sampler.sampler, graphs=config.graphs, max_batch_size=config.max_batch_size
        )
        result = runner.sample(
            count, first=first, seed=config.seed, max_live=config.max_live, on_round=on_round, stop=stop
        )
        return Drawn(index, result.report.totals(), encoded(result, config)) if result.complete else None

    def draw(
        self, config: Config, missing: Iterable[int], watch: Callable[[], OnRound], stop: Stop | None
    ) -> Iterator[Sequence[Drawn]]:
        """Draw what is missing. -> shards as they come."""
        for index in missing:
            drawn = self.shard(config, index, watch(), stop)
            if drawn is None:
                return
            yield [drawn]

    def workers(self) -> dict[str, Any]:
        """What is known about whoever draws; nothing, as it is this process."""
        return {}


@final
class Pace(Stop):
    """Sees how fast steps are committed, from the first round on: what was measured before it does not count."""

    def __init__(self) -> None:
        self._seen: list[tuple[float, int]] = []

    def __call__(self, report: Report) -> None:
        self._seen = [*self._seen[:1], (time.perf_counter(), sum(report.committed))]

    def is_set(self) -> bool:
        return bool(self._seen) and self._seen[-1][0] - self._seen[0][0] > _PILOT_SECONDS

    def samples_per_second(self, report: Report) -> float:
        """How fast samples come."""
        committed, seconds = sum(report.committed), report.seconds
        if len(self._seen) > 1:
            (begin, before), (end, after) = self._seen
            committed, seconds = after - before, end - begin
        return committed / max(1, report.steps) / max(seconds, 1e-6)


def shard_size(chain: Chain, num: int, pilot: Callable[[int, Pace], Result]) -> int:
    """How many samples a shard should have: half a minute of work, for what is lost when a process dies should be
    short; but samples drawn together are quicker than one by one. `pilot` draws some, and stops when told: more and
    more together are timed for about a second, and thrown away."""
    most = min(num, max(1, BYTES // max(1, chain.empty(1).nbytes)))
    together = min(4, most)
    while True:
        pace = Pace()
        began = time.perf_counter()
        result = pilot(together, pace)
        seconds = time.perf_counter() - began
        if not result.complete or seconds > _PILOT_SECONDS / 4 or together >= min(1024, most):
            break
        together = min(4 * together, most)
    wanted = max(1, int(SECONDS * pace.samples_per_second(result.report)))
    rounded = 1 << (wanted.bit_length() - 1)
    return max(min(most, rounded), -(-num // MOST_SHARDS))
