"""What people look at: how samples look, reports as pages, films of how samples came about, figures."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from drawahead.words import guess

if TYPE_CHECKING:  # what type checkers and editors see; at run time a name is imported when it is first used
    from drawahead.show.films.animation import animation
    from drawahead.show.films.film import film
    from drawahead.show.films.reels import Film
    from drawahead.show.pages.document import document
    from drawahead.show.pages.gallery import Gallery, gallery
    from drawahead.show.pages.job import job_film, job_page
    from drawahead.show.pages.page import page
    from drawahead.show.views import Grids, Images, Texts, Vectors, View

_HOMES = {
    "Film": "films.reels",
    "Gallery": "pages.gallery",
    "Grids": "views",
    "Images": "views",
    "Texts": "views",
    "Vectors": "views",
    "View": "views",
    "animation": "films.animation",
    "document": "pages.document",
    "film": "films.film",
    "gallery": "pages.gallery",
    "job_film": "pages.job",
    "job_page": "pages.job",
    "page": "pages.page",
}

__all__ = [
    "Film",
    "Gallery",
    "Grids",
    "Images",
    "Texts",
    "Vectors",
    "View",
    "animation",
    "document",
    "film",
    "gallery",
    "job_film",
    "job_page",
    "page",
]


def __dir__() -> list[str]:
    return __all__


def _found(name: str) -> Any:
    if name not in _HOMES:
        near = guess(name, __all__)
        raise AttributeError(f"drawahead.show has no {name!r}" + (f"; did you mean {near!r}?" if near else ""))
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


if not TYPE_CHECKING:  # or every misspelt name would pass for Any
    __getattr__ = _found
