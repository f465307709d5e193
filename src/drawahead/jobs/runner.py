"""A job while it is drawn: what is missing is drawn, shard after shard, and written into the folder."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from time import perf_counter
from typing import final

import torch

from drawahead.errors import AnswerError, InputError, Interrupted, JobError, SamplingError
from drawahead.jobs import lock, shards
from drawahead.jobs.config import Config, versions
from drawahead.jobs.job import FORMAT, JOURNAL, Manifest, read_manifest, sound
from drawahead.jobs.request import Drawer, JobRequest, OnRound
from drawahead.jobs.shards import Drawn
from drawahead.jobs.store import Status, Store
from drawahead.rounds.run import Result, Stop
from drawahead.samplers import Sampler
from drawahead.show.progress import RunProgress, Show, watching
from drawahead.words import printable

COMPARED = 2**32
"""Bytes of finished shards up to which their sha256 is compared before a job goes on; beyond that, their heads."""


@final
class JobRunner:
    """A job under way, in a folder that is ours."""

    def __init__(self, store: Store, asked: JobRequest, drawer: Drawer, any_version: bool) -> None:
        self._store, self.folder, self._drawer = store, store.folder, drawer
        self.damaged: set[int] = set()
        """Finished shards that are to be drawn again."""
        if store.begun:
            self.manifest = read_manifest(self.folder)
            self.config, self.sampler = asked.resumed(self.manifest, drawer.facts, any_version=any_version)
            with self._writing():
                store.make(shards.SHARDS)
            self._find()
        else:
            self.config, self.sampler = self._begin(asked)
            self.manifest = Manifest(self.config, datetime.now(UTC).isoformat(timespec="seconds"), [])
        with self._writing():
            self._restore()
        self._done = self._earlier = sum(self.config.part(index)[1] for index in self._there())
        self._rounds = self._queries = 0
        self._since, self._status = perf_counter(), Status(self.folder, self._earlier)

    def missing(self) -> list[int]:
        """The shards that are not there, or damaged."""
        there = self._there()
        return [index for index in range(self.config.shards) if index not in there]

    def run(
        self, missing: Iterable[int], on_round: OnRound = None, stop: Stop | None = None, show: Show | None = None
    ) -> None:
        """Draw what is missing."""
        if stop is not None and stop.is_set():
            return

        def watch() -> OnRound:
            return watching(on_round, show, self._standing())

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

    def _begin(self, asked: JobRequest) -> tuple[Config, Sampler]:
        try:
            config = self._drawer.begin(asked)
            lock.check(self.folder, self._store.token)
            self._store.make(shards.SHARDS)
        except (SamplingError, AnswerError) as error:  # of a pilot
            why = error.__cause__ if isinstance(error, SamplingError) else error
            raise JobError(f"{why}; nothing was drawn yet", self.folder) from error
        except OSError as error:
            raise JobError(f"{error.strerror or error}; nothing was drawn yet", self.folder) from error
        assert config.sampler.sampler is not None
        return config, config.sampler.sampler

    def _find(self) -> None:
        """See which finished shards are damaged: they are drawn again."""
        there = shards.listed(self.folder, self.config, self.manifest.records)
        whole = sum(shard.path.lstat().st_size for shard in there) <= COMPARED
        damaged = [shard for shard in there if not sound(shard, self.config, whole=whole)]
        self.damaged = {shard.first // self.config.shard_size for shard in damaged}
        if damaged:
            names = ", ".join(shard.file for shard in damaged[:5]) + (" ..." if len(damaged) > 5 else "")
            words = printable(f"damaged in {self.folder}, and drawn again: {names} ({len(damaged)} in all)")
            warnings.warn(words, RuntimeWarning, stacklevel=4)

    def _restore(self) -> None:
        """Write what should be there: the condition, if it is damaged or gone; and the manifest, of a new job, of an
        earlier format, or with the versions that go on with it."""
        try:
            shards.condition(self.folder, self.config.condition)
        except InputError:
            self._store.write(self.folder / shards.CONDITION, shards.encoded_condition(self._drawer.condition()))
        now, noted = versions(), self.manifest.versions
        last = noted[-1] if noted else {}
        if now != {key: last.get(key) for key in now}:
            self.manifest = replace(self.manifest, versions=[*noted, {**now, "shard": len(self._there())}])
        if self.manifest.versions != noted or self.manifest.format != FORMAT:
            self.manifest.write(self._store)
            (self.folder / JOURNAL).unlink(missing_ok=True)

    def _there(self) -> set[int]:
        """The shards that are there, and sound."""
        listed = shards.listed(self.folder, self.config, {})
        return {shard.first // self.config.shard_size for shard in listed} - self.damaged

    def _keep(self, drawn: Sequence[Drawn]) -> None:
        """Put shards where they belong."""
        for each in drawn:
            name = shards.file_name(each.index)
            with self._writing():
                if each.data is None:
                    self._store.adopt(each.left, name)
                else:
                    self._store.write(self._store.part(name), each.data)
            self.damaged.discard(each.index)
            self._done += self.config.part(each.index)[1]
            self._rounds += each.totals["rounds"]
            self._queries += each.totals["queries"]
            self.manifest = self.manifest.plus(name, each.totals)

    def _standing(self) -> RunProgress:
        steps = self.config.steps
        return RunProgress(
            self.config.num,
            self._done,
            steps,
            self._done * steps,
            self._rounds,
            self._queries,
            perf_counter() - self._since,
            earlier=self._earlier * steps,
        )

    def _look(self, show: Show | None, error: str = "", *, last: bool = False) -> None:
        """Tell whoever looks how far it is, if the folder is still ours."""
        if not last:
            lock.check(self.folder, self._store.token)
        elif not self._store.held:
            return
        workers = self._drawer.workers()
        self._status.tell(self._done, workers, error, last=last)
        if show is not None and workers:
            standing = self._standing()
            first, *rest = standing.parts()
            show(standing.share, [first, f"{workers['ready']} of {workers['workers']} workers", *rest])

    @contextmanager
    def _ending(self) -> Iterator[None]:
        """However the drawing ends: say what is kept, and write down the time that it took."""
        begun = self.manifest
        try:
            yield
        except KeyboardInterrupt as error:
            result = error.result if isinstance(error, Interrupted) else _nothing(self.config)
            raise Interrupted(f"interrupted; {self._kept()}", result) from error
        except (SamplingError, AnswerError) as error:
            why = error.__cause__ if isinstance(error, SamplingError) else error
            raise JobError(f"{why}; {self._kept()}", self.folder) from error
        finally:
            if self.manifest != begun:
                with suppress(OSError, JobError):  # the shards are there without it
                    self.manifest.write(self._store)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise JobError(f"{error.strerror or error}; {self._kept()}", self.folder) from error

    def _kept(self) -> str:
        if not self._store.held:
            return f"nothing is kept, for {self.folder} was deleted or replaced meanwhile"
        kept = sum(self.config.part(index)[1] for index in self._there())
        return f"{kept} of {self.config.num} samples are kept in {self.folder}"


def _nothing(config: Config) -> Result:
    values = torch.zeros(0, *config.shape, dtype=config.torch_dtype)
    return Result(values, torch.zeros(0, dtype=torch.int64), shards.no_report(config), complete=False)
