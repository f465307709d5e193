"""The whole page about a result: report, film and samples."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from drawahead.sample import Result, as_chain
from drawahead.samplers import Sampler
from drawahead.samplers.record import as_sampler
from drawahead.show.films.film import film, filmable
from drawahead.show.films.reels import Film
from drawahead.show.pages.document import document
from drawahead.show.pages.gallery import Target, gallery, viewed
from drawahead.show.views import View, view_of
from drawahead.validate import instance, whole

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
    view = viewed(view) or view_of(chain)
    films = whole("films", films, 0)
    instance("note", note, str, "a text")
    shown = gallery(chain, result, samples, view=view)
    filmed: Film | None = None
    if films and filmable(chain, result, sampler):
        filmed = film(chain, result, films, view=view, sampler=sampler)
    note = note or ("" if result.complete else STOPPED)
    return document(result.report, path, title=title, samples=shown, film=filmed, about=about, note=note)
