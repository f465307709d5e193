"""The work of `drawahead design`: the job, its progress, and the lines it prints."""

from __future__ import annotations

import shlex
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch

from drawahead.cli.saying import INTERRUPTED, Stopped, fail, say, say_json, warnings_told
from drawahead.jobs import RayWorkers, files
from drawahead.proteins import design as tool
from drawahead.proteins.design import scoring
from drawahead.proteins.design.folder import LAYOUT
from drawahead.proteins.design.job import DesignProgress
from drawahead.proteins.design.page import page
from drawahead.proteins.design.tables import is_file
from drawahead.show.progress import bar, visible
from drawahead.words import counted


def begun(
    out: Path, paths: list[Any], given: dict[str, Any], device: str | None, *, resume: bool
) -> tuple[list[Any], tool.Options, str]:
    """The structures, the options and the device. Options that are left out are those that the job was begun with."""
    names = {each.name for each in fields(tool.Options)}
    given = {name: _absolute(value) for name, value in given.items() if name in names and value is not None}
    if resume and (out / LAYOUT.manifest).exists():
        before, structures = tool.settings(out)
        given, paths = before.to_dict() | given, paths or list(structures)
    return paths, tool.Options.of(given), device or ("cuda" if torch.cuda.is_available() else "cpu")


def draw(
    out: Path,
    paths: list[Any],
    options: tool.Options,
    device: str,
    batch: int | None,
    resume: bool,
    cluster: RayWorkers | None,
    *,
    json: bool,
    quiet: bool,
) -> None:
    """Design, and print which files were written."""
    try:
        with warnings_told(), bar() as show:

            def watch(standing: DesignProgress) -> None:
                if not quiet:
                    show(standing.share, standing.parts())

            settings: dict[str, Any] = {"device": device, "batch": batch, "resume": resume, "workers": cluster}
            job = tool.run(out, paths, options, **settings, watch=watch, on_fail=_say_failure)
    except KeyboardInterrupt:
        raise Stopped(f"interrupted; {_remaining(out)}", INTERRUPTED) from None
    if job.parts:
        files.write(out / "report.html", page(job).encode())
    if json:
        structures = {
            name: {
                "steps": part.steps,
                "native": vars(part.native),
                "designs": [vars(each) for each in part.designed],
                "dropped": list(part.dropped),
            }
            for name, part in job.parts.items()
        }
        say_json({"folder": str(out), "structures": structures, "failed": job.failed, "rounds": job.standing.rounds})
    elif not quiet:
        for name, part in job.parts.items():
            without = f", without {', '.join(part.dropped[:5])}" if part.dropped else ""
            say(
                f"{name}: {counted(len(part.designed), 'sequence')}, {part.mean('rounds'):.1f} passes instead of "
                f"{part.steps}, recovery {part.mean('recovery'):.0%}{without}"
            )
        say(f"wrote {out / 'seqs'}, {out / 'designs.csv'}" + (f" and {out / 'report.html'}" * bool(job.parts)))
    _end(job.failed, len(job.parts), out)


def score(
    out: Path, paths: list[Any], options: tool.Options, device: str, probabilities: bool, *, json: bool, quiet: bool
) -> None:
    """Score the structures' own sequences, and print that."""
    scores, failed = scoring.score(
        out, paths, options, probabilities=probabilities, device=device, on_fail=_say_failure
    )
    if json:
        say_json({"scores": [vars(each) for each in scores], "failed": failed})
    else:
        for each in scores:
            both = f"score {each.score:.4f}, global score {each.global_score:.4f}"
            say(f"{each.name}: {both}, {counted(each.orders, 'order')}")
    _end(failed, len(scores), out)


def _say_failure(name: str, why: str) -> None:
    """What is wrong with a structure, on a line of its own, not behind the progress."""
    if visible(sys.stderr):
        sys.stderr.write("\r\x1b[K")
    fail(f"{name}: {why}", 1)


def _end(failed: dict[str, str], done: int, out: Path) -> None:
    if failed:
        total = counted(len(failed) + done, "structure")
        others = f"; the others are in {out}" if done else ""
        raise Stopped(f"{len(failed)} of {total} could not be done{others}", 1)


def _remaining(out: Path) -> str:
    """How much of a stopped job is finished, and how to go on with it."""
    if not (out / LAYOUT.manifest).exists():
        return "nothing was finished"
    finished = len(list((out / "parts").glob("[!.]*.json")))
    command = shlex.join(["drawahead", "design", "--out", str(out), "--resume"])
    are = "is" if finished == 1 else "are"
    return f"{counted(finished, 'structure')} {are} kept in {out}; go on with: {command}"


def _absolute(value: Any) -> Any:
    """A file by its whole path, so that a job may be resumed from anywhere; anything else as it is."""
    named = isinstance(value, str) and (is_file(value) or value.endswith((".pt", ".safetensors")))
    return str(Path(value).absolute()) if named else value
