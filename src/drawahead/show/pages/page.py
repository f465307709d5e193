"""The whole page about a result, or about a long job: report, film and samples; and the film of a job."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from drawahead.chains import Chain, TokenChain
from drawahead.errors import InputError
from drawahead.sample import Result, as_chain
from drawahead.samplers import Sampler
from drawahead.samplers.record import as_sampler
from drawahead.show.films.film import Film, film, filmable
from drawahead.show.pages.document import document
from drawahead.show.pages.gallery import Target, as_gallery, gallery
from drawahead.show.views import View, view_of
from drawahead.validate import whole

if TYPE_CHECKING:
    from drawahead.jobs import Job

STOPPED = (
    "The run was stopped before all samples were finished. Those that finish early are not typical: do not treat them "
    "as a fair sample."
)


def page(
    target: Target,
    result: Result,
    path: str | Path | None = None,
    *,
    title: str = "",
    samples: int | None = None,
    films: int = 4,
    view: View | None = None,
    sampler: Sampler | str | None = None,
    about: Mapping[str, object] | None = None,
    note: str = "",
) -> str:
    """The page about a result; written to `path` if one is given.

    target: the chain or oracle of the samples.
    samples: how many to show (None: as many as suit a page).
    films: how many samples to animate (0 for none).
    view: how samples are shown; None takes the target's own view.
    sampler: the sampler that drew them; None takes the one in the report.
    about: more lines for the configuration.
    note: a warning for readers; a run that was stopped early gets one anyway.
    """
    chain, sampler = as_chain(target), as_sampler(sampler)
    view = view_of(chain) if view is None else view
    films = whole("films", films, 0)
    shown = gallery(chain, result, samples, view=view)
    filmed: Film | None = None
    if films and filmable(chain, result, sampler):
        filmed = film(chain, result, films, view=view, sampler=sampler)
    note = note if len(note) or result.complete else STOPPED
    return document(result.report, path, title=title, samples=shown, film=filmed, about=about, note=note)


def job_page(
    job: Job,
    path: str | Path | None = None,
    *,
    target: Target | None = None,
    samples: int | None = None,
    films: int = 4,
    view: View | None = None,
) -> str:
    """The page about a job's finished samples; written to `path` unless that is None.

    target: the chain or oracle of the job. Without it samples are shown as stored, and there is no film.

    The other arguments are those of `page`.
    """
    config = job.config
    report = job.report
    chain = None if target is None else as_chain(target)
    view = view_of(chain) if view is None and chain is not None else view
    films, samples = whole("films", films, 0), None if samples is None else whole("samples", samples, 0)
    wanted = max(films, samples if samples is not None else 36 if view is None else view.shown)
    kept = job.samples(0, min(job.num_samples, wanted))
    note = "" if job.complete else f"The job is not complete: it has {job.num_samples:,} of {config.num:,} samples."
    if chain is None:
        shown = as_gallery(kept, report, view, samples, report.num_samples)
        return document(report, path, title=config.name, samples=shown, about=_about(job), note=note)
    return page(
        chain,
        _result(chain, job, kept),
        path,
        title=config.name,
        samples=samples,
        films=films,
        view=view,
        sampler=config.sampler.sampler,
        about=_about(job),
        note=note,
    )


def job_film(job: Job, *, target: Target, films: int = 4, view: View | None = None) -> Film:
    """A film of how the first `films` samples of a job were drawn; the other arguments are those of `job_page`."""
    chain, films = as_chain(target), whole("films", films, 1)
    result = _result(chain, job, job.samples(0, min(job.num_samples, films)))
    sampler = job.config.sampler.sampler
    if not filmable(chain, result, sampler):
        raise InputError(f"there is nothing to film in {job.folder}: its samples took as many rounds as one by one")
    return film(chain, result, films, view=view, sampler=sampler)


def _result(chain: Chain, job: Job, samples: Tensor) -> Result:
    """The first samples of a job as a result, with the report of all."""
    _check(chain, job, samples)
    return Result(samples, torch.arange(len(samples)), job.report)


def _check(chain: Chain, job: Job, samples: Tensor) -> None:
    """Refuse a target that cannot have drawn these samples."""
    config, room = job.config, chain.empty(1)
    fits = chain.steps == config.steps and tuple(room.shape[1:]) == config.shape
    if fits and isinstance(chain, TokenChain) and not samples.is_floating_point():
        fits = not bool(((samples < 0) | (samples >= chain.oracle.vocab_size)).any())
    if not fits or room.is_floating_point() != samples.is_floating_point():
        raise InputError(f"the samples in {job.folder} are not of the target that it names, {config.name!r}")


def _about(job: Job) -> dict[str, object]:
    """What the configuration of a job tells beside its report."""
    config, last = job.config, job.manifest.versions[-1]
    options = ", ".join(f"{name} {value}" for name, value in config.options.items())
    return {
        "target": config.name,
        **({"options": options} if options else {}),
        "samples requested": f"{config.num:,}, in shards of {config.shard_size:,}",
        "dtype and device": f"{config.dtype}, {config.device}",
        **({"largest batch": config.max_batch_size} if config.max_batch_size else {}),
        "begun": job.manifest.created,
        "drawn with": f"drawahead {last['drawahead']}, torch {last['torch']}, Python {last['python']}",
    }
