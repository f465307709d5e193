"""Samples of a job as pictures, lines of text and statistics."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from drawahead.errors import InputError
from drawahead.jobs import Job
from drawahead.jobs.commands.report import subject_of
from drawahead.jobs.export import whole
from drawahead.science.statistics import Draws
from drawahead.show import plots
from drawahead.show.views import Images, Texts, View, view_of_samples
from drawahead.words import printable

PICTURED = 1024
"""Samples on a picture, at most."""


def view(job: Job, target: str | None) -> View:
    """How the samples of a job look."""
    subject = subject_of(job, target)
    return subject.view if subject is not None else view_of_samples(job.samples(0, min(1, job.num_samples)))


def picture(job: Job, path: Path, shown: View) -> None:
    """A picture of the first samples."""
    if ".png" not in shown.formats:
        raise InputError(f"the samples of {job.config.name} are no images: export them to npz")
    plots.check()
    most = PICTURED if isinstance(shown, Images) else 1
    shown.draw(job.samples(0, min(most, job.num_samples)), path)


def statistics(job: Job, path: Path) -> None:
    """What the samples say about each entry, as `da.summary` has it."""
    draws = Draws()
    for part in job.parts():
        draws.add(part)
    with whole(path) as temporary, temporary.open("xb") as file:
        np.savez(file, **draws.summary().arrays())  # type: ignore[arg-type]


def lines(job: Job, path: Path, shown: View, *, fasta: bool) -> None:
    """A line for each sample; with a heading each for FASTA."""
    if fasta and not isinstance(shown, Texts):
        raise InputError(f"the samples of {job.config.name} are no texts: export them to npz")
    number = 0
    with whole(path) as temporary, temporary.open("x", encoding="utf-8") as file:
        for part in job.parts():
            for sample in part:
                line = shown.line(sample)
                file.write(f">{number} {printable(job.config.name)}\n{printable(line)}\n" if fasta else f"{line}\n")
                number += 1
