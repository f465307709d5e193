"""What `drawahead design` does: the job, its progress, and what it says in the end."""

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
    """The structures, the options and the device; of a job that is resumed, what it was begun with is not asked for."""
    names = {each.name for each in fields(tool.Options)}
    given = {name: _absolute(value) for name, value in given.items() if name in names and value is not None}
    if resume and (out / LAYOUT.manifest).exists():
        before, structures = tool.settings(out)
        given, paths = before.to_dict() | given, paths or list(structures)
    return paths, tool.Options.of(given), device or ("cuda" if torch.cuda.is_available() else "cpu")


def draw(
    out: Path,
    paths: list[Any],
    asked: tool.Options,
    device: str,
    batch: int | None,
    resume: bool,
    cluster: RayWorkers | None,
    *,
    json: bool,
    quiet: bool,
) -> None:
    """Design, and say what was written."""
    try:
        with warnings_told(), bar() as show:

            def watch(standing: DesignProgress) -> None:
                if not quiet:
                    show(standing.share, standing.parts())

            job = tool.run(
                out,
                paths,
                asked,
                device=device,
                batch=batch,
                resume=resume,
                workers=cluster,
                watch=watch,
                on_fail=_tell,
            )
    except KeyboardInterrupt:
        raise Stopped(f"interrupted; {_what_is_kept(out)}", INTERRUPTED) from None
    if job.parts:
        files.write(out / "report.html", page(job).encode())
    if json:
        say_json(_to_dict(job))
    elif not quiet:
        for name, part in job.parts.items():
            rounds = sum(each.rounds for each in part.designed) / len(part.designed)
            recovery = sum(each.recovery for each in part.designed) / len(part.designed)
            say(
                f"{name}: {counted(len(part.designed), 'sequence')}, {rounds:.1f} passes instead of {part.steps}, "
                f"recovery {recovery:.0%}" + (f", without {', '.join(part.dropped[:5])}" if part.dropped else "")
            )
        say(f"wrote {out / 'seqs'}, {out / 'designs.csv'}" + (f" and {out / 'report.html'}" * bool(job.parts)))
    _end(job.failed, len(job.parts), out)


def score(
    out: Path, paths: list[Any], asked: tool.Options, device: str, probabilities: bool, *, json: bool, quiet: bool
) -> None:
    """Score the structures' own sequences, and print that."""
    scores, failed = scoring.score(out, paths, asked, probabilities=probabilities, device=device, on_fail=_tell)
    if json:
        say_json({"scores": [vars(each) for each in scores], "failed": failed})
    else:
        for each in scores:
            say(
                f"{each.name}: score {each.score:.4f}, global score {each.global_score:.4f}, "
                f"{counted(each.orders, 'order')}"
            )
    _end(failed, len(scores), out)


def _tell(name: str, why: str) -> None:
    """What is wrong with a structure, in a line of its own, not behind the progress."""
    if visible(sys.stderr):
        sys.stderr.write("\r\x1b[K")
    fail(f"{name}: {why}", 1)


def _end(failed: dict[str, str], done: int, out: Path) -> None:
    if failed:
        total = counted(len(failed) + done, "structure")
        raise Stopped(f"{len(failed)} of {total} could not be done; the others are in {out}", 1)


def _what_is_kept(out: Path) -> str:
    if not (out / LAYOUT.manifest).exists():
        return "nothing was finished"
    kept = len(list((out / "parts").glob("[!.]*.json")))
    command = shlex.join(["drawahead", "design", "--out", str(out), "--resume"])
    are = "is" if kept == 1 else "are"
    return f"{counted(kept, 'structure')} {are} kept in {out}; go on with: {command}"


def _to_dict(job: tool.DesignJob) -> dict[str, Any]:
    return {
        "folder": str(job.folder),
        "structures": {
            name: {
                "steps": part.steps,
                "native": vars(part.native),
                "designs": [vars(each) for each in part.designed],
                "dropped": list(part.dropped),
            }
            for name, part in job.parts.items()
        },
        "failed": job.failed,
        "rounds": job.standing.rounds,
    }


def _absolute(value: Any) -> Any:
    """A file by its whole path, so that a job may be resumed from anywhere; anything else as it is."""
    named = isinstance(value, str) and (is_file(value) or value.endswith((".pt", ".safetensors")))
    return str(Path(value).absolute()) if named else value
