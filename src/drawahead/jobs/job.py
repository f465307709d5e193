"""A job as it is on disk."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import final

import torch
from torch import Tensor

from drawahead.errors import InputError
from drawahead.history import History
from drawahead.jobs import shards
from drawahead.jobs.config import Config
from drawahead.jobs.manifest import Manifest, read_manifest
from drawahead.jobs.shards import OtherJob, Shard
from drawahead.oracles.condition import Given
from drawahead.report import Report
from drawahead.rounds.run import TRACED
from drawahead.validate import path, whole
from drawahead.words import printable

Folder = str | os.PathLike[str]


@final
class Job:
    """What there is of a job: its configuration, the shards that are finished, their samples and costs.

    It is the state at one moment: a job that somebody goes on drawing has to be read again.
    """

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder = folder
        self.manifest = manifest
        self.shards: tuple[Shard, ...] = shards.listed(folder, manifest.config, manifest.records)
        """The finished shards, in order."""

    @property
    def config(self) -> Config:
        return self.manifest.config

    @cached_property
    def num_samples(self) -> int:
        """Samples finished from the first one on: those with numbers 0 ... num_samples-1. Workers may be further."""
        end = 0
        for shard in self.shards:
            if shard.first != end:
                break
            end += shard.count
        return end

    @property
    def finished(self) -> int:
        """All samples finished, also those whose number comes after that of a missing one."""
        return sum(shard.count for shard in self.shards)

    @property
    def complete(self) -> bool:
        """Whether all samples are there."""
        return self.finished == self.config.num

    @property
    def condition(self) -> Given:
        """The tables that the model was told, a row for each sample; empty if there are none."""
        return shards.condition(self.folder, self.config.condition)

    @property
    def has_condition(self) -> bool:
        """Whether the file of the condition is there, and sound; also where there is none to be."""
        try:
            return self.condition is not None
        except InputError:
            return False

    def samples(self, first: int = 0, count: int | None = None) -> Tensor:
        """Samples first ... first+count-1, or all from `first` on (count, ...). Only their shards are read."""
        first = whole("first", first, 0)
        count = self.num_samples - first if count is None else whole("count", count, 0)
        if first + max(count, 0) > self.num_samples or count < 0:
            raise InputError(f"the job has samples 0 ... {self.num_samples - 1}: not {count} from {first} on")
        parts = [torch.zeros(0, *self.config.shape, dtype=self.config.torch_dtype)]
        for shard in self.shards:
            begin, end = max(first, shard.first), min(first + count, shard.first + shard.count)
            if begin < end:
                values = shards.samples(shard, self.config)
                parts.append(values[begin - shard.first : end - shard.first])
        return torch.cat(parts)

    def parts(self) -> Iterator[Tensor]:
        """Samples 0 ... num_samples-1, shard by shard: what is more than memory holds can be gone through like this."""
        for shard in self.shards:
            if shard.first >= self.num_samples:
                return
            yield shards.samples(shard, self.config)

    @cached_property
    def report(self) -> Report:
        """What all finished shards cost together, as if one run had drawn them one after another."""
        reports = [shards.report(shard) for shard in self.shards]
        if not reports:
            return no_report(self.config)
        spent, chosen = self.manifest, self.config.sampler
        return replace(
            merged(reports),
            choice=chosen.choice,
            probes=chosen.probes,
            seconds=spent.seconds,
            oracle_seconds=spent.oracle_seconds,
        )

    def damaged(self) -> list[Shard]:
        """Read every finished shard. -> those that do not have the sha256 that they should have. One that is sound, but
        of another job, is an InputError: it is not ours to draw again."""
        return [shard for shard in self.shards if not sound(shard, self.config)]

    def look(self) -> None:
        """Read shards until one is sound: samples have the shape that the manifest tells, or this is an InputError."""
        if not any(sound(shard, self.config) for shard in self.shards):
            self.verify()

    def verify(self) -> None:
        """Read every finished shard, and the condition; an InputError says which one is damaged."""
        _ = self.condition
        for shard in self.shards:
            shards.samples(shard, self.config)

    def __repr__(self) -> str:
        done = f"{self.finished} of {self.config.num} samples"
        return f"Job({str(self.folder)!r}: {printable(self.config.name)}, {done})"


def read(folder: Folder) -> Job:
    """The job in a folder, whether it is complete or not, or even being drawn."""
    place = path("folder", folder)
    return Job(place, read_manifest(place))


def sound(shard: Shard, config: Config, *, whole: bool = True) -> bool:
    """Whether a shard is what it should be; if not `whole`, as far as its head tells."""
    try:
        shards.check(shard, config, whole=whole)
    except OtherJob:
        raise
    except InputError:
        return False
    return True


def no_report(config: Config) -> Report:
    """The report of a job of which nothing is drawn yet."""
    written = config.sampler
    return Report(
        sampler=written.text,
        choice=written.choice,
        exact=written.sampler is not None and written.sampler.guarantee.exact,
        seed=config.seed,
        num_samples=0,
        steps=config.steps,
        rounds=0,
        passes=0,
        probes=written.probes,
        rereads=0,
        drafted=0,
        accepted=0,
        candidates=0,
        seconds=0.0,
        oracle_seconds=0.0,
        history=History(),
    )


def merged(reports: Sequence[Report]) -> Report:
    """The report of runs one after another, on consecutive samples."""
    first = reports[0]
    summed = ("num_samples", "rounds", "passes", "probes", "rereads", "drafted", "accepted", "candidates")
    progress = {number: steps for report in reports for number, steps in report.progress.items() if number < TRACED}
    rounds = torch.tensor([taken for report in reports for taken in report.sample_rounds], dtype=torch.int64)
    return replace(
        first,
        **{name: sum(getattr(report, name) for report in reports) for name in summed},
        exact=all(report.exact for report in reports),
        history=History(
            [width for report in reports for width in report.widths],
            [committed for report in reports for committed in report.committed],
            [drafts for report in reports for drafts in report.drafts],
            [kept for report in reports for kept in report.kept],
            [(torch.arange(len(rounds)), rounds)],
            progress,
        ),
    )
