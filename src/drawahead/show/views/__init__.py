"""How samples look, one class for each kind: in a line, on a terminal, in a file, and on a page."""

from typing import TYPE_CHECKING

from drawahead.doors import doors

if TYPE_CHECKING:  # what type checkers see, and `doors` reads
    from drawahead.show.views.base import TokenView, VectorView, View
    from drawahead.show.views.suiting import view_of, view_of_samples
    from drawahead.show.views.tokens import Grids, Texts, Tokens
    from drawahead.show.views.vectors import Images, Vectors

__all__ = [
    "Grids",
    "Images",
    "Texts",
    "TokenView",
    "Tokens",
    "VectorView",
    "Vectors",
    "View",
    "view_of",
    "view_of_samples",
]

doors(__name__)
