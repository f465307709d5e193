"""How the samplers work, to look at: a page that explains a run of each, and a comparison of all of them."""

from drawahead.teaching.explain import explain

__all__ = ["explain"]


def __dir__() -> list[str]:
    return __all__
