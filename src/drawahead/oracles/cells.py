"""Cells: the (context, position) pairs whose rows are asked, and what the cells of one pass have in common.

Targets that answer a single cell cheaply write `rows_at` once, for index tensors of any broadcastable shape, and
get `rows` from `every_cell`. Targets whose evidence adds up write `chain_rows` with `stretches`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

STRETCH_ELEMENTS = 1 << 21
"""About how many (asked position, window step) pairs a stretch may hold: 16 MB in float64."""


def every_cell(tokens: Tensor) -> tuple[Tensor, Tensor]:
    """The index pair (m, 1), (1, n) of all cells of `tokens` (m, n)."""
    return torch.arange(len(tokens))[:, None], torch.arange(tokens.shape[1])[None, :]


def point_rows(vocab_size: int) -> Tensor:
    """Rows (q + 1, q) to look up by token: the point mass on it, or uniform for HIDDEN = -1, which is the last."""
    point = torch.eye(vocab_size, dtype=torch.float64).log()
    return torch.cat([point, torch.full((1, vocab_size), -math.log(vocab_size), dtype=torch.float64)])


@dataclass(frozen=True)
class Stretch:
    """Some of the sequences of a `chain_rows` call, and the part of each path that its cells tell apart.

    The evidence of cell c is `base[row[c]]` and the first `depth[c]` entries of `window[row[c]]`.
    """

    cells: Tensor
    """(p,) which cells of the call these are."""
    base: Tensor
    """(r, n) tokens as known at the smallest prefix asked of the sequence, HIDDEN elsewhere."""
    window: Tensor
    """(r, w) positions drawn from there on, in order. Padded with 0."""
    drawn: Tensor
    """(r, w) their tokens. Padded with HIDDEN."""
    asked: Tensor
    """(r, k) positions whose rows some cell asks for, in the order in which they are drawn. Padded with 0."""
    row: Tensor
    slot: Tensor
    """(p,) the cell's place in `asked[row]`."""
    depth: Tensor


def stretches(tokens: Tensor, rank: Tensor, row: Tensor, prefix: Tensor, position: Tensor) -> Iterator[Stretch]:
    """Cut a `chain_rows` call (same arguments) into stretches of bounded size, like widths together."""
    r, n = tokens.shape
    first = torch.full((r,), n).scatter_reduce(0, row, prefix, "amin")
    last = torch.zeros(r, dtype=torch.long).scatter_reduce(0, row, prefix, "amax")
    step_of = rank[row, position]  # positions are asked in the order in which they are drawn
    is_asked = torch.zeros(r, n, dtype=torch.bool)
    is_asked[row, step_of] = True
    position_of = torch.zeros(r, n, dtype=torch.long)
    position_of[row, step_of] = position
    place = is_asked.cumsum(1) - 1  # (r, n)
    width, reach = (last - first).clamp_(min=0), is_asked.sum(1)
    by_width = width.argsort(descending=True)
    place_in = torch.empty_like(by_width).scatter_(0, by_width, torch.arange(r))[row]  # of each cell's sequence
    start = 0
    while start < r:
        widest = int(width[by_width[start]])
        size = max(1, STRETCH_ELEMENTS // max(1, widest * int(reach[by_width[start:]].max())))
        # Padding to the widest costs its square: leave the much narrower ones for the next stretch.
        size = min(size, max(1, int((width[by_width[start:]] * 5 >= widest * 4).sum())))
        some = by_width[start : start + size]
        cells = ((place_in >= start) & (place_in < start + size)).nonzero()[:, 0]
        own, low, high = place_in[cells] - start, first[some, None], last[some, None]
        ranks, known = rank[some], tokens[some]
        i, j = ((ranks >= low) & (ranks < high)).nonzero(as_tuple=True)
        step = (ranks - low)[i, j]
        window = torch.zeros(len(some), widest, dtype=torch.long)
        window[i, step] = j
        drawn = torch.full_like(window, -1)
        drawn[i, step] = known[i, j]
        places = place[some]
        asked = torch.zeros(len(some), int(reach[some].max()), dtype=torch.long)
        i, j = is_asked[some].nonzero(as_tuple=True)
        asked[i, places[i, j]] = position_of[some][i, j]
        yield Stretch(
            cells=cells,
            base=torch.where(ranks < low, known, -1),
            window=window,
            drawn=drawn,
            asked=asked,
            row=own,
            slot=places[own, step_of[cells]],
            depth=prefix[cells] - low[own, 0],
        )
        start += size


def running(increments: Tensor) -> Tensor:
    """Sums over the first 0, 1, ... w entries of the last axis: (..., w) -> (..., w + 1)."""
    return torch.nn.functional.pad(increments.cumsum(-1), (1, 0))
