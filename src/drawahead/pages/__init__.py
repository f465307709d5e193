"""Pages to look at: a report as one HTML file, with pictures of the samples and a film of how they came about."""

from drawahead.pages.animation import animation
from drawahead.pages.document import document
from drawahead.pages.explain import explain
from drawahead.pages.film import film
from drawahead.pages.gallery import Gallery, gallery
from drawahead.pages.page import job_film, job_page, page
from drawahead.pages.reels import Film
from drawahead.views import Grids, Images, Points, Subgraphs, Texts, Tilings, Vectors, View

__all__ = [
    "Film",
    "Gallery",
    "Grids",
    "Images",
    "Points",
    "Subgraphs",
    "Texts",
    "Tilings",
    "Vectors",
    "View",
    "animation",
    "document",
    "explain",
    "film",
    "gallery",
    "job_film",
    "job_page",
    "page",
]


def __dir__() -> list[str]:
    return __all__
