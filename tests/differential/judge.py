"""What every judge needs: the same samples in another arrangement, tolerances, and whether numbers are fresh noise.

Vectors are compared step by step, from the states that were recorded: a step that starts from the library's own state
repeats none of its rounding, so the tolerance is that of one step however the chain expands. Whole paths are compared
where it does not. All laws are judged by their innovations: given every state, what is left of a step once its mean is
taken away must be fresh noise.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.special import gammainc, gammaincc, ndtr

import drawahead as da
from drawahead.chains import Chain
from drawahead.errors import InputError
from drawahead.samplers import Picard, Sampler
from drawahead.verification.statistics import kolmogorov
from tests.differential.cases import Asked, Dice, arrangements, drawn
from tests.exactness import combined

FAR = 12.0
"""Standard deviations that no noise of any suite reaches: 4e-33."""
CALM = 1e5
"""How much a chain may magnify rounding for whole paths to be compared."""


def rounding(dtype: torch.dtype) -> float:
    """What a step may be off by, as a share of the largest number in it: some ten thousand roundings, or a hundred."""
    return 1e-11 if dtype == torch.float64 else 1e-5


def strayed(dtype: torch.dtype, size: float, growth: float) -> float:
    """What paths with numbers of this size may be apart; infinite where rounding is magnified too much to tell."""
    return 100 * rounding(dtype) * size * growth if growth < CALM else math.inf


def floor(dtype: torch.dtype) -> float:
    """Below this, numbers have no digits left."""
    return 1e-290 if dtype == torch.float64 else 1e-36


def rearranged(chain: Chain, sampler: Sampler, wanted: Asked, d: Dice) -> Iterable[tuple[dict[str, Any], Tensor]]:
    """The same samples, or some of them, drawn in other ways: the options, and what comes of them."""
    ways = arrangements(d, wanted)
    for options in ways[:2] if isinstance(sampler, da.Coupled) else [d.choice(ways)]:
        yield options, drawn(chain, sampler, wanted, **options)
    packed: list[dict[str, Any]] = [{}, d.choice([{"max_live": 2}, ways[0]])]
    for options in packed if isinstance(sampler, da.Coupled) else [d.choice(packed)]:
        options = {"graphs": True, **options}
        if packs(sampler):
            yield options, drawn(chain, sampler, wanted, **options)
            continue
        try:
            drawn(chain, sampler, wanted, **options)
        except InputError:
            continue
        raise AssertionError(f"graphs=True should be refused with {sampler}")


def packs(sampler: Sampler) -> bool:
    """Whether graphs=True is documented to work: it needs a sampler that draws in windows."""
    return not isinstance(sampler, da.Recursive)


def part(samples: Tensor, wanted: Asked, options: dict[str, Any]) -> Tensor:
    """Those of all samples that these options ask for."""
    low = options.get("first", wanted.first) - wanted.first
    return samples[low : low + options.get("num_samples", wanted.count)]


def is_literal(sampler: Sampler) -> bool:
    """Whether it draws every step with the noise of the literal loop, on any chain."""
    return isinstance(sampler, da.Sequential | Picard)


def judge_company(case: Any, sampler: Sampler, everything: Tensor, d: Dice, slack: float) -> None:
    """That a vector chain's samples are, bit for bit, those of a call in which every state was recorded; if rounds are
    captured, they may be off by `slack`."""
    columns = [step - 1 for step in (*case.record, case.steps)]
    kept = (len(columns),) if case.record else ()
    for options, other in rearranged(case.chain(), sampler, case.asked, d):
        mine, what = part(everything, case.asked, options), f"{sampler} draws others with {options}"
        mine = mine.view(len(mine), case.steps, -1)[:, columns].reshape(len(mine), *kept, *case.sample_shape)
        assert other.shape == mine.shape and other.dtype == mine.dtype == case.dtype
        if "graphs" in options:
            judge_same(other, mine, slack, what)
        else:
            assert torch.equal(other, mine), what


def judge_same(one: Tensor, other: Tensor, slack: float, what: str) -> None:
    """That samples, or paths, are no farther apart than that."""
    assert bool(one.isfinite().all()), f"{what}: not finite"
    off = float((one - other).abs().max())
    assert off <= slack, f"{what}: {off:.3g} apart"


def path_of(samples: Tensor, first: Tensor, final: float = 1.0) -> Tensor:
    """The first states (m, d), and those that samples hold beside the last one: (m, kept, d), float64."""
    later = samples.double().reshape(len(first), -1, first[0].numel()).clone()
    later[:, -1] /= final
    return torch.cat([first.flatten(1)[:, None], later], dim=1)


def noise_p_value(z: Tensor) -> float:
    """That numbers (m, steps, d), where they are not NaN, are independent standard normals. 0 where one is infinite.

    All of them, those of each step and of each entry, sums and differences of disjoint neighbours along the path and
    in the vector, and those that follow a large, a small or a positive one: each by distribution, mean and variance.
    """
    if bool(z.isinf().any()):
        return 0.0
    steps, d = z.shape[1:]
    groups = [z, *(z.unbind(1) if steps > 1 else ()), *(z.unbind(2) if d > 1 else ())]
    along = z[:, 0 : 2 * (steps // 2) : 2], z[:, 1::2]
    across = z[..., 0 : 2 * (d // 2) : 2], z[..., 1::2]
    groups += [(one + sign * two) / math.sqrt(2) for one, two in (along, across) for sign in (1, -1)]
    earlier, later = z[:, :-1], z[:, 1:]
    groups += [later[earlier > 0.7], later[earlier < -0.7], later[earlier.abs() < 0.3]]
    groups += [torch.where(earlier > 0, later, -later)[~earlier.isnan()]]
    return combined([1.0, *(p for group in groups for p in normal_p_values(group.flatten()))])


def normal_p_values(z: Tensor) -> list[float]:
    """By Kolmogorov and Smirnov, by the sum and by the sum of squares; none where there are too few."""
    z = z[~z.isnan()]
    if len(z) < 50:
        return []
    half, square = torch.tensor(len(z) / 2, dtype=torch.float64), (z * z).sum() / 2
    tail = torch.minimum(gammainc(half, square), gammaincc(half, square))
    return [kolmogorov(ndtr(z)), *(float(2 * p) for p in (tail, ndtr(-(z.sum() / math.sqrt(len(z))).abs())))]
