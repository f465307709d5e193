"""The generator of `randomness` as one CUDA kernel: the same uniforms, bit for bit, in one launch instead of hundreds.

Normals are those of the same formula, but for the rounding of logarithm, sine and cosine.

Imported by `randomness` when there is a CUDA device to use it on. Needs Triton, which comes with torch there; without
it the numbers are worked out with torch's own integer operations.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

_BLOCK = 256


@triton.jit  # type: ignore[untyped-decorator]
def _philox(  # type: ignore[no-untyped-def]
    keys, step, attempt, out, per_row, width, purpose, total,
    one_attempt: tl.constexpr, normal: tl.constexpr, size: tl.constexpr
):  # fmt: skip
    i = tl.program_id(0).to(tl.int64) * size + tl.arange(0, size)
    inside = i < total
    cell = i // width
    row = cell // per_row
    k0 = tl.load(keys + 2 * row, mask=inside, other=0).to(tl.uint32)
    k1 = tl.load(keys + 2 * row + 1, mask=inside, other=0).to(tl.uint32)
    c0 = (i % width).to(tl.uint32)
    c1 = tl.load(step + cell, mask=inside, other=0).to(tl.uint32)
    c2 = tl.load(attempt + (row * 0 if one_attempt else row), mask=inside, other=0).to(tl.uint32)
    c3 = (c2 * 0 + purpose).to(tl.uint32)
    for _ in tl.static_range(10):
        p0 = c0.to(tl.uint64) * 0xD2511F53
        p1 = c2.to(tl.uint64) * 0xCD9E8D57
        c0 = (p1 >> 32).to(tl.uint32) ^ c1 ^ k0
        c2 = (p0 >> 32).to(tl.uint32) ^ c3 ^ k1
        c1 = p1.to(tl.uint32)
        c3 = p0.to(tl.uint32)
        k0 = k0 + 0x9E3779B9
        k1 = k1 + 0xBB67AE85
    first = ((c0 >> 6).to(tl.int64) << 26) | (c1 >> 6).to(tl.int64)
    second = ((c2 >> 6).to(tl.int64) << 26) | (c3 >> 6).to(tl.int64)
    unit = 2.220446049250313e-16  # 2^-52
    one, other = (first.to(tl.float64) + 0.5) * unit, (second.to(tl.float64) + 0.5) * unit
    if normal:
        radius, angle = tl.sqrt(-2.0 * tl.log(one)), other * 6.283185307179586
        one, other = radius * tl.cos(angle), radius * tl.sin(angle)
    tl.store(out + 2 * i, one, mask=inside)
    tl.store(out + 2 * i + 1, other, mask=inside)


def numbers(keys: Tensor, purpose: int, step: Tensor, attempt: Tensor | int, width: int, *, normal: bool) -> Tensor:
    """Uniforms or normals (cells, 2 * width) for `step` (rows, ...), as `randomness` addresses them."""
    cells = step.numel()
    out = torch.empty(cells, 2 * width, dtype=torch.float64, device=step.device)
    if not cells:
        return out
    one = not isinstance(attempt, Tensor)
    attempts = attempt if isinstance(attempt, Tensor) else torch.full((1,), attempt, device=step.device)
    sizes = (cells // len(step), width, purpose, cells * width)
    grid = (triton.cdiv(cells * width, _BLOCK),)
    _philox[grid](keys.contiguous(), step.contiguous(), attempts.contiguous(), out, *sizes, one, normal, _BLOCK)
    return out
