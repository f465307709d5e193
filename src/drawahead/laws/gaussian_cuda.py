"""The bisection of `laws.gaussian`, two thousand operations, as one CUDA kernel: the same formulas, up to rounding.

Imported when there is a CUDA device to use it on; needs Triton, which comes with torch there.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.language.extra import libdevice

_BLOCK = 64


@triton.jit
def _upper(z):  # type: ignore[no-untyped-def]
    return 0.5 * libdevice.erfc(z * 0.7071067811865476)


@triton.jit
def _tail(z, c, delta, weight):  # type: ignore[no-untyped-def]
    """G(z), as `gaussian._tail`: for small delta a series of positive terms."""
    direct = weight * _upper(z - delta) - _upper(z)
    past = tl.minimum(delta * (z - c), 50.0)
    y = tl.minimum(z, 25.0)
    d = tl.minimum(delta, 0.1)
    before = _upper(y)
    now = libdevice.exp(-y * y / 2) * 0.3989422804014327 - y * before
    total = y * 0.0
    power = y * 0.0 + 1.0
    for k in tl.static_range(1, 9):
        power = power * d / k
        total = total + power * tl.maximum(now, 0.0)
        following = k * before - y * now
        before = now
        now = following
    excess = tl.where(z > 25, 0.0, total)
    stable = libdevice.expm1(past) * _upper(z) + libdevice.exp(past) * excess
    return tl.maximum(tl.where(delta < 0.1, stable, direct), 0.0)


@triton.jit  # type: ignore[untyped-decorator]
def _quantile(delta_at, weight_at, normal_at, out, total, steps: tl.constexpr, size: tl.constexpr):  # type: ignore[no-untyped-def]
    i = tl.program_id(0) * size + tl.arange(0, size)
    inside = i < total
    delta = tl.load(delta_at + i, mask=inside, other=0.0)
    log_weight = tl.load(weight_at + i, mask=inside, other=0.0)
    normal = tl.load(normal_at + i, mask=inside, other=0.0)
    c = tl.where(delta > 0, delta / 2 - log_weight / tl.where(delta > 0, delta, 1.0), 0.0)
    weight = libdevice.exp(log_weight)
    goal = _upper(normal) * _tail(c, c, delta, weight)
    share = tl.maximum(goal * libdevice.exp(-log_weight), 1e-300)
    high = tl.maximum(c, delta - libdevice.normcdfinv(share))
    low = c
    for _ in range(steps):
        middle = (low + high) / 2
        above = _tail(middle, c, delta, weight) > goal
        low = tl.where(above, middle, low)
        high = tl.where(above, high, middle)
    tl.store(out + i, (low + high) / 2, mask=inside)


def residual_quantile(delta: Tensor, log_weight: Tensor, normal: Tensor, steps: int) -> Tensor:
    """See `gaussian._residual_quantile`; all of one shape, float64."""
    delta, log_weight, normal = (part.contiguous() for part in torch.broadcast_tensors(delta, log_weight, normal))
    out = torch.empty_like(delta)
    if out.numel():
        grid = (triton.cdiv(out.numel(), _BLOCK),)
        _quantile[grid](delta, log_weight, normal, out, out.numel(), steps, _BLOCK)
    return out
