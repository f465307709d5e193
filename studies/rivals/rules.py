"""How speculative diffusion samplers verify drafts: three published rules, and what they are without their corrections.

At a node, K drafts are drawn from N(p, sigma^2 I), and one state of law N(q, sigma^2 I) is wanted. Only the direction
of q - p matters: along it, in units of sigma, a draft is s ~ N(0, 1) and the wanted state N(delta, 1). A rule sees the
drafts' positions along it, (b, K), and delta, (b,). It returns which draft it takes, whether that draft stays as it is,
and where along the direction it puts the state otherwise; what is orthogonal is then that of the first draft.

Reflection is Algorithm 1 of arXiv 2609.17691 after De Bortoli et al. (arXiv 2501.05370), greedy rejection its Algorithm
2 (D-GRS), and rank selection the rule called PAWS in the code published with it. Nothing here is drawahead's.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import torch
from torch import Tensor

Verdict = tuple[Tensor, Tensor, Tensor]
"""The draft that is taken (b,), whether it is accepted (b,), and the corrected position (b,)."""
Rule = Callable[[Tensor, Tensor, torch.Generator], Verdict]

TINY = 1e-10  # drafts that lie this close to their target are accepted
SHARES = 33  # of the largest draft, from which rank selection chooses
FINE = 0.05
TRIALS = 16  # at once, for a residual drawn by rejection


def reflection(s: Tensor, delta: Tensor, generator: torch.Generator) -> Verdict:
    """One draft: keep it with probability min(1, q/p), or mirror it."""
    position = s[:, 0]
    accepted = _uniform(delta, generator).log() <= delta * position - delta**2 / 2
    return torch.zeros_like(delta, dtype=torch.int64), accepted, delta - position


def greedy(s: Tensor, delta: Tensor, generator: torch.Generator) -> Verdict:
    """Drafts in the order they were drawn: each takes as much of the target's mass as is left and it can."""
    step = delta.clamp(min=TINY)
    level, mass = torch.zeros_like(delta), torch.ones_like(delta)
    taken, accepted = torch.zeros_like(delta, dtype=torch.int64), delta <= TINY
    for k in range(s.shape[1]):
        ratio = (step * s[:, k] - step**2 / 2).clamp(max=700).exp()
        chance = (ratio - level).clamp(min=0) / mass.clamp(min=1e-300)
        new = ~accepted & (_uniform(delta, generator) < chance)
        taken, accepted = torch.where(new, k, taken), accepted | new
        level = level + mass
        mass = torch.minimum(mass, _beyond(level.log() / step + step / 2, step, level).clamp(min=0))
    return taken, accepted, _residual(level, step, generator)


def ranked(s: Tensor, delta: Tensor, generator: torch.Generator) -> Verdict:
    """The largest draft with a probability that depends on delta alone, else any; then maximal coupling."""
    step = delta.clamp(min=TINY)
    share = best_share(step, s.shape[1])
    largest = _uniform(delta, generator) < share
    anyone = torch.randint(s.shape[1], delta.shape, generator=generator)
    taken = torch.where(largest, s.argmax(1), anyone)
    position = s.gather(1, taken[:, None])[:, 0]
    accepted = _uniform(delta, generator).log() <= -_selected_over_target(position, step, share, s.shape[1])
    return taken, accepted | (delta <= TINY), _ranked_residual(accepted, step, share, s.shape[1], generator)


RULES: dict[str, Rule] = {"reflection": reflection, "D-GRS": greedy, "PAWS": ranked}


def uncorrected(rule: Rule) -> Rule:
    """A mutant: what is rejected is drawn from the target itself instead of what is left of it."""

    def judge(s: Tensor, delta: Tensor, generator: torch.Generator) -> Verdict:
        taken, accepted, _ = rule(s, delta, generator)
        return taken, accepted, delta + torch.randn(delta.shape, dtype=delta.dtype, generator=generator)

    return judge


def unverified(rule: Rule) -> Rule:
    """A mutant: every draft is accepted."""

    def judge(s: Tensor, delta: Tensor, generator: torch.Generator) -> Verdict:
        taken, accepted, position = rule(s, delta, generator)
        return taken, torch.ones_like(accepted), position

    return judge


def _uniform(like: Tensor, generator: torch.Generator) -> Tensor:
    return torch.rand(like.shape, dtype=like.dtype, generator=generator)


def _beyond(z: Tensor, delta: Tensor, level: Tensor) -> Tensor:
    """The mass of target - level * draft beyond z."""
    return torch.special.ndtr(delta - z) - level * torch.special.ndtr(-z)


def _residual(level: Tensor, delta: Tensor, generator: torch.Generator) -> Tensor:
    """A draw from (target - level * draft)_+, normalised, by bisection of its tail."""
    low = level.log() / delta + delta / 2
    wanted = _uniform(delta, generator) * _beyond(low, delta, level)
    high = low + 64
    for _ in range(80):
        middle = (low + high) / 2
        above = _beyond(middle, delta, level) > wanted
        low, high = torch.where(above, middle, low), torch.where(above, high, middle)
    return (low + high) / 2


def _selected_over_target(s: Tensor, delta: Tensor, share: Tensor, drafts: int) -> Tensor:
    """log(density of the selected draft / density of the target) at s; by Bayes, the largest has K Phi(s)^(K-1)."""
    largest = math.log(drafts) + (drafts - 1) * torch.special.log_ndtr(s)
    return torch.logaddexp((1 - share).log(), share.log() + largest) - delta * s + delta**2 / 2


def best_share(delta: Tensor, drafts: int) -> Tensor:
    """How often the largest draft should be selected, for the most acceptance; with two drafts no ranks do better."""
    table = _best_shares(drafts)
    return table[(delta / FINE).round().long().clamp(max=len(table) - 1)]


@lru_cache
def _best_shares(drafts: int) -> Tensor:
    """By delta, in steps of FINE: rounding it costs acceptance, never the law."""
    delta = torch.arange(0, 8, FINE, dtype=torch.float64)
    shares = torch.linspace(0, 1, SHARES, dtype=torch.float64)
    s = torch.linspace(-9, 9, 361, dtype=torch.float64) + delta[:, None] / 2  # (deltas, points)
    density = (-((s - delta[:, None]) ** 2) / 2).exp()
    ratio = _selected_over_target(s[:, None], delta[:, None, None], shares[:, None], drafts)
    return shares[(density[:, None] * ratio.exp().clamp(max=1)).sum(2).argmax(1)]


def _ranked_residual(accepted: Tensor, delta: Tensor, share: Tensor, drafts: int, generator: torch.Generator) -> Tensor:
    """Where a draft was rejected: a draw from (target - selected)_+, by rejection from the target."""
    position = torch.zeros_like(delta)
    waiting = (~accepted).nonzero()[:, 0]
    while len(waiting):
        at, mixed = delta[waiting, None], share[waiting, None]
        s = at + torch.randn(len(waiting), TRIALS, dtype=delta.dtype, generator=generator)
        left = 1 - _selected_over_target(s, at, mixed, drafts).exp()
        kept = torch.rand(s.shape, dtype=delta.dtype, generator=generator) < left
        first = kept.long().argmax(1, keepdim=True)
        position[waiting] = s.gather(1, first)[:, 0]
        waiting = waiting[~kept.any(1)]
    return position
