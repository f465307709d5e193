"""What a job draws from and by whom: here, or on the workers that `--workers` names, which build it themselves."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

from drawahead import validate
from drawahead.chains import Chain
from drawahead.cli.registry import entry_of, is_own, named
from drawahead.cli.subjects import Subject, TargetOptions
from drawahead.errors import InputError
from drawahead.jobs import RayWorkers
from drawahead.samplers import Sampler


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
