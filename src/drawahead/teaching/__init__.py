"""How the samplers work, to look at: a page that explains a run of each, and a comparison of all of them."""

from typing import TYPE_CHECKING

from drawahead.doors import doors

if TYPE_CHECKING:  # what type checkers see, and `doors` reads
    from drawahead.teaching.explain import explain

__all__ = ["explain"]

doors(__name__)
