"""What a user asks for, and the configuration that follows from it: a new one, or that of the job to go on with."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import Any, final

from drawahead.chains.base import Chain
from drawahead.errors import InputError
from drawahead.jobs.config import MOST_SHARDS, Config, Facts, versions
from drawahead.jobs.manifest import Manifest
from drawahead.jobs.sizing import Pace, shard_size
from drawahead.randomness import seed_from
from drawahead.rounds.run import Result
from drawahead.rounds.threads import Executor
from drawahead.runner import Runner
from drawahead.sample import sample
from drawahead.samplers import Auto, Sampler
from drawahead.samplers.record import SamplerRecord

_OTHER_NOISE = 0x9E3779B97F4A7C15


@final
@dataclass(frozen=True)
class JobRequest:
    """The arguments of `draw` that decide the samples. None: as the job in the folder has it, or as usual."""

    name: str
    options: dict[str, Any]
    num: int
    sampler: Sampler | None
    seed: int | None
    shard_size: int | None
    max_batch_size: int | None
    max_live: int | None
    graphs: bool | None

    def begun(self, chain: Chain, executor: Executor | None) -> Config:
        """The configuration of a new job. Measures what the user left open: the sampler, the size of a shard."""
        seed = seed_from(self.seed, None)
        max_live = self.max_live or 1024
        pilot = functools.partial(self._pilot, chain, executor, seed)
        size = self.shard_size or shard_size(chain, self.num, pilot)
        size = min(size, self.num)
        if -(-self.num // size) > MOST_SHARDS:
            least = -(-self.num // MOST_SHARDS)
            raise InputError(f"shard_size must be at least {least} here: a job has {MOST_SHARDS} shards at most")
        sampler = self.sampler or Auto()
        written = SamplerRecord(repr(sampler), sampler)
        if isinstance(sampler, Auto):
            # Written down before anything is drawn: it depends on timings, and all shards must be drawn alike.
            runner = Runner(chain, sampler, executor, graphs=self.graphs, max_batch_size=self.max_batch_size)
            chosen = runner.settle(size, seed=seed, max_live=max_live)
            written = SamplerRecord(repr(chosen.sampler), chosen.sampler, chosen.choice, chosen.probes)
        return Config(
            name=self.name,
            options=self.options,
            num=self.num,
            seed=seed,
            sampler=written,
            shard_size=size,
            max_batch_size=self.max_batch_size,
            max_live=max_live,
            graphs=self.graphs,
            **vars(Facts.of(chain)),
        )

    def resumed(self, found: Manifest, facts: Facts, *, any_version: bool) -> tuple[Config, Sampler]:
        """The configuration of the job to go on with, if that is what is asked for, and its sampler."""
        config = found.config
        written = config.sampler
        if self.sampler is not None and not (isinstance(self.sampler, Auto) and written.choice):
            written = SamplerRecord(repr(self.sampler), self.sampler, written.choice, written.probes)
        given = {
            key: value
            for key in ("seed", "shard_size", "max_batch_size", "max_live", "graphs")
            if (value := getattr(self, key)) is not None
        }
        if "shard_size" in given:
            given["shard_size"] = min(given["shard_size"], self.num)
        here = replace(
            config, name=self.name, options=self.options, num=self.num, sampler=written, **given, **vars(facts)
        )
        different = config.differences(here)
        if different:
            raise InputError(f"the job was begun with another configuration: {'; '.join(different)}")
        if written.sampler is None:
            raise InputError(f"the job was begun with a sampler of your own, {written.text}: give it again")
        now, then = versions(), found.versions[-1]
        changed = [
            f"{key} {then[key]} there, {now[key]} here" for key in ("drawahead", "torch") if now[key] != then[key]
        ]
        if changed and not any_version:
            raise InputError(
                f"the job was begun with other versions ({'; '.join(changed)}), which may not draw the very same "
                "samples; to go on all the same, ask for any version"
            )
        return config, written.sampler

    def _pilot(self, chain: Chain, executor: Executor | None, seed: int, num_samples: int, pace: Pace) -> Result:
        return sample(
            chain,
            num_samples,
            sampler=self.sampler,
            seed=(seed + _OTHER_NOISE) % 2**63,
            max_batch_size=self.max_batch_size,
            max_live=self.max_live or 1024,
            executor=executor,
            graphs=self.graphs,
            on_round=pace,
            stop=pace,
        )
