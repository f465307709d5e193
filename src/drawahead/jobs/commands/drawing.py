"""`drawahead sample --out DIR`: a job that survives whatever stops it, drawn here or by the workers that `--workers`
names, which build the model themselves."""

from __future__ import annotations

import functools
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

from drawahead import jobs, validate
from drawahead.chains import Chain
from drawahead.cli.registry import entry_of, is_own, named, setup
from drawahead.cli.saying import INTERRUPTED, Stopped, say, say_json, warnings_told
from drawahead.cli.subjects import Subject, TargetOptions
from drawahead.errors import InputError, JobError
from drawahead.jobs import Job, RayWorkers
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


def workers_named(name: str | None, address: str | None, gpus: float | None) -> RayWorkers | None:
    """The workers that the options ask for."""
    if name is None:
        if address is not None or gpus is not None:
            raise InputError("--address and --gpus-per-worker are for --workers ray")
        return None
    kind, _, number = name.partition(":")
    if kind != "ray" or (":" in name and not re.fullmatch("0*[1-9][0-9]{0,18}", number)):
        raise InputError(f"--workers must be ray, or ray:N for N workers, not {name!r}")
    if gpus is not None:
        validate.number("--gpus-per-worker", gpus, least=0)
    return RayWorkers(int(number) if number else None, gpus=gpus or 0.0, address=address)


@final
@dataclass(frozen=True)
class WorkersPlan:
    """What a job is given to draw from, and how unless something else is asked for."""

    target: Chain | Callable[[], Any]
    options: dict[str, Any]
    num: int = 8
    sampler: Sampler | None = None
    remark: str = ""
    setup_seconds: float = 0.0


def planned(target: str, asked: TargetOptions, workers: RayWorkers | None, num: int | None = None) -> WorkersPlan:
    """The plan for so many samples of what is called `target`. With workers a model of the user's own is built by them
    alone."""
    if workers is None:
        subject = named(target, asked)
        subject = replace(subject.of(num or subject.num), num=num or subject.num)
        return _planned(subject.chain, subject)
    if is_own(target):
        return WorkersPlan(functools.partial(_made, _placed(target), asked, num), asked.given, num or WorkersPlan.num)
    here = there = asked
    entry = entry_of(target)
    if entry is not None and entry.kind == "network":  # this machine need not have what the workers have
        from drawahead.networks.commands import usual_steps

        device = asked.device or ("cuda" if workers.gpus else "cpu")
        steps = usual_steps(device) if "steps" in entry.options and asked.steps is None else asked.steps
        here, there = (replace(asked, steps=steps, device=place) for place in ("cpu", device))
    subject = named(target, here)
    subject = replace(subject.of(num or subject.num), num=num or subject.num)
    make = functools.partial(_made, target, there.filled(subject.options), subject.num)
    return _planned(make, subject)


def _planned(target: Chain | Callable[[], Any], subject: Subject) -> WorkersPlan:
    return WorkersPlan(target, subject.options, subject.num, subject.sampler, subject.remark, subject.setup_seconds)


def _made(target: str, asked: TargetOptions, num: int | None) -> Chain:
    subject = named(target, asked)
    return subject.of(num or subject.num).chain


def _placed(target: str) -> str:
    """The name of a model of the user's own, for processes that may run in another folder."""
    home, colon, attribute = target.rpartition(":")
    if not colon:
        return str(Path(target).absolute())
    return f"{Path(home).absolute()}:{attribute}" if home.endswith(".py") else target
