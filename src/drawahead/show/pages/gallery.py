"""The samples on a page."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from html import escape
from typing import Any, final

from torch import Tensor

from drawahead.chains import Chain
from drawahead.chains.affine import AffineChain
from drawahead.errors import InputError
from drawahead.oracles.denoisers import DenoisingTarget
from drawahead.oracles.tokens import TokenOracle
from drawahead.report import Report
from drawahead.sample import Result, as_chain
from drawahead.show.pictures import Letters, Picture
from drawahead.show.views import Texts, View, view_of, view_of_samples
from drawahead.validate import whole
from drawahead.values import dataclass
from drawahead.words import counted

Target = Chain | TokenOracle | DenoisingTarget | Callable[..., Any]


@final
@dataclass(frozen=True)
class Shown:
    """One sample on a page."""

    number: int
    rounds: int | None
    picture: Picture


@final
@dataclass(frozen=True)
class Gallery:
    """The first samples of a run, as they look."""

    shown: tuple[Shown, ...]
    total: int
    """How many samples there are."""

    @property
    def note(self) -> str:
        """How many there are, if not all are shown."""
        return "" if len(self.shown) == self.total else f"The first {len(self.shown)} of {self.total:,}."

    def html(self) -> str:
        """A figure for each sample, its number and rounds below it."""
        return "".join(_figure(sample) for sample in self.shown)


def gallery(target: Target, result: Result, samples: int | None = None, *, view: View | None = None) -> Gallery:
    """The first `samples` of a result (None: as many as suit a page), as `view` shows them.

    target: the chain or oracle of the samples.
    view: how they are shown; None takes the target's own view.
    """
    chain = as_chain(target)
    view = view_of(chain) if view is None else view
    # A result may hold only the first samples of a long job, of which the report tells everything.
    report, most = result.report, view.shown if samples is None else whole("samples", samples, 0)
    pictures = map(view.picture, outputs(chain, result.samples[:most]))
    rows = zip(result.numbers.tolist(), report.sample_rounds, pictures, strict=False)
    return Gallery(tuple(Shown(*row) for row in rows), report.num_samples)


def outputs(chain: Chain, samples: Tensor) -> Tensor:
    """The samples alone, where the chain records states beside them."""
    return samples[:, -1] if isinstance(chain, AffineChain) and chain.record else samples


def as_gallery(
    samples: Gallery | Tensor | Sequence[str],
    report: Report,
    view: View | None = None,
    most: int | None = None,
    total: int | None = None,
) -> Gallery:
    """Samples that come without their target: images by their shape, other numbers as they are, texts as text. Their
    rounds are told if there are as many samples as the report has."""
    if isinstance(samples, Gallery):
        return samples
    if isinstance(samples, Tensor):
        if samples.dim() < 2:
            raise InputError(f"samples must be a tensor (number, ...), not of shape {tuple(samples.shape)}")
        view = view_of_samples(samples) if view is None else view
        pictures = [view.picture(sample) for sample in samples[: view.shown if most is None else most]]
    elif isinstance(samples, str) or not isinstance(samples, Sequence):  # such as an array of numpy
        raise InputError("samples must be a gallery (drawahead.show.gallery), a tensor or a list of texts")
    else:
        pictures = [Letters(tuple(text)) for text in samples[: Texts.shown]]
    total = len(samples) if total is None else total
    rounds = report.sample_rounds if len(report.sample_rounds) == total else itertools.repeat(None)
    return Gallery(tuple(map(Shown, itertools.count(), rounds, pictures)), total)


def _figure(sample: Shown) -> str:
    rounds = "" if sample.rounds is None else counted(sample.rounds, "round")
    caption = f"<span>sample {sample.number}</span> <span>{rounds}</span>"
    label = f"sample {sample.number}" + (f", drawn in {rounds}" if rounds else "")
    kind = escape(type(sample.picture).__name__.lower())
    return f'<figure class="sample {kind}">{sample.picture.html(label)}<figcaption>{caption}</figcaption></figure>'
