"""Inference: all parts, one after another, as one chain of Gaussian steps.

The model sees the whole state: finished parts in the places before, noise being cleaned in the next. So a window of any
sampler may reach beyond the end of a part, where drafts see a guess of the part that is not yet finished, and the
distribution is that of drawing part after part. A step without noise, such as DDPM's last, is never speculated on:
windows end there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import nn

from drawahead.ardiffusion.inner import RTK, langevin, scheduled
from drawahead.ardiffusion.parts import Conditionals
from drawahead.chains.stacked import StackedChain
from drawahead.sample import Result
from drawahead.sample import sample as draw
from drawahead.samplers.base import Sampler
from drawahead.schedules import OUExponential, Schedule

DEFAULT = OUExponential.even(64, first=5.0, last=1e-3)
"""64 steps a part, down to noise of standard deviation 0.045, and every one of them with noise."""


def chain(
    conditionals: Conditionals,
    inner: Schedule | RTK = DEFAULT,
    *,
    record: Sequence[int] = (),
    dtype: torch.dtype | None = None,
) -> StackedChain:
    """The chain that draws part after part, each by the steps of `inner`.

    Samples are (num_samples, K, d): what `parts.join` makes data of. `record` and `dtype` are as in `StackedChain`.
    """
    device, usual = torch.device("cpu"), torch.float64
    if isinstance(conditionals, nn.Module):
        device, usual = next(conditionals.parameters()).device, torch.float32
    if isinstance(inner, RTK):
        plan, oracle = langevin(inner, conditionals, device)
    else:
        plan, oracle = scheduled(inner, conditionals, device)
    dtype = dtype or usual
    return StackedChain(oracle, plan, (conditionals.parts.size,), record=record, dtype=dtype, device=device)


def sample(
    conditionals: Conditionals,
    num_samples: int = 1,
    *,
    inner: Schedule | RTK = DEFAULT,
    sampler: Sampler | str | None = None,
    seed: int | None = None,
    max_live: int = 1024,
) -> Result:
    """Draw data (num_samples, *parts.shape): `drawahead.sample` on the chain, its parts joined."""
    result = draw(chain(conditionals, inner), num_samples, sampler=sampler, seed=seed, max_live=max_live)
    return replace(result, samples=conditionals.parts.join(result.samples))
