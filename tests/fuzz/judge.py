"""The one rule of the command line: it ends with 0, or with one line on stderr and another status, whatever it is told.

Nothing that is judged is imported here: commands run in another process, under limits of memory and time, and what
they print and write is looked at.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PASSED, FAILED, USAGE, DIFFERS, INTERRUPTED = 0, 1, 2, 3, 130
GIGABYTES = 3.0
HEARD = 2.0
"""Seconds within which Ctrl-C is to be heard; on a machine that does other things too it is given more."""
SLACK = float(os.environ.get("DRAWAHEAD_SLACK", "5"))
CONTROL = {*range(32), 127, *range(128, 160), 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)} - {10}
WRITTEN = (".fa", ".fasta", ".csv", ".json", ".html", ".txt", ".tsv")
"""Endings of files with text that people look at."""


@dataclass(frozen=True)
class Case:
    """A command, and files that are put beside it first."""

    arguments: tuple[str, ...]
    files: dict[str, bytes] = field(default_factory=dict)
    seconds: float = 10.0
    """After so long it gets Ctrl-C: what was asked for may well take hours."""
    late: float = HEARD + SLACK
    """Seconds after which Ctrl-C should have been heard."""
    patch: str = ""
    """What is done to the program first: a fault put back."""

    def __repr__(self) -> str:
        shown = " ".join(ascii(word)[1:-1][:80] or "''" for word in self.arguments)
        return f"drawahead {shown}" + "".join(f" [{name}: {data[:60]!r}]" for name, data in self.files.items())


@dataclass(frozen=True)
class Outcome:
    """What became of it."""

    status: int
    out: bytes
    err: bytes
    seconds: float
    heard: float | None
    beside: tuple[str, ...]
    written: dict[str, bytes]

    @property
    def lines(self) -> list[str]:
        return self.err.decode("utf-8", "replace").splitlines()


class Commands:
    """Runs commands in copies of a folder."""

    def __init__(self, template: Path) -> None:
        self.template = template
        self.keep: Path | None = None
        """A folder that keeps what commands write, while it is set."""
        self.processor = 0.0
        """Seconds of it that all commands took."""
        here = Path(__file__)
        environment = dict(os.environ) | {"OMP_NUM_THREADS": "1", "COLUMNS": "300", "PYTHONHASHSEED": "0"}
        for name in ("FORCE_COLOR", "PROTEINMPNN_WEIGHTS", "_DRAWAHEAD_COMPLETE"):
            environment.pop(name, None)
        self._process = subprocess.Popen(
            [sys.executable, str(here.with_name("zygote.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            start_new_session=True,
        )
        self._around = Path(tempfile.mkdtemp())
        self._told()

    def _told(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the process that runs commands has ended"
        return json.loads(line)

    def __call__(self, case: Case) -> Outcome:
        shutil.rmtree(self._around)  # the same place for each: jobs record where they were begun
        home = self._around / "here"
        shutil.copytree(self.template, home, symlinks=True)
        for name, data in case.files.items():
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            (home / name).write_bytes(data)
        before = {path: path.stat().st_mtime_ns for path in home.rglob("*") if path.is_file()}
        limits = {"seconds": case.seconds, "gigabytes": GIGABYTES, "late": case.late + 1}
        words = {"arguments": case.arguments, "home": str(home), "patch": case.patch, **limits}
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(words) + "\n")
        self._process.stdin.flush()
        told = self._told()
        self.processor += told["processor"]
        written = {
            str(path.relative_to(home)): path.read_bytes()
            for path in home.rglob("*")
            if path.suffix in WRITTEN and path.is_file() and before.get(path) != path.stat().st_mtime_ns
        }
        if self.keep is not None:
            shutil.copytree(home, self.keep, dirs_exist_ok=True)
        return Outcome(
            told["status"],
            (self._around / "stdout").read_bytes(),
            (self._around / "stderr").read_bytes(),
            told["seconds"],
            told["heard"],
            tuple(sorted(path.name for path in self._around.iterdir())),
            written,
        )

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)
        shutil.rmtree(self._around)


def fault(case: Case, seen: Outcome) -> str:
    """What breaks the rule; nothing if it is kept."""
    words = case.arguments
    if seen.heard is not None and seen.heard > case.late:
        return f"Ctrl-C was heard after {seen.heard:.1f} seconds"
    if b"Traceback" in seen.err:
        return f"a traceback: {seen.lines[-1][:300]}"
    if seen.status == INTERRUPTED and seen.heard is None:
        return "it says it was interrupted, and was not"
    if seen.status not in (PASSED, FAILED, USAGE, INTERRUPTED) and not (
        seen.status == DIFFERS and words[0] == "verify"
    ):
        return f"status {seen.status}: {seen.lines[-1:]}"
    if seen.status in (FAILED, USAGE, INTERRUPTED) and _complaints(case, seen) != 1:
        return f"status {seen.status} with {len(seen.lines)} lines on stderr: {seen.lines[:3]}"
    if any(not line.startswith("drawahead: ") for line in seen.lines):
        return f"a line on stderr that is not ours: {seen.lines[:3]}"
    if any(len(line) > 2000 for line in seen.lines):
        return f"a line on stderr that nobody can read: {seen.lines[0][:200]}"
    if seen.status == PASSED and "--json" in words and not {"--help", "--version"} & {*words}:
        try:
            json.loads(seen.out)
        except ValueError:
            return f"stdout is not JSON: {seen.out[:100]!r}"
    for name, data in {"stdout": seen.out, "stderr": seen.err, **seen.written}.items():
        if found := control(data):
            return f"{name} holds {found!r}"
    if seen.beside != ("here", "stderr", "stdout") and not any(".." in word or word.startswith("/") for word in words):
        return f"it wrote beside its folder: {seen.beside}"
    return ""


def _complaints(case: Case, seen: Outcome) -> int:
    """Lines on stderr; of `design` also one for each structure that could not be designed, before the last."""
    return 1 if case.arguments[:1] == ("design",) and seen.lines else len(seen.lines)


def control(data: bytes) -> str:
    """The first character that a terminal obeys, or that nobody sees."""
    return next((letter for letter in data.decode("utf-8", "replace") if ord(letter) in CONTROL), "")


def faults(commands: Commands, cases: Sequence[Case]) -> list[str]:
    """A line for each case that breaks the rule."""
    return [f"{case}: {found}" for case in cases if (found := fault(case, commands(case)))]
