"""A design job: structures in, FASTA files and a table out. What fails is named, and the rest is done."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import final

import torch

from drawahead.errors import DrawaheadError, InputError, JobError
from drawahead.executors.actors import RayWorkers
from drawahead.jobs import files
from drawahead.proteins.design import sources
from drawahead.proteins.design.designer import WORKER_BYTES, Designer, DesignWorker, Outcome, StructureGroup, shared
from drawahead.proteins.design.folder import Folder, Part, begun
from drawahead.proteins.design.options import Options
from drawahead.proteins.structures.files import Backbone
from drawahead.report import Report
from drawahead.show.progress import clock
from drawahead.validate import as_device
from drawahead.values import dataclass


@final
@dataclass
class DesignProgress:
    """How far a job has come."""

    structures: int = 0
    sequences: int = 0
    done: int = 0
    """Structures finished or failed."""
    drawn: int = 0
    """Sequences finished."""
    rounds: int = 0
    seconds: float = 0.0
    earlier: int = 0
    """Structures that were finished before the job was resumed."""

    def parts(self) -> list[str]:
        """In words."""
        words = [f"{self.done}/{self.structures} structures", f"{self.drawn}/{self.sequences} sequences"]
        words.append(f"{self.rounds} rounds")
        new = self.done - self.earlier
        if new and self.done < self.structures:
            words.append(f"{clock(self.seconds / new * (self.structures - self.done))} left")
        return words

    @property
    def share(self) -> float:
        """The share of structures that are done."""
        return self.done / self.structures if self.structures else 0.0


Watch = Callable[[DesignProgress], None]


@final
@dataclass(frozen=True)
class DesignJob:
    """The result of a job."""

    folder: Path
    parts: dict[str, Part]
    failed: dict[str, str]
    """What is wrong with structures that could not be designed."""
    standing: DesignProgress = field(repr=False)


def run(
    folder: str | Path,
    structures: Sequence[str | Path],
    asked: Options | None = None,
    *,
    device: str = "cpu",
    batch: int | None = None,
    resume: bool = False,
    workers: RayWorkers | None = None,
    watch: Watch | None = None,
    on_fail: Callable[[str, str], None] | None = None,
) -> DesignJob:
    """Design all structures of these files and folders, and write FASTA files and a table into `folder`.

    asked: the options. batch: the most sequences that are drawn at a time. workers: of a Ray cluster, which each hold
    the model and design whole structures on `device`; this machine need not have one. watch: called as the job goes on.
    on_fail: called with the name of a structure that cannot be designed, and why; the others are designed all the same.
    """
    options = asked or Options()
    where = torch.device(device) if workers else as_device("device", device)
    designer = Designer.of(options, where, batch)
    about = {
        "asked": options.to_dict(),
        "structures": [str(Path(path).absolute()) for path in structures],
        "weights": files.sha256(designer.file.read_bytes()),
        "files": designer.sums,
    }
    home = Path(folder)
    found, wrong = sources.find(structures)
    try:
        with Folder.opened(home, about, resume=resume) as opened:
            work = _Work(opened, designer, workers, watch, on_fail)
            parts = work.all(found, wrong)
            opened.write_table(parts, options.seed)
    except OSError as error:
        why = f"{error.strerror or error}; what is finished is kept in {home}: resume it"
        raise JobError(why, home) from error
    return DesignJob(home, parts, work.failed, work.standing)


@final
@dataclass
class _Work:
    folder: Folder
    designer: Designer
    workers: RayWorkers | None
    watch: Watch | None
    on_fail: Callable[[str, str], None] | None
    failed: dict[str, str] = field(default_factory=dict)
    standing: DesignProgress = field(default_factory=DesignProgress)

    def all(self, found: Mapping[str, Path], wrong: Mapping[str, str]) -> dict[str, Part]:
        """The finished part of every structure, in their order, after designing those that were not finished."""
        options = self.designer.options
        each = options.num * len(options.temperature)
        self.standing.structures, self.standing.sequences = len(found) + len(wrong), len(found) * each
        for name, why in wrong.items():
            self._fail(name, why)
        parts: dict[str, Part] = {}
        waiting: dict[str, Backbone] = {}
        sums: dict[str, str] = {}
        for name, path in found.items():
            try:
                sums[name] = files.sha256(_bytes(path))
                done = self.folder.finished(name, sums[name], each)
                if done is None:
                    waiting[name] = self.designer.read(path)
                    continue
            except DrawaheadError as error:
                self._fail(name, str(error))
                continue
            parts[name] = done
            self._count(done=1, drawn=each, earlier=1)
        began = time.perf_counter()
        most = WORKER_BYTES if self.workers else None
        together = shared(waiting, self.designer.weights.neighbours, self.designer.device, most)
        for outcome in self._outcomes([{name: waiting[name] for name in names} for names in together]):
            for name, why in outcome.failed.items():
                self._fail(name, why)
            for name, part in outcome.parts.items():
                parts[name] = replace(part, sha256=sums[name])
                self.folder.keep(name, parts[name])
                self.standing.seconds = time.perf_counter() - began
                self._count(done=1, drawn=each)
        return {name: parts[name] for name in found if name in parts}

    def _outcomes(self, groups: Sequence[StructureGroup]) -> Iterator[Outcome]:
        """In the order in which they end."""
        if self.workers is None:
            designer = self.designer.there()
            for group in groups:
                yield designer.together(group, self._on_round)
        elif groups:
            with self.workers.pool(DesignWorker, lambda: self.designer) as pool:
                for ended in pool.stream(groups):
                    for _, outcome in ended:
                        self._count(rounds=outcome.rounds)
                        yield outcome

    def _fail(self, name: str, why: str) -> None:
        self.failed[name] = why
        if self.on_fail is not None:
            self.on_fail(name, why)
        self._count(done=1)

    def _count(self, **more: int) -> None:
        """Add to the numbers of the progress, and show it."""
        for name, number in more.items():
            setattr(self.standing, name, getattr(self.standing, name) + number)
        if self.watch is not None:
            self.watch(self.standing)

    def _on_round(self, report: Report) -> None:
        self._count(rounds=1)


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read the structure {path}: {error.strerror or error}") from None


def settings(folder: str | Path) -> tuple[Options, list[str]]:
    """The options and structures that the job in a folder was begun with."""
    manifest = begun(Path(folder))
    options, paths = manifest.get("asked"), manifest.get("structures")
    if not isinstance(options, dict) or not isinstance(paths, list):
        raise InputError(f"{folder} holds no design job")
    return Options.of(options), [str(path) for path in paths]
