"""Where samples go: the terminal, one JSON object, or a file: .npz, .json, .png for images, .txt for texts."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy
from rich.console import Console

from drawahead.cli.registry import setup
from drawahead.cli.saying import say, say_json
from drawahead.cli.subjects import Subject
from drawahead.errors import InputError

if TYPE_CHECKING:
    from drawahead.sample import Result

FORMATS = {".npz": "", ".json": "", ".png": "images", ".txt": "texts"}
"""How a file's name may end, and which samples it is for, if not for all."""


def is_folder(path: Path) -> bool:
    """Whether samples are to be written into a folder, as a job: it is one, or its name has no ending."""
    return path.is_dir() or not path.suffix


def check(path: Path, subject: Subject) -> None:
    """Refuse, before anything is drawn, a file that cannot be written."""
    if path.suffix not in FORMATS:
        raise InputError(
            f"--out must end in {', '.join(FORMATS)}, or be a folder, whose name has no ending; not {path.name!r}"
        )
    if path.suffix not in subject.view.formats:
        raise InputError(
            f"--out {path.name!r}: the samples of {subject.name} are not {FORMATS[path.suffix]}; "
            f"write {' or '.join(subject.view.formats)}"
        )
    if path.suffix == ".png":
        from drawahead.show import plots

        plots.check()
    if not path.absolute().parent.is_dir():
        raise InputError(f"--out {path}: there is no folder {path.parent}")


def to_dict(subject: Subject, result: Result) -> dict[str, Any]:
    """Samples and report as plain values, ready for json.dumps."""
    return {
        "target": subject.name,
        "complete": result.complete,
        "numbers": result.numbers.tolist(),
        "samples": subject.view.plain(result.samples),
        "report": result.report.to_dict(),
        "setup_seconds": subject.setup_seconds,
    }


def write(path: Path, subject: Subject, result: Result) -> None:
    """Write in the format that the file's name asks for; a picture or a text file holds the samples alone."""
    if path.suffix == ".png":
        subject.view.draw(result.samples, path)
    elif path.suffix == ".txt":
        path.write_text("".join(f"{subject.view.line(values)}\n" for values in result.samples))
    elif path.suffix == ".json":
        path.write_text(json.dumps(to_dict(subject, result)) + "\n")
    else:
        arrays: dict[str, Any] = {"samples": result.samples.numpy(), "numbers": result.numbers.numpy()}
        arrays |= {"target": subject.name, "report": json.dumps(result.report.to_dict())}
        if ".txt" in subject.view.formats:
            arrays["texts"] = numpy.array(subject.view.plain(result.samples))
        with path.open("wb") as file:
            numpy.savez_compressed(file, **arrays)


@final
@dataclass(frozen=True)
class Output:
    """Where samples go."""

    subject: Subject
    out: Path | None
    json: bool
    quiet: bool

    def result(self, result: Result) -> None:
        """Write the file, and print."""
        if self.out is not None:
            write(self.out, self.subject, result)
        if self.json:
            say_json(to_dict(self.subject, result))
        elif not self.quiet:
            console = Console()
            console.print(self.subject.view.terminal(result, console))
            say("", *f"{result.report}{setup(self.subject.setup_seconds)}".splitlines())
            if self.out is not None:
                say(f"wrote {self.out}")
        elif self.out is None:
            say(*(self.subject.view.line(values) for values in result.samples))
