"""Elimination in a marginal kernel: items are revealed in the order of a path, each in or out.

The kernel after j steps is K - sum_{i < j} sign_i v_i v_i^T, where v_i is the scaled column of item i just before it is
revealed, and sign_i is 1 if it is in and -1 if it is out. This is an LDL^T factorization of K less the identity on the
items that are out, without pivoting: columns are brought up to date a panel at a time, by products of matrices and a
triangular solution. Only the square of a panel's own items is eliminated step by step.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

CERTAIN = 1e-12
"""A chance is 0 or 1 where it is this close, divided by the chance of the least likely draw before it. What can be
drawn only after so unlikely a draw is that much less likely in all: no law changes by more than this per step."""
_PANEL = 32  # columns that are eliminated between two matrix products


def eliminate(kernel: Tensor, order: Tensor, sign: Tensor, column: Tensor, least: Tensor, low: int, high: int) -> None:
    """Reveal the steps low ... high-1 of paths of which those before are revealed.

    `order` (r, k) are items; `sign` (r, >= high) says what becomes of them. Written are `column` (r, >= high, k), the
    scaled columns v in the order of the path, zero before their own place; and `least` (r, > high), the chance of the
    least likely of the first 0, 1, ... draws: rounding errors grow by its inverse. An item held against all odds is
    passed over.
    """
    for start in range(low, high, _PANEL):
        end = min(start + _PANEL, high)
        panel = kernel[order[:, start:end, None], order[:, None, start:]]  # (r, end - start, k - start)
        before = column[:, :start, start:]
        panel -= (before[:, :, : end - start] * sign[:, :start, None]).mT @ before
        column[:, start:end, start:] = _revealed(panel, sign[:, start:end], least[:, start : end + 1])


def _revealed(panel: Tensor, sign: Tensor, least: Tensor) -> Tensor:
    """The scaled columns of a panel's items (r, b, k), of what the kernel holds before the first of them."""
    b = sign.shape[1]
    square = panel[:, :, :b].contiguous()
    root = torch.from_numpy(_factored(square.numpy(), sign.numpy(), least.numpy()))  # (r, b)
    square.triu_()
    if panel.shape[2] == b:
        return square
    lower = (square * sign[..., None]).mT.tril(-1)
    passed = root == torch.inf
    lower.diagonal(dim1=1, dim2=2).copy_(torch.where(passed, 1.0, root))
    rest = torch.linalg.solve_triangular(lower, panel[:, :, b:], upper=False)
    most = (1 / root)[..., None]  # kernels have entries in [-1, 1]; nothing may overflow where a guess is impossible
    return torch.cat([square, torch.where(passed[..., None], 0.0, rest).clamp(-most, most)], dim=2)


def _factored(
    square: NDArray[np.float64], sign: NDArray[np.float64], least: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Eliminate step by step, in place: rows of the upper triangle become scaled columns. -> the roots of the pivots
    (r, b), infinite for items that are passed over."""
    pivots = np.empty(sign.shape)
    out = (1 - sign) / 2
    for j in range(sign.shape[1]):
        now = square[:, j, j:]
        np.clip(now, -1, 1, out=now)
        pivot = out[:, j] + sign[:, j] * now[:, 0]  # the chance of what was drawn
        pivot[pivot * least[:, j] < CERTAIN] = np.inf
        np.minimum(least[:, j], pivot, out=least[:, j + 1])
        pivots[:, j] = root = np.sqrt(pivot)
        now /= root[:, None]
        if j + 1 < sign.shape[1]:
            square[:, j + 1 :, j + 1 :] -= (sign[:, j, None] * now[:, 1:])[:, :, None] * now[:, None, 1:]
    return pivots
