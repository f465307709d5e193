"""What affine chains work out in many steps, each as one CUDA kernel: walks along a draft, and answers that are sound.

Imported when there is a CUDA device to use it on; needs Triton, which comes with torch there.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from drawahead.laws import Gaussian
from drawahead.laws.gaussian_cuda import by_rows, entries_at_once, warps

_AHEAD = 8  # steps that are read at once: a walk waits for memory as seldom as it can
_SIZE = 64  # entries that one program walks with


@triton.jit(do_not_specialize=["x_row", "mean_row", "noise_row", "anchor_row", "small_row", "width", "last"])  # type: ignore[untyped-decorator]
def _walk(  # type: ignore[no-untyped-def]
    x_at, mean_at, noise_at, anchor_at, scale_at, slope_at, step_at, factor_at, values, means, states,
    x_row, mean_row, noise_row, anchor_row, small_row, width, last,
    d: tl.constexpr, drawn: tl.constexpr, ahead: tl.constexpr, size: tl.constexpr,
):  # fmt: skip
    parts: tl.constexpr = (d + size - 1) // size
    row = tl.program_id(0).to(tl.int64) // parts
    at = (tl.program_id(0) % parts) * size + tl.arange(0, size)
    inside = at < d
    near = tl.arange(0, ahead)
    x = tl.load(x_at + row * x_row + at, inside, 0.0)
    states += row * (width + 1) * d + at
    values += row * width * d + at
    means += row * width * d + at
    tl.store(states, x, inside)
    first = width * 0
    while first < width:
        column = first + near
        there = column < width
        cell, mask = column[:, None] * d + at[None, :], there[:, None] & inside[None, :]
        small = row * small_row + column
        step = tl.load(step_at + small, there, 0)
        a = tl.load(factor_at + tl.minimum(step, last), there, 1.0)
        base = tl.load(mean_at + row * mean_row + cell, mask, 0.0)
        slope = a * 0.0
        more = base * 0.0
        if drawn:
            slope = tl.load(slope_at + small, there, 0.0)
            slope = tl.where(slope == slope, slope, 0.0)  # NaN before any answer
            base -= slope[:, None] * tl.load(anchor_at + row * anchor_row + cell, mask, 0.0)
            scale = tl.load(scale_at + small, there, 0.0)
            more = scale[:, None] * tl.load(noise_at + row * noise_row + cell, mask, 0.0)
        for i in tl.static_range(ahead):
            here = near == i
            leans = tl.sum(tl.where(here, slope, 0.0))
            keeps = tl.sum(tl.where(here, a, 0.0))
            fixed = tl.sum(tl.where(here[:, None], base, 0.0), 0)
            random = tl.sum(tl.where(here[:, None], more, 0.0), 0)
            written = inside & (first + i < width)
            if drawn:
                mean = fixed + leans * x
                tl.store(means + (first + i) * d, mean, written)
                tl.store(values + (first + i) * d, mean + random, written)
            x = (keeps + leans) * x + (fixed + random)
            tl.store(states + (first + i + 1) * d, x, written)
        first += ahead


def walked(x: Tensor, values: Tensor, step: Tensor, factors: Tensor) -> Tensor:
    """The states (rows, w + 1, d) on the way from x (rows, d) by values (rows, w, d) at `step` (rows, w): see
    `ScalarMoves.roll`. `factors` (N + 1,) are those of every step, the last for all behind."""
    states = x.new_empty(len(x), values.shape[1] + 1, x.shape[1])
    _launch(x, values, None, step, factors, (states, states, states))
    return states


def followed(x: Tensor, draft: Gaussian, noise: Tensor, step: Tensor, factors: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """What `ScalarMoves.follow` answers: the values and means (rows, w, d) of a draft that leans, and the states."""
    outputs = torch.empty_like(draft.mean), torch.empty_like(draft.mean)
    states = x.new_empty(len(x), noise.shape[1] + 1, x.shape[1])
    _launch(x, noise, draft, step, factors, (*outputs, states))
    return *outputs, states


def _launch(
    x: Tensor, moved: Tensor, draft: Gaussian | None, step: Tensor, factors: Tensor, out: tuple[Tensor, Tensor, Tensor]
) -> None:
    """`moved`: the noise of a draft, or values as they are."""
    rows, width, d = moved.shape
    step = step.contiguous()
    mean = anchor = noise = by_rows(moved)
    scale = slope = factors
    if draft is not None and draft.anchor is not None and draft.slope is not None:
        mean, anchor = by_rows(draft.mean), by_rows(draft.anchor)
        scale, slope = draft.scale.contiguous(), draft.slope.contiguous()
    if rows:
        tables = (x, mean, noise, anchor, scale, slope, step, factors, *out)
        strides = (x.stride(0), mean.stride(0), noise.stride(0), anchor.stride(0), width)
        grid = (rows * -(-d // _SIZE),)
        _walk[grid](*tables, *strides, width, len(factors) - 1, d, draft is not None, _AHEAD, _SIZE, num_warps=1)


@triton.jit(do_not_specialize=["states_row", "values_row", "last"])  # type: ignore[untyped-decorator]
def _reach(  # type: ignore[no-untyped-def]
    x_at, states, values, step_at, count_at, factor_at, out, states_row, values_row, last,
    d: tl.constexpr, size: tl.constexpr,
):  # fmt: skip
    parts: tl.constexpr = (d + size - 1) // size
    row = tl.program_id(0).to(tl.int64) // parts
    at = (tl.program_id(0) % parts) * size + tl.arange(0, size)
    inside = at < d
    count = tl.load(count_at + row)
    before = tl.maximum(count - 1, 0)
    a = tl.load(factor_at + tl.minimum(tl.load(step_at + row) + before, last))
    state = tl.load(states + row * states_row + before * d + at, inside, 0.0)
    after = tl.load(values + row * values_row + before * d + at, inside, 0.0) + a * state
    tl.store(out + row * d + at, tl.where(count > 0, after, tl.load(x_at + row * d + at, inside, 0.0)), inside)


def reached(x: Tensor, states: Tensor, values: Tensor, step: Tensor, count: Tensor, factors: Tensor) -> Tensor:
    """See `ScalarMoves.reached`; `factors` as for `walked`."""
    states, values, out = by_rows(states), by_rows(values), torch.empty_like(x, memory_format=torch.contiguous_format)
    if len(x):
        tables = (x.contiguous(), states, values, step.contiguous(), count.contiguous(), factors, out)
        size = min(256, entries_at_once(d := x.shape[1]))
        grid = (len(x) * -(-d // size),)
        _reach[grid](*tables, states.stride(0), values.stride(0), len(factors) - 1, d, size, num_warps=1)
    return out


@triton.jit(do_not_specialize=["columns"])  # type: ignore[untyped-decorator]
def _settle(flat, count_at, bad, columns, d: tl.constexpr, size: tl.constexpr):  # type: ignore[no-untyped-def]
    i = tl.program_id(0).to(tl.int64)
    used = i % columns < tl.load(count_at + i // columns)
    worst = 0
    for first in range(0, d, size):
        at = first + tl.arange(0, size)
        entry = tl.load(flat + i * d + at, at < d, 0.0)
        finite = tl.abs(entry) < float("inf")
        worst = tl.maximum(worst, tl.max(tl.where(finite, 0, 1)))
        tl.store(flat + i * d + at, tl.where(finite, entry, 0.0), at < d)
    tl.store(bad, True, used & (worst > 0))


def settled(flat: Tensor, count: Tensor, columns: int) -> Tensor:
    """Put zeros where answers (rows * columns, d) are not finite. -> whether there were any (1,), but for columns from
    `count` (rows,) on: see `GaussianQuery.answer_all`."""
    bad = torch.zeros(1, dtype=torch.bool, device=flat.device)
    if flat.numel():
        size = entries_at_once(d := flat.shape[1])
        _settle[(len(flat),)](flat, count.contiguous(), bad, columns, d, size, num_warps=warps(size))
    return bad
