"""Drawing from a target law through a draft of it: the building block of `Recursive`.

`rejection` and `speculative_rejection` are the two rejection samplers with which the paper (arXiv 2511.07869) begins,
on tables of one-step laws (see `laws`): one value for every cell. `Recursive` is made of the pieces of the second, with
whole segments for values, and threads that draw them. mu is the target, nu the draft.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from drawahead.errors import InputError
from drawahead.laws import Categorical, Gaussian, Law
from drawahead.randomness import Purpose, Stream, checked_seed
from drawahead.rounds.threads import Fork, Thread
from drawahead.validate import as_float64, number

MOST = 1e9
"""Draws that a bound may ask for."""
L = TypeVar("L", bound=Law)


def accepts_draft(uniform: Tensor, log_ratio: Tensor) -> Tensor:
    """Whether to take x ~ nu, with probability min(1, mu(x) / nu(x)), whose logarithm is `log_ratio`."""
    return uniform.log() <= log_ratio


def accepts_candidate(uniform: Tensor, log_ratio: Tensor) -> Tensor:
    """Whether to take y ~ mu, with probability max(0, 1 - nu(y) / mu(y))."""
    return uniform < -torch.expm1(-log_ratio)


def speculate(
    draft: Callable[..., Thread], candidate: Callable[..., Thread], place: tuple[Any, ...], batches: Iterable[range]
) -> Thread:
    """Try number 0, `draft(*place)`, and 1, 2, ..., `candidate(*place, number)`: threads that return None where what
    they drew is not accepted. Those of a batch run side by side. -> the number of the lowest one that is accepted, and
    what it drew: not of the first to end, for how long one takes may depend on what it draws.
    """
    for batch in batches:
        threads = [candidate(*place, number) if number else draft(*place) for number in batch]
        if len(threads) == 1:
            winner = 0, (yield from threads[0])
        else:
            winner = (yield Fork(threads, until=_accepted)) or (0, None)
        if _accepted(winner[1]):
            return batch[winner[0]], winner[1]
    raise AssertionError("there are always more candidates")


def _accepted(drawn: object) -> bool:
    return drawn is not None


class Rejection(NamedTuple):
    """Values from the target, and how many draws beyond the first each one took."""

    values: Tensor
    tries: Tensor


def rejection(target: L, draft: L, bound: float, *, seed: int = 0) -> Rejection:
    """Draw x ~ nu until one is accepted, with probability mu(x) / (bound nu(x)). Needs mu <= bound nu everywhere.

    Takes `bound` draws on average. Raises InputError when a drawn value shows that the bound does not hold.
    """
    if number("bound", bound, above=0) > MOST:
        raise InputError(f"bound={bound} would take as many draws: more than {MOST:g} are not tried")
    stream, step = _addresses(target, draft, seed)
    values, tries, open_ = (
        None,
        torch.zeros(target.shape, dtype=torch.int64),
        torch.ones(target.shape, dtype=torch.bool),
    )
    for attempt in range(2**31):
        x = draft.draw(draft.noise(stream, Purpose.VALUE, step, attempt))
        log_ratio = target.log_ratio(draft, x) - math.log(bound)
        if bool((log_ratio[open_] > 1e-9).any()):
            raise InputError(f"the target exceeds bound={bound} times the draft; use speculative_rejection instead")
        accepted = open_ & (stream.uniform(Purpose.ACCEPT, step, attempt).log() <= log_ratio)
        values = x if values is None else _put(values, x, accepted)
        open_ = open_ & ~accepted
        if not bool(open_.any()):
            break
        tries += open_
    assert values is not None
    return Rejection(values, tries)


def speculative_rejection(target: L, draft: L, *, seed: int = 0) -> Rejection:
    """Draw x ~ nu and accept it with probability min(1, mu(x) / nu(x)); if it is rejected, draw y ~ mu until one is
    accepted with probability max(0, 1 - nu(y) / mu(y)). No bound on mu / nu is needed.

    x is rejected with probability TV(mu, nu), and then 1 / TV draws of y are needed on average: two in all, but with a
    heavy tail. It pays where x is cheap, y is expensive and the two distributions are close, which is how the samplers
    use it.
    """
    stream, step = _addresses(target, draft, seed)
    values = draft.draw(draft.noise(stream, Purpose.VALUE, step))
    open_ = ~accepts_draft(stream.uniform(Purpose.ACCEPT, step), target.log_ratio(draft, values))
    tries = torch.zeros(target.shape, dtype=torch.int64)
    attempt = 0
    while bool(open_.any()):
        attempt += 1
        tries += open_
        y = target.draw(target.noise(stream, Purpose.VALUE, step, attempt))
        accepted = open_ & accepts_candidate(stream.uniform(Purpose.ACCEPT, step, attempt), target.log_ratio(draft, y))
        values, open_ = _put(values, y, accepted), open_ & ~accepted
    return Rejection(values, tries)


def _addresses(target: Law, draft: Law, seed: int) -> tuple[Stream, Tensor]:
    if type(draft) is not type(target) or _checked("draft", draft) != _checked("target", target):
        raise InputError("draft must be a law of the same kind and on the same values as the target")
    if isinstance(target, Gaussian) and isinstance(draft, Gaussian) and not torch.equal(target.scale, draft.scale):
        raise InputError("target and draft must have the same scale")
    rows, window = target.shape
    return Stream.of_samples(checked_seed(seed), torch.arange(rows)), torch.arange(window).expand(rows, window)


def _checked(name: str, law: Law) -> tuple[int, ...]:
    """The shape of a law's table. One that is no law is refused: from some a draw would never end."""
    if isinstance(law, Categorical):
        rows = as_float64(name, law.log_probs)
        if rows.dim() != 3 or not rows.shape[-1] or not bool((rows.logsumexp(-1).abs() <= 1e-6).all()):
            raise InputError(f"{name} must be log-probabilities (rows, window, q) that are normalised")
        return tuple(rows.shape)
    if isinstance(law, Gaussian):
        mean, scale = as_float64(name, law.mean, finite=True), as_float64(name, law.scale, finite=True)
        if mean.dim() != 3 or scale.shape != mean.shape[:2] or not bool((scale > 0).all()):
            raise InputError(f"{name} must have means (rows, window, d) and scales (rows, window), all above 0")
        return tuple(mean.shape)
    return tuple(law.shape)


def _put(old: Tensor, new: Tensor, where: Tensor) -> Tensor:
    return torch.where(where.view(*where.shape, *(1,) * (old.dim() - where.dim())), new, old)
