"""`drawahead report`: what a job drew, and what it cost, as a page to look at."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from drawahead.cli import options
from drawahead.cli.options import option
from drawahead.cli.saying import say, say_json
from drawahead.errors import InputError
from drawahead.jobs.commands.folders import USUALLY, Folder

if TYPE_CHECKING:
    from drawahead.cli.subjects import Subject
    from drawahead.jobs import Job


def report(
    folder: Folder,
    out: Annotated[
        Path | None,
        option(
            options.WRITTEN,
            "--out FILE",
            "The page to write; or, FILE.gif, the film alone.",
            usually="report.html in the folder",
        ),
    ] = None,
    gif: Annotated[
        Path | None,
        option(
            options.WRITTEN,
            "--gif FILE.gif",
            "Write the film as an animated GIF, too; --out FILE.gif writes nothing else.",
        ),
    ] = None,
    num: Annotated[
        int | None, option(None, "--num -n N", "How many samples to show.", least=0, usually="as many as suit a page")
    ] = None,
    films: Annotated[
        int, option(None, "--films N", "How many samples to animate; images are drawn again for it.", least=0)
    ] = 4,
    target: Annotated[
        str | None,
        option(
            None,
            "--target NAME",
            "A model of your own that the job drew from, to show its samples as they are. It is imported.",
            usually=USUALLY,
        ),
    ] = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Write one HTML page about a job: rounds, queries, samples, and a film of how some were drawn."""
    from drawahead import jobs, show
    from drawahead.jobs.commands import designs

    designs.refuse(folder)
    job = jobs.read(folder)
    job.verify()
    if out is not None and out.suffix.lower() == ".gif":
        if gif is not None:
            raise InputError(f"--out {out} and --gif {gif} are both films: give one of them")
        gif, out = out, None
    else:
        out = out or folder / "report.html"
    _check("--out", out, ".html", ".htm", what="the page is HTML; its name must end in .html, or in .gif for the film")
    _check("--gif", gif, ".gif", what="a film is a .gif; its name must end so")
    if gif is not None:
        if not films:
            raise InputError("--gif needs a film: --films must not be 0")
        show.plots.check()
    subject = subject_of(job, target)
    chain, view = (None, None) if subject is None else (subject.chain, subject.view)
    if gif is not None:
        if chain is None:
            raise InputError(f"--gif {gif}: a film needs the model that the job drew from; name it with --target")
        _write(gif, show.animation(show.job_film(job, target=chain, films=films, view=view)), folder)
    if out is not None:
        _write(out, show.job_page(job, target=chain, samples=num, films=films, view=view).encode(), folder)
    if json:
        written = {name: str(path) for name, path in (("page", out), ("film", gif)) if path is not None}
        done = {"folder": str(folder), **written, "samples": job.num_samples, "complete": job.complete}
        say_json(done)
    elif not quiet:
        if chain is None:
            why = "is not one of drawahead's own targets, or is made from a file"
            say(f"{job.config.name} {why}: samples are shown as they are stored; --target names it")
        for path in (out, gif):
            if path is not None:
                say(f"wrote {path}")


def _write(path: Path, content: bytes, folder: Path) -> None:
    from drawahead.jobs import files

    if path.absolute().parent.samefile(folder):  # a stranger may have put a link there: it is replaced, not followed
        files.write(path, content)
    else:
        path.write_bytes(content)


def _check(option: str, path: Path | None, *endings: str, what: str) -> None:
    """Refuse, before anything is drawn again, a file that cannot be written."""
    if path is None:
        return
    if path.suffix.lower() not in endings:
        raise InputError(f"{option} {path}: {what}")
    if not path.absolute().parent.is_dir():
        raise InputError(f"{option} {path}: there is no folder {path.parent}")
    if path.is_dir():
        raise InputError(f"{option} {path} is a folder: name a file")


def subject_of(job: Job, target: str | None = None) -> Subject | None:
    """What a job draws from: the user's own model, if `target` names one, or one of drawahead's. A folder may come from
    anywhere: nothing it names is imported, and nothing is built that is larger than its samples."""
    from drawahead.cli.registry import entries, named
    from drawahead.cli.subjects import TargetOptions
    from drawahead.counting.commands.entries import fits

    config, asked = job.config, TargetOptions()
    if target is not None:
        return named(target, asked.filled(config.options)).of(config.num)
    listed = any(entry.name == config.name for entry in entries())
    if not listed or not job.num_samples or not fits(config.options, math.prod(config.shape)):
        return None
    if not any(shard.sound() for shard in job.shards):  # do they have the shape that the manifest tells?
        job.verify()
    asked = asked.filled(config.options)
    if asked.size is not None and asked.size > math.prod(config.shape):
        raise InputError(
            f"the job has samples of shape {config.shape}, which {config.name} of size {asked.size} has not"
        )
    return named(config.name, asked).of(config.num)
