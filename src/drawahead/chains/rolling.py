"""States that follow each other, x' = a x + value, worked out for a whole window.

One after another is the only way that is stable for every a: dividing by products of a loses all digits where they grow
or vanish, and so does any sum over a long window. Where each step is a kernel of its own, a *block* of steps is one
product with the block's own response, whose entries are products of at most `block` a's; `stable_block` says how long
a block may be before those could cost digits.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

_BLOCKS = (16, 8, 4, 2)
_GROWTH = 1e3
"""What a rounding error may grow by within a block."""


def rolled(x: Tensor, a: Tensor, values: Tensor, block: int = 1) -> Tensor:
    """The states x, a_0 x + value_0, ... (rows, w + 1, d), from x (rows, d), a (rows, w) and values (rows, w, d)."""
    width = values.shape[1]
    states = values.new_empty(len(x), width + 1, x.shape[-1])
    states[:, 0] = x
    if block == 1:
        for i in range(width):
            x = torch.addcmul(values[:, i], a[:, i, None], x, out=states[:, i + 1])
        return states
    blocks = -(-width // block)
    spare = blocks * block - width
    if spare:
        a, values = pad(a, (0, spare)), pad(values, (0, 0, 0, spare))
    response = _responses(a.unflatten(1, (blocks, block)))  # (rows, blocks, block, 1 + block)
    from_rest = response[..., 1:] @ values.unflatten(1, (blocks, block))  # (rows, blocks, block, d)
    for i in range(blocks):
        first, last = i * block, min((i + 1) * block, width)
        part = slice(0, last - first)
        here = states[:, first + 1 : last + 1]
        x = torch.addcmul(from_rest[:, i, part], response[:, i, part, :1], x[:, None], out=here)[:, -1]
    return states


def _responses(a: Tensor) -> Tensor:
    """What the states of a block (..., n) are made of (..., n, 1 + n): of the one before it, and of its values."""
    n = a.shape[-1]
    later = torch.ones(n, n + 1, dtype=torch.bool, device=a.device).triu(1)
    factor = a[..., None].masked_fill(later, 1.0)  # source j meets the a's of the states from j on
    return factor.cumprod(-2).tril(1)


def stable_block(growth: Tensor) -> int:
    """The longest block in which no error grows too much, if a step lets it grow by at most `growth` (N,)."""
    log = torch.nn.functional.pad(growth.clamp(min=1.0).log().cumsum(0), (1, 0))
    for block in _BLOCKS:
        reach = min(block, len(growth))
        if bool((log[reach:] - log[:-reach]).max().exp() <= _GROWTH):
            return block
    return 1
