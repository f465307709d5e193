"""A job while it is drawn: what is missing is drawn, shard after shard, and written down."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import final

from drawahead.errors import InputError, Interrupted, JobError, SamplingError
from drawahead.jobs import files, manifest, shards
from drawahead.jobs.config import Config, versions
from drawahead.jobs.manifest import Manifest, Shard
from drawahead.jobs.request import JobRequest
from drawahead.progress import Show, Standing, watching
from drawahead.report import Report
from drawahead.sample import Result, Stop, sample


@final
class JobRunner:
    """A job under way, in a folder that is ours."""

    def __init__(self, folder: Path, asked: JobRequest, any_version: bool) -> None:
        self.folder, self.executor, self.chain = folder, asked.executor, asked.chain
        if (folder / manifest.NAME).exists():
            self.manifest = manifest.read(folder)
            config, self.sampler = asked.resumed(self.manifest, any_version=any_version)
            self._tidy()
        else:
            config = self._begun(asked)
            assert config.sampler.sampler is not None
            self.sampler = config.sampler.sampler
            self.manifest = Manifest(config, datetime.now(UTC).isoformat(timespec="seconds"), [])
            self._tidy()
        self._note_versions()
        self.config = config

    def _begun(self, asked: JobRequest) -> Config:
        try:
            return asked.begun()
        except SamplingError as error:  # of a pilot
            raise JobError(f"{error.__cause__}; nothing was drawn yet", self.folder) from error

    def run(self, on_round: Callable[[Report], None] | None, stop: Stop | None, show: Show | None) -> None:
        """Draw what is missing."""
        standing = self._standing()
        for index in range(self.config.shards):
            if self._there(index):
                continue
            if stop is not None and stop.is_set():
                return
            result = self._drawn(index, watching(on_round, show, standing), stop)
            if not result.complete:
                return
            standing = standing.plus(result.report)
            self._keep(index, result)

    def _drawn(self, index: int, watch: Callable[[Report], None] | None, stop: Stop | None) -> Result:
        config, (first, count) = self.config, self.config.part(index)
        try:
            return sample(
                self.chain,
                count,
                first=first,
                sampler=self.sampler,
                seed=config.seed,
                max_batch_size=config.max_batch_size,
                max_live=config.max_live,
                executor=self.executor,
                graphs=config.graphs,
                on_round=watch,
                stop=stop,
            )
        except Interrupted as error:
            raise Interrupted(f"interrupted; {self._kept()}", error.result) from error
        except SamplingError as error:
            raise JobError(f"{error.__cause__}; {self._kept()}", self.folder) from error

    def _keep(self, index: int, result: Result) -> None:
        """Write a shard, and then that it is there."""
        data = shards.encoded(result)
        first, count = self.config.part(index)
        file = manifest.file_name(index)
        totals = manifest.totals([result.report.totals()])
        shard = Shard(file, first, count, len(data), files.sha256(data), totals)
        kept = list(self.manifest.shards)
        kept[index : index + 1] = [shard]
        with self._writing():
            files.write(self.folder / manifest.SHARDS / file, data)
            after = replace(self.manifest, shards=tuple(kept))
            after.write(self.folder)
            self.manifest = after

    def _there(self, index: int) -> bool:
        """Whether a shard is finished. One that the manifest tells of and somebody removed is drawn again."""
        known = self.manifest.shards[index : index + 1]
        return bool(known) and (self.folder / manifest.SHARDS / known[0].file).exists()

    def _tidy(self) -> None:
        """Remove what a crash left half-written; see that what was finished is as it was."""
        with self._writing():
            (self.folder / manifest.SHARDS).mkdir(exist_ok=True)
            if not files.is_folder(self.folder / manifest.SHARDS):
                raise InputError(f"{self.folder / manifest.SHARDS} is not a folder")
            files.tidy(self.folder)
            files.tidy(self.folder / manifest.SHARDS)
        for index, shard in enumerate(self.manifest.shards):
            if self._there(index):
                shards.read(self.folder, shard)

    def _note_versions(self) -> None:
        """Write the manifest of a new job, or of one that other versions go on with."""
        now = versions()
        last = self.manifest.versions[-1] if self.manifest.versions else {}
        if now != {key: last.get(key) for key in now}:
            noted = [*self.manifest.versions, {**now, "shard": len(self.manifest.shards)}]
            self.manifest = replace(self.manifest, versions=noted)
            with self._writing():
                self.manifest.write(self.folder)

    def _standing(self) -> Standing:
        totals = manifest.totals([shard.report for shard in self.manifest.shards])
        done, steps = totals["num_samples"], self.config.steps
        earlier = done * steps
        return Standing(
            self.config.num, done, steps, earlier, totals["rounds"], totals["queries"], 0.0, earlier=earlier
        )

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise JobError(f"{error.strerror or error}; {self._kept()}", self.folder) from error

    def _kept(self) -> str:
        kept = sum(shard.count for shard in self.manifest.shards)
        return f"{kept} of {self.manifest.config.num} samples are kept in {self.folder}"
