"""What `laws.gaussian` works out in many steps, each as one CUDA kernel: the same formulas, up to rounding.

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


# Not another kernel for every shape: to make one takes as long as a hundred rounds.
@triton.jit(do_not_specialize=["mean_row", "draft_row", "guess_row", "noise_row", "columns"])  # type: ignore[untyped-decorator]
def _refine(  # type: ignore[no-untyped-def]
    mean, draft, guess, noise, scale_at, uniform_at, width_at, values, kept,
    mean_row, draft_row, guess_row, noise_row, columns,
    d: tl.constexpr, least: tl.constexpr, size: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0).to(tl.int64)
    row, column = i // columns, i % columns
    mean += row * mean_row + column * d
    draft += row * draft_row + column * d
    guess += row * guess_row + column * d
    noise += row * noise_row + column * d
    values += i * d
    used = column < tl.load(width_at + row)  # elsewhere there is no guess
    scale, uniform = tl.load(scale_at + i), tl.load(uniform_at + row * (columns - 1) + column, used, 0.5)
    at = tl.arange(0, size)
    largest = scale * 0.0
    for first in range(0, d, size):
        inside = (first + at < d) & used
        shift = tl.load(mean + first + at, inside, 0.0) - tl.load(draft + first + at, inside, 0.0)
        largest = tl.maximum(largest, tl.max(tl.abs(shift)))
    square, dot = scale * 0.0, scale * 0.0
    unit = tl.maximum(largest, least)
    for first in range(0, d, size):
        inside = (first + at < d) & used
        shift = (tl.load(mean + first + at, inside, 0.0) - tl.load(draft + first + at, inside, 0.0)) / unit
        square += tl.sum(shift * shift)
        dot += tl.sum(shift * tl.load(noise + first + at, inside, 0.0))
    length = tl.sqrt(square)
    across = tl.maximum(length, least)
    along = dot / across
    delta = largest * length / tl.where(scale == 0, scale * 0.0 + 1.0, scale)
    keep = tl.log(uniform) <= delta * (along - delta / 2)
    tl.atomic_min(kept + row, column, used & (keep == 0))
    for first in range(0, d, size):
        inside = first + at < d
        target, here = tl.load(mean + first + at, inside, 0.0), tl.load(noise + first + at, inside, 0.0)
        e = (target - tl.load(draft + first + at, inside & used, 0.0)) / unit / across
        turned = tl.where(used, here - 2 * along * e, here)
        value = tl.where(used & keep, tl.load(guess + first + at, inside & used, 0.0), target + scale * turned)
        tl.store(values + first + at, value, inside)


def refined(
    mean: Tensor, draft: Tensor, scale: Tensor, guess: Tensor, noise: Tensor, uniform: Tensor, width: Tensor
) -> tuple[Tensor, Tensor]:
    """See `Gaussian.refined`: tables (rows, window, d), `scale` and `uniform` (rows, window), `width` (rows,)."""
    mean, draft, guess, noise = (by_rows(table) for table in (mean, draft, guess, noise))
    values, kept = mean.new_empty(mean.shape), width.clone()
    if len(mean):
        strides = [table.stride(0) for table in (mean, draft, guess, noise)]
        small = (scale.contiguous(), uniform.contiguous(), width.contiguous(), values, kept)
        (columns, d), least, size = mean.shape[1:], torch.finfo(mean.dtype).tiny, entries_at_once(mean.shape[2])
        grid = (scale.numel(),)
        _refine[grid](mean, draft, guess, noise, *small, *strides, columns, d, least, size, num_warps=warps(size))
    return values, kept


@triton.jit(do_not_specialize=["state_row", "mean_row", "anchor_row", "draft_row", "columns"])  # type: ignore[untyped-decorator]
def _secant(  # type: ignore[no-untyped-def]
    state, mean, anchor, draft, slope_at, low_at, high_at, width_at, out,
    state_row, mean_row, anchor_row, draft_row, columns,
    d: tl.constexpr, size: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0).to(tl.int64)
    row, column = i // columns, i % columns
    state += row * state_row + column * d
    mean += row * mean_row + column * d
    anchor += row * anchor_row + column * d
    draft += row * draft_row + column * d
    slope = tl.load(slope_at + i)
    none = tl.where(slope == slope, slope, 0.0) * 0.0  # a zero of the tables' type; a slope may be NaN
    square, dot = none, none
    at = tl.arange(0, size)
    for first in range(0, d, size):
        inside = first + at < d
        moved = tl.load(state + first + at, inside, 0.0) - tl.load(anchor + first + at, inside, 0.0)
        square += tl.sum(moved * moved)
        dot += tl.sum(moved * (tl.load(mean + first + at, inside, 0.0) - tl.load(draft + first + at, inside, 0.0)))
    found = dot / tl.maximum(square, 1e-30)
    found = tl.minimum(tl.maximum(found, tl.load(low_at + i)), tl.load(high_at + i))
    found = tl.where(square > 1e-12, found, slope)
    leans = (column < tl.load(width_at + row)) & (slope == slope)
    tl.store(out + i, tl.where(leans, found, 0.0))


def secant(
    states: Tensor, mean: Tensor, anchor: Tensor, draft: Tensor, slope: Tensor, low: Tensor, high: Tensor, width: Tensor
) -> Tensor:
    """See `Gaussian.secants`: tables (rows, window, d), `slope`, `low` and `high` (rows, window), `width` (rows,)."""
    tables = [by_rows(table) for table in (states, mean, anchor, draft)]
    out = torch.empty(slope.shape, dtype=slope.dtype, device=slope.device)
    if out.numel():
        small = (slope.contiguous(), low.contiguous(), high.contiguous(), width.contiguous(), out)
        columns, d = mean.shape[1:]
        strides, size = [table.stride(0) for table in tables], entries_at_once(d)
        _secant[(out.numel(),)](*tables, *small, *strides, columns, d, size, num_warps=warps(size))
    return out


def by_rows(table: Tensor) -> Tensor:
    """A table (rows, window, d) whose rows are each in one piece."""
    return table if table[:1].is_contiguous() else table.contiguous()


def entries_at_once(d: int) -> int:
    """How many entries of a vector one program works on at once."""
    return min(4096, 1 << (d - 1).bit_length())


def warps(size: int) -> int:
    """How many warps do that: a few entries for each thread."""
    return max(1, min(16, size // 256))
