"""How samples look, one class for each kind: in a line, on a terminal, in a file, and on a page."""

from drawahead.views.base import TokenView, VectorView, View
from drawahead.views.graphs import Points, Subgraphs
from drawahead.views.suiting import view_of, view_of_samples
from drawahead.views.tilings import Tilings
from drawahead.views.tokens import Grids, Texts, Tokens
from drawahead.views.vectors import Images, Vectors

__all__ = [
    "Grids",
    "Images",
    "Points",
    "Subgraphs",
    "Texts",
    "Tilings",
    "TokenView",
    "Tokens",
    "VectorView",
    "Vectors",
    "View",
    "view_of",
    "view_of_samples",
]
