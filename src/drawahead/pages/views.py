"""How the samples of a target look on a page: tokens as text, squares or dominoes, and which view suits a chain."""

from __future__ import annotations

import abc
import colorsys
import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from torch import Tensor

from drawahead import tilings
from drawahead.adapters._language import LanguageOracle
from drawahead.adapters.proteinmpnn import ALPHABET as RESIDUES
from drawahead.adapters.proteinmpnn import ProteinMPNN
from drawahead.chains import Chain, GaussianChain, TokenChain
from drawahead.errors import InputError
from drawahead.models.oracles import TokenOracle
from drawahead.networks.text import TextModel, to_text
from drawahead.pages.pictures import Letters, Parts, Tiles
from drawahead.pages.vectors import Images, Vectors, View, is_image
from drawahead.targets import Ising, PlanarMatching
from drawahead.validate import short, whole

_DIGITS = string.digits + string.ascii_lowercase
_PAIR = ("#e4dfd3", "#24566b")
# Okabe and Ito's colours, told apart with any kind of colour vision.
_FEW = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#555555")


class TokenView(View):
    """How sequences of tokens look."""

    @abc.abstractmethod
    def picture(self, sample: Tensor) -> Parts: ...

    def times(self, sample: Tensor, when: Tensor) -> list[int]:
        """When each part of the picture appears, if position i is drawn at `when[i]` (n,)."""
        times: list[int] = when.tolist()
        return times


@final
@dataclass(frozen=True)
class Texts(TokenView):
    """Sequences as text. `letters` gives the character, word or number of every position of a sample (n,)."""

    shown = 12
    letters: Callable[[Tensor], Sequence[str]]

    def __post_init__(self) -> None:
        if not callable(self.letters):
            raise InputError(f"letters must be a function of a sample, not {short(self.letters)}")

    def picture(self, sample: Tensor) -> Letters:
        given = self.letters(sample)
        if not isinstance(given, Sequence) or len(given) != len(sample):
            raise InputError(f"letters must give one string for each of {len(sample)} positions, not {short(given)}")
        return Letters(tuple(map(str, given)))


@final
@dataclass(frozen=True)
class Grids(TokenView):
    """Sequences as a grid of coloured squares, line after line."""

    shown = 24
    columns: int
    vocab_size: int

    def __post_init__(self) -> None:
        for name in ("columns", "vocab_size"):
            object.__setattr__(self, name, whole(name, getattr(self, name), 1))

    def picture(self, sample: Tensor) -> Tiles:
        places = [divmod(i, self.columns) for i in range(len(sample))]
        tiles = tuple((j, i, 1, 1, token) for (i, j), token in zip(places, sample.tolist(), strict=True))
        box = (0, 0, self.columns, -(-len(sample) // self.columns))
        return Tiles(box, tiles, colours(self.vocab_size))


@final
@dataclass(frozen=True)
class Tilings(TokenView):
    """Matchings of a region of squares as dominoes."""

    shown = 6
    matching: PlanarMatching

    def __post_init__(self) -> None:
        if not on_squares(self.matching):
            raise InputError("only matchings of squares, with vertices (row, column), can be shown as tilings")

    def picture(self, sample: Tensor) -> Tiles:
        squares = self.matching.nodes
        fills = tilings.colours(self.matching, sample)
        names = tuple(sorted(set(fills.values())))
        tiles = []
        for first, second in self._dominoes(sample):
            (i, j), (k, m) = squares[first], squares[second]
            top, left = min(i, k), min(j, m)
            tiles.append((left, top, abs(j - m) + 1, abs(i - k) + 1, names.index(fills[i, j])))
        rows, columns = zip(*squares, strict=True)
        box = (min(columns), min(rows), max(columns) - min(columns) + 1, max(rows) - min(rows) + 1)
        return Tiles(box, tuple(tiles), names)

    def times(self, sample: Tensor, when: Tensor) -> list[int]:
        """A domino is known as soon as one of its squares is."""
        return [int(min(when[first], when[second])) for first, second in self._dominoes(sample)]

    def _dominoes(self, sample: Tensor) -> list[tuple[int, int]]:
        partners = self.matching.partners(sample[None])[0].tolist()
        return [(v, w) for v, w in enumerate(partners) if v < w]


def view_of(chain: Chain) -> View:
    """The view that suits what a chain draws."""
    if not isinstance(chain, TokenChain):
        shape: Sequence[int] = getattr(chain, "sample_shape", ())
        return Images() if isinstance(chain, GaussianChain) and is_image(shape) else Vectors()
    oracle = chain.oracle
    if isinstance(oracle, PlanarMatching) and on_squares(oracle):
        return Tilings(oracle)
    if isinstance(oracle, Ising):
        return Grids(_columns(oracle), 2)
    return Texts(_letters_of(oracle))


def _letters_of(oracle: TokenOracle) -> Callable[[Tensor], Sequence[str]]:
    if isinstance(oracle, TextModel):
        return lambda sample: list(to_text(sample))
    if isinstance(oracle, ProteinMPNN):
        return lambda sample: [RESIDUES[token] for token in sample.tolist()]
    if isinstance(oracle, LanguageOracle):
        tokenizer = oracle.language_model.tokenizer
        return lambda sample: [tokenizer.decode([token], skip_special_tokens=True) for token in sample.tolist()]
    if oracle.vocab_size <= len(_DIGITS):
        return lambda sample: [_DIGITS[token] for token in sample.tolist()]
    return lambda sample: [str(token) for token in sample.tolist()]


def _columns(grid: Ising) -> int:
    """Sites are taken along the shorter side; in a grid that is no wider than high, one after another."""
    return grid.width if grid.width > 1 and grid.sites[1] == 1 else grid.length // grid.width


def on_squares(matching: PlanarMatching) -> bool:
    """Whether the vertices are squares (row, column), each edge between two that touch."""
    nodes = matching.nodes
    if not all(isinstance(node, tuple) and list(map(type, node)) == [int, int] for node in nodes):
        return False
    ends = np.array([(nodes[u], nodes[v]) for u, v in matching.graph.edges])
    return bool((np.abs(ends[:, 0] - ends[:, 1]).sum(1) == 1).all())


def colours(count: int) -> tuple[str, ...]:
    """So many colours, as different as they can be."""
    if count <= 2:
        return _PAIR
    if count <= len(_FEW):
        return _FEW[:count]
    turns = (colorsys.hls_to_rgb(i / count, 0.4 + 0.2 * (i % 2), 0.5) for i in range(count))
    return tuple("#" + "".join(f"{round(255 * channel):02x}" for channel in rgb) for rgb in turns)
