"""Which view suits what a chain draws."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from drawahead.adapters._language import LanguageOracle
from drawahead.adapters.proteinmpnn import ALPHABET as RESIDUES
from drawahead.adapters.proteinmpnn import ProteinMPNN
from drawahead.chains import Chain, GaussianChain, TokenChain
from drawahead.models.oracles import HIDDEN
from drawahead.networks.text import TextModel, to_text
from drawahead.targets import Ising, PlanarMatching, SpanningTree
from drawahead.views.base import View
from drawahead.views.graphs import Subgraphs
from drawahead.views.tilings import Tilings, on_squares
from drawahead.views.tokens import Grids, Texts, Tokens
from drawahead.views.vectors import Images, Vectors, is_image


def view_of(chain: Chain) -> View:
    """The view that suits what a chain draws."""
    if not isinstance(chain, TokenChain):
        shape: Sequence[int] = getattr(chain, "sample_shape", ())
        return Images() if isinstance(chain, GaussianChain) and is_image(shape) else Vectors()
    oracle = chain.oracle
    if isinstance(oracle, PlanarMatching) and on_squares(oracle):
        return Tilings(oracle)
    if isinstance(oracle, PlanarMatching | SpanningTree):
        return Subgraphs(oracle)
    if isinstance(oracle, Ising):
        return Grids(_columns(oracle), 2)
    if isinstance(oracle, TextModel):
        return Texts(lambda sample: list(to_text(sample)), _blanks(chain.evidence))
    if isinstance(oracle, ProteinMPNN):
        return Texts(lambda sample: [RESIDUES[token] for token in sample.tolist()])
    if isinstance(oracle, LanguageOracle):
        tokenizer = oracle.language_model.tokenizer
        return Texts(lambda sample: [tokenizer.decode([token], skip_special_tokens=True) for token in sample.tolist()])
    return Tokens(oracle.vocab_size)


def view_of_samples(samples: Tensor) -> View:
    """The view that suits samples of which nothing else is known."""
    if not samples.is_floating_point():
        return Texts(lambda sample: [str(token) for token in sample.flatten().tolist()])
    return Images() if is_image(samples.shape[1:]) else Vectors()


def _columns(grid: Ising) -> int:
    """Sites are taken along the shorter side; in a grid that is no wider than high, one after another."""
    return grid.width if grid.width > 1 and grid.sites[1] == 1 else grid.length // grid.width


def _blanks(evidence: Tensor | None) -> tuple[int, ...]:
    return () if evidence is None else tuple((evidence == HIDDEN).nonzero()[:, 0].tolist())
