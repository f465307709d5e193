"""A job while it is drawn: what is missing is drawn, shard after shard, and written down."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import final

import torch

from drawahead.errors import AnswerError, InputError, Interrupted, JobError, SamplingError
from drawahead.jobs import conditions, files, journal, lock, manifest, shards
from drawahead.jobs.config import Config, versions
from drawahead.jobs.job import no_report
from drawahead.jobs.manifest import Manifest, Shard
from drawahead.jobs.model import Drawer, Drawn, OnRound
from drawahead.jobs.request import JobRequest
from drawahead.jobs.status import Status
from drawahead.report import Report
from drawahead.sample import Result, Stop
from drawahead.samplers import Sampler
from drawahead.show.progress import Show, Standing, watching

COMPARED = 2**32
"""Bytes of finished shards up to which their sha256 is compared before a job goes on; beyond that, their sizes."""


@final
class JobRunner:
    """A job under way, in a folder that is ours."""

    def __init__(self, folder: Path, asked: JobRequest, drawer: Drawer, any_version: bool, token: str) -> None:
        """`token` is that of the folder's lock."""
        self.folder, self._drawer, self._token = folder, drawer, token
        self._shards: dict[int, Shard] = {}
        self.sampler: Sampler
        if (folder / manifest.NAME).exists():
            self._begun = journal.read(folder)
            self.config, self.sampler = asked.resumed(self._begun, drawer.facts, any_version=any_version)
            self._tidy()
            self._find()
        else:
            self.config = self._begin(asked)
            assert self.config.sampler.sampler is not None
            self.sampler = self.config.sampler.sampler
            self._begun = Manifest(self.config, datetime.now(UTC).isoformat(timespec="seconds"), [])
        self._note_versions()
        self._totals = manifest.totals([shard.report for shard in self._shards.values()])
        self._earlier, self._since = self._totals["num_samples"], perf_counter()
        self._status = Status(folder, self._earlier)

    @property
    def manifest(self) -> Manifest:
        """What is known about the job."""
        return replace(self._begun, shards=tuple(self._shards[index] for index in sorted(self._shards)))

    def run(self, on_round: Callable[[Report], None] | None, stop: Stop | None, show: Show | None) -> None:
        """Draw what is missing."""
        if stop is not None and stop.is_set():
            return

        def watch() -> OnRound:
            return watching(on_round, show, self._standing())

        missing = (index for index in range(self.config.shards) if index not in self._shards)
        try:
            self._look(show)
            with self._ending():
                for drawn in self._drawer.draw(self.config, self.sampler, missing, watch, stop):
                    self._keep(drawn)
                    self._look(show)
                    if stop is not None and stop.is_set():
                        break
        except BaseException as error:
            self._look(show, str(error), last=True)
            raise
        self._look(show, last=True)

    def _begin(self, asked: JobRequest) -> Config:
        try:
            config, condition = self._drawer.begin(asked)
            lock.check(self.folder, self._token)
            _make_shards(self.folder)
            conditions.write(self.folder, condition)
        except (SamplingError, AnswerError) as error:  # of a pilot
            why = error.__cause__ if isinstance(error, SamplingError) else error
            raise JobError(f"{why}; nothing was drawn yet", self.folder) from error
        except OSError as error:
            raise JobError(f"{error.strerror or error}; nothing was drawn yet", self.folder) from error
        return config

    def _keep(self, drawn: Sequence[Drawn]) -> None:
        """Put shards where they belong, and then write down that they are there."""
        if not drawn:
            return
        kept = {each.index: self._shard(each) for each in drawn}
        with self._writing():
            for each in drawn:
                lock.check(self.folder, self._token)
                path = self.folder / manifest.SHARDS / manifest.file_name(each.index)
                if each.data is None:
                    files.adopt(path.with_name(each.left), path)
                else:
                    files.write(path, each.data)
            lock.check(self.folder, self._token)
            journal.note(self.folder, list(kept.values()), self.config)
        self._shards |= kept
        self._totals = manifest.totals([self._totals, *(shard.report for shard in kept.values())])

    def _shard(self, drawn: Drawn) -> Shard:
        first, count = self.config.part(drawn.index)
        return Shard(manifest.file_name(drawn.index), first, count, drawn.size, drawn.sha256, drawn.report)

    def _tidy(self) -> None:
        """Remove what a crash left half-written."""
        with self._writing():
            _make_shards(self.folder)
            files.tidy(self.folder)
            files.tidy(self.folder / manifest.SHARDS)
            journal.mend(self.folder)

    def _find(self) -> None:
        """See that what was finished is as it was. What somebody removed is drawn again."""
        known = [shard for shard in self._begun.shards if (self.folder / manifest.SHARDS / shard.file).exists()]
        whole = sum(shard.bytes for shard in known) <= COMPARED
        for shard in known:
            shards.check(self.folder, shard, self.config, whole=whole)
            self._shards[shard.first // self.config.shard_size] = shard

    def _note_versions(self) -> None:
        """Write the manifest of a new job, or of one that other versions go on with."""
        now = versions()
        last = self._begun.versions[-1] if self._begun.versions else {}
        if now != {key: last.get(key) for key in now}:
            noted = [*self._begun.versions, {**now, "shard": len(self._shards)}]
            self._begun = replace(self._begun, versions=noted)
            with self._writing():
                lock.check(self.folder, self._token)
                journal.close(self.folder, self.manifest)

    def _standing(self) -> Standing:
        done, steps = self._totals["num_samples"], self.config.steps
        return Standing(
            self.config.num,
            done,
            steps,
            done * steps,
            self._totals["rounds"],
            self._totals["queries"],
            perf_counter() - self._since,
            earlier=self._earlier * steps,
        )

    def _look(self, show: Show | None, error: str = "", *, last: bool = False) -> None:
        """Tell whoever looks how far it is, if the folder is still ours."""
        if not last:
            lock.check(self.folder, self._token)
        elif not lock.held(self.folder, self._token):
            return
        workers = self._drawer.workers()
        self._status.tell(self._totals["num_samples"], workers, error, last=last)
        if show is not None and workers:
            standing = self._standing()
            first, *rest = standing.parts()
            show(standing.share, [first, f"{workers['ready']} of {workers['workers']} workers", *rest])

    @contextmanager
    def _ending(self) -> Iterator[None]:
        """However the drawing ends: say what is kept, and take the journal into the manifest."""
        try:
            yield
            with self._writing():
                self._close()
        except KeyboardInterrupt as error:
            result = error.result if isinstance(error, Interrupted) else _nothing(self.config)
            raise Interrupted(f"interrupted; {self._kept()}", result) from error
        except (SamplingError, AnswerError) as error:
            why = error.__cause__ if isinstance(error, SamplingError) else error
            raise JobError(f"{why}; {self._kept()}", self.folder) from error
        finally:
            with suppress(OSError, JobError):  # whatever is finished is in the journal as well
                self._close()

    def _close(self) -> None:
        lock.check(self.folder, self._token)
        if (self.folder / journal.NAME).exists():
            journal.close(self.folder, self.manifest)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise JobError(f"{error.strerror or error}; {self._kept()}", self.folder) from error

    def _kept(self) -> str:
        if not lock.held(self.folder, self._token):
            return f"nothing is kept, for {self.folder} was deleted or replaced meanwhile"
        told = journal.lines(self.folder, self.config)  # Ctrl-C may have come before the last one was remembered
        self._shards |= {shard.first // self.config.shard_size: shard for shard in told}
        kept = sum(shard.count for shard in self._shards.values())
        return f"{kept} of {self.config.num} samples are kept in {self.folder}"


def _make_shards(folder: Path) -> None:
    (folder / manifest.SHARDS).mkdir(exist_ok=True)
    if not files.is_folder(folder / manifest.SHARDS):
        raise InputError(f"{folder / manifest.SHARDS} is not a folder")


def _nothing(config: Config) -> Result:
    values = torch.zeros(0, *config.shape, dtype=config.torch_dtype)
    return Result(values, torch.zeros(0, dtype=torch.int64), no_report(config), complete=False)
