"""A job while it is drawn: what is missing is drawn, shard after shard, and written into the folder."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Any, final

import torch

from drawahead.errors import AnswerError, InputError, Interrupted, JobError, SamplingError
from drawahead.jobs import lock, shards
from drawahead.jobs.config import Config, versions
from drawahead.jobs.job import FORMAT, JOURNAL, Manifest, read_manifest
from drawahead.jobs.model import Drawn, JobRequest, Model, OnRound
from drawahead.jobs.store import Status, Store
from drawahead.jobs.workers import Pooled
from drawahead.rounds.run import Result, Stop
from drawahead.samplers import Auto
from drawahead.samplers.record import SamplerRecord
from drawahead.show.progress import RunProgress, Show, watching
from drawahead.words import printable


@final
class JobRunner:
    """A job under way, in a folder that is ours."""

    def __init__(self, store: Store, asked: JobRequest, drawer: Model | Pooled, any_version: bool) -> None:
        self._store, self.folder, self._drawer = store, store.folder, drawer
        self.damaged: set[int] = set()
        """Finished shards that are to be drawn again."""
        if store.begun:
            self.manifest = read_manifest(self.folder)
            self.config = resumed(self.manifest, asked, drawer.facts, any_version=any_version)
        else:
            try:
                self.config = drawer.begin(asked)
            except (SamplingError, AnswerError, OSError) as error:
                raise _stopped(error, self.folder, "nothing was drawn yet") from error
            self.manifest = Manifest(self.config, datetime.now(UTC).isoformat(timespec="seconds"), [])
        with self._telling():
            store.make(shards.SHARDS)
            self._find_damage()
            self._restore()
        done = sum(self.config.part(index)[1] for index in self._there())
        steps = self.config.steps
        self._since, self._status = perf_counter(), Status(self.folder, done)
        self._standing = RunProgress(self.config.num, done, steps, done * steps, earlier=done * steps)

    def missing(self) -> list[int]:
        """The shards that are not there, or damaged."""
        there = self._there()
        return [index for index in range(self.config.shards) if index not in there]

    def run(
        self, missing: Iterable[int], on_round: OnRound = None, stop: Stop | None = None, show: Show | None = None
    ) -> None:
        """Draw what is missing. However that ends, say what is kept, and write down the time that it took."""
        if stop is not None and stop.is_set():
            return
        begun = self.manifest
        try:
            with self._telling():
                self._look(show)
                drawing = self._drawer.draw(self.config, missing, lambda: watching(on_round, show, self._now()), stop)
                for group in drawing:
                    for drawn in group:
                        self._keep(drawn)
                    self._look(show)
                    if stop is not None and stop.is_set():
                        break
        except BaseException as error:
            if self._store.held:
                self._status.tell(self._standing.done, self._drawer.workers(), str(error) or repr(error))
            raise
        finally:
            if self.manifest != begun:
                with suppress(OSError, JobError):  # the shards are there without it
                    self.manifest.write(self._store)
        if self._store.held:
            self._status.end()

    def _find_damage(self) -> None:
        """See which finished shards are damaged: they are drawn again."""
        there = shards.listed(self.folder, self.config, self.manifest.records)
        damaged = [shard for shard in there if not shard.sound()]
        self.damaged = {shard.index for shard in damaged}
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
        return {shard.index for shard in shards.listed(self.folder, self.config, {})} - self.damaged

    def _keep(self, drawn: Drawn) -> None:
        """Put a shard where it belongs."""
        name, count = shards.file_name(drawn.index), self.config.part(drawn.index)[1]
        self._store.write(self._store.part(name), drawn.data)
        self.damaged.discard(drawn.index)
        self.manifest = self.manifest.plus(name, drawn.totals)
        before = self._standing
        self._standing = replace(
            before,
            done=before.done + count,
            committed=before.committed + count * self.config.steps,
            rounds=before.rounds + drawn.totals["rounds"],
            queries=before.queries + drawn.totals["queries"],
        )

    def _now(self) -> RunProgress:
        return replace(self._standing, seconds=perf_counter() - self._since)

    def _look(self, show: Show | None) -> None:
        """Tell whoever looks how far it is, if the folder is still ours."""
        lock.check(self.folder, self._store.token)
        workers = self._drawer.workers()
        self._status.tell(self._standing.done, workers)
        if show is not None and workers:
            now = self._now()
            first, *rest = now.parts()
            show(now.share, [first, f"{workers['ready']} of {workers['workers']} workers", *rest])

    @contextmanager
    def _telling(self) -> Iterator[None]:
        """Whatever stops the job: say why, and what is kept."""
        try:
            yield
        except KeyboardInterrupt as error:
            result = error.result if isinstance(error, Interrupted) else _nothing(self.config)
            raise Interrupted(f"interrupted; {self._kept()}", result) from error
        except (SamplingError, AnswerError, OSError) as error:
            raise _stopped(error, self.folder, self._kept()) from error

    def _kept(self) -> str:
        if not self._store.held:
            return f"nothing is kept, for {self.folder} was deleted or replaced meanwhile"
        kept = sum(self.config.part(index)[1] for index in self._there())
        return f"{kept} of {self.config.num} samples are kept in {self.folder}"


def resumed(manifest: Manifest, asked: JobRequest, facts: dict[str, Any], *, any_version: bool) -> Config:
    """The configuration of the job to go on with, if that is what is asked for; with its sampler, even one of the
    user's own."""
    config, written = manifest.config, manifest.config.sampler
    if asked.sampler is not None and not (isinstance(asked.sampler, Auto) and written.choice):
        written = SamplerRecord(repr(asked.sampler), asked.sampler, written.choice, written.probes)
    given = {key: value for key, value in vars(asked).items() if value is not None}
    if asked.shard_size is not None:
        given["shard_size"] = min(asked.shard_size, asked.num)
    here = replace(config, **given | facts | {"sampler": written})
    different = config.differences(here)
    if different:
        raise InputError(f"the job was begun with another configuration: {'; '.join(different)}")
    if written.sampler is None:
        raise InputError(f"the job was begun with a sampler of your own, {written.text}: give it again")
    now, then = versions(), manifest.versions[-1]
    changed = [f"{key} {then[key]} there, {now[key]} here" for key in ("drawahead", "torch") if now[key] != then[key]]
    if changed and not any_version:
        raise InputError(
            f"the job was begun with other versions ({'; '.join(changed)}), which may not draw the very same "
            "samples; to go on all the same, ask for any version"
        )
    return replace(config, sampler=written)


def _stopped(error: Exception, folder: Path, kept: str) -> JobError:
    why = error.__cause__ if isinstance(error, SamplingError) else getattr(error, "strerror", None) or error
    return JobError(f"{why}; {kept}", folder)


def _nothing(config: Config) -> Result:
    values = torch.zeros(0, *config.shape, dtype=config.torch_dtype)
    return Result(values, torch.zeros(0, dtype=torch.int64), shards.merged([], config), complete=False)
