"""Pages, films, pictures and plots of samples and reports."""

from typing import TYPE_CHECKING

from drawahead.doors import doors

if TYPE_CHECKING:  # what type checkers see, and `doors` reads
    from drawahead.show.films.animation import animation
    from drawahead.show.films.film import Film, film
    from drawahead.show.pages.document import document
    from drawahead.show.pages.gallery import Gallery, gallery
    from drawahead.show.pages.page import job_film, job_page, page
    from drawahead.show.views import Grids, Images, Texts, Vectors, View

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

doors(__name__)
