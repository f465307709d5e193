"""Which view suits what a chain draws. A model says so itself (`TokenOracle.view`); others by what they draw."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from torch import Tensor

from drawahead.chains.base import Chain
from drawahead.chains.tokens import TokenChain
from drawahead.oracles.tokens import HIDDEN
from drawahead.show.views.base import View
from drawahead.show.views.tokens import Texts, Tokens


def view_of(chain: Chain) -> View:
    """The view that suits what a chain draws."""
    if not isinstance(chain, TokenChain):
        from drawahead.chains.gaussian import GaussianChain
        from drawahead.show.views.vectors import Images, Vectors, is_image

        shape: Sequence[int] = getattr(chain, "sample_shape", ())
        return Images() if isinstance(chain, GaussianChain) and is_image(shape) else Vectors()
    view = chain.oracle.view()
    if isinstance(view, Texts) and chain.evidence is not None and chain.evidence.dim() == 1:
        return replace(view, blanks=tuple((chain.evidence == HIDDEN).nonzero()[:, 0].tolist()))
    return view or Tokens(chain.oracle.vocab_size)


def view_of_samples(samples: Tensor) -> View:
    """The view that suits samples of which nothing else is known."""
    from drawahead.show.views.vectors import Images, Vectors, is_image

    if not samples.is_floating_point():
        return Texts(lambda sample: [str(token) for token in sample.flatten().tolist()])
    return Images() if is_image(samples.shape[1:]) else Vectors()
