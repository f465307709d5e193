"""`drawahead sample --out DIR`: a job that survives whatever stops it."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

from drawahead import jobs
from drawahead.cli.registry import entry_of, setup
from drawahead.cli.saying import INTERRUPTED, Stopped, say, say_json, warnings_told
from drawahead.cli.subjects import TargetOptions
from drawahead.errors import JobError
from drawahead.jobs import Job, RayWorkers
from drawahead.jobs.commands.workers import planned
from drawahead.samplers import Sampler
from drawahead.words import counted

_MOST_IN_REPORT = 10_000  # shards: a report of more would be long in the making, and large


def run(
    target: str,
    asked: TargetOptions,
    folder: Path,
    num: int | None,
    seed: int | None,
    sampler: Sampler | None,
    resume: bool,
    workers: RayWorkers | None,
    settings: dict[str, Any],
    *,
    json: bool,
    quiet: bool,
) -> None:
    """Draw what is missing, and say what there is. settings: what `jobs.draw` takes as it is."""
    begun = jobs.read(folder) if resume and (folder / "manifest.json").exists() else None
    if begun is not None:
        asked, num = _as_begun(target, asked, begun), num or begun.config.num
    plan = planned(target, asked, workers, num)
    if plan.remark and not (quiet or json):
        say(*plan.remark.splitlines())
    try:
        with warnings_told():
            job = jobs.draw(
                folder,
                plan.target,
                plan.num,
                name=target,
                options=plan.options,
                resume=resume,
                sampler=sampler or (plan.sampler if begun is None else None),
                seed=0 if seed is None and begun is None else seed,
                workers=workers,
                progress=not quiet,
                **settings,
            )
    except KeyboardInterrupt:
        raise Stopped(f"interrupted; {_what_is_kept(target, folder)}", INTERRUPTED) from None
    except JobError as error:
        raise Stopped(f"{error}; {_how_to_go_on(target, folder)}", 1) from None
    if json:
        say_json(_to_dict(job))
    elif not quiet:
        if len(job.shards) <= _MOST_IN_REPORT:
            say(*f"{job.report}{setup(plan.setup_seconds)}".splitlines())
        samples, shards = counted(job.num_samples, "sample"), counted(len(job.shards), "shard")
        say(f"{samples} in {shards} in {folder}; drawahead report {shlex.quote(str(folder))}")


def _as_begun(target: str, asked: TargetOptions, job: Job) -> TargetOptions:
    """What is asked for, with what the job was begun with where nothing is."""
    if target != job.config.name:
        return asked  # which is refused later on, with all that differs
    asked = asked.filled(job.config.options)
    entry = entry_of(target)
    here = entry is not None and entry.kind == "network" and job.config.device in ("cpu", "cuda")
    return replace(asked, device=asked.device or job.config.device) if here else asked


def _what_is_kept(target: str, folder: Path) -> str:
    """What there is, and how to go on."""
    if not (folder / "manifest.json").exists():
        return "nothing was finished"
    job = jobs.read(folder)
    kept = f"{job.finished} of {counted(job.config.num, 'sample')} are kept in {folder}"
    return kept if job.complete else f"{kept}; {_how_to_go_on(target, folder)}"


def _how_to_go_on(target: str, folder: Path) -> str:
    return f"go on with: {shlex.join(['drawahead', 'sample', target, '--out', str(folder), '--resume'])}"


def _to_dict(job: Job) -> dict[str, object]:
    return {
        "target": job.config.name,
        "folder": str(job.folder),
        "complete": job.complete,
        "num_samples": job.num_samples,
        "shards": len(job.shards),
        "config": job.config.to_dict(),
        "report": job.report.totals() if len(job.shards) <= _MOST_IN_REPORT else None,
    }
