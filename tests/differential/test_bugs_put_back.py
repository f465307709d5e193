"""Bugs that drawahead has had, each put back: the cases that pass without it, in CI, must fail with it.

What was wrong is written down where it is put back. `near` names cases of CI that are known to find it, so that the
others need not be tried; should the cases change, it is looked for in all of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

import drawahead.chains.affine_queries
import drawahead.chains.gaussian
import drawahead.runner
from drawahead import Coupled, GaussianChain
from drawahead.chains.affine import AffineChain
from drawahead.chains.moves import ScalarMoves
from drawahead.errors import DrawaheadError, InputError
from drawahead.laws import Gaussian
from drawahead.rounds.captured.batch import CapturedBatch, Shape
from tests.differential.test_differential import CASES, judge, test_another_seed_is_other_noise_or_refused

Patch = pytest.MonkeyPatch


def negative_a_is_zero(patch: Patch) -> None:
    """A was kept above 1e-80, so that states could be worked out by division: a negative one became zero."""
    own = ScalarMoves._a
    patch.setattr(ScalarMoves, "_a", lambda moves, step: own(moves, step).clamp(min=1e-80))


def a_neighbours_window(patch: Patch) -> None:
    """A row's last answer got a slope from padding, if another row's window was wider."""
    own = Gaussian.leaning

    def leaning(
        target: Gaussian, states: Tensor, draft: Gaussian, slopes: Any, width: Tensor, free: Any = None
    ) -> Gaussian:
        return own(target, states, draft, slopes, torch.full_like(width, draft.shape[1]), free)

    patch.setattr(Gaussian, "leaning", leaning)


class ByTheMean(Coupled):
    """Goes by what the samples drawn together have committed on average."""

    def pays(self, position: Tensor, rounds: Tensor) -> Tensor:
        return super().pays(position.double().mean().expand(position.shape), rounds)


def least_by_the_mean(patch: Patch) -> None:
    """Captured rounds gave up speculation for all samples or for none."""
    own = CapturedBatch.__init__

    def init(batch: CapturedBatch, sampler: Any, fresh: Any) -> None:
        by_mean = isinstance(sampler, Coupled)
        own(batch, ByTheMean(sampler.window, sampler.secant, sampler.least) if by_mean else sampler, fresh)

    patch.setattr(CapturedBatch, "__init__", init)


def stale_drafts(patch: Patch) -> None:
    """After a captured round without speculation, drafts were those of an older position."""
    own = CapturedBatch._round

    def pays(sampler: Coupled, position: Tensor, rounds: Tensor) -> Tensor:
        return (rounds != 3).expand(position.shape)

    def stale(batch: CapturedBatch, model: Any, shape: Shape) -> None:
        before = {name: tensor.clone() for name, tensor in batch._drafts.items()}
        own(batch, model, shape)
        if not shape.window:
            for name, tensor in before.items():
                later = batch._state["rounds"] > 1
                batch._drafts[name][later] = tensor[later]

    patch.setattr(Coupled, "pays", pays)
    patch.setattr(CapturedBatch, "_round", stale)


def divided(x: Tensor, own: Tensor, slope: Tensor | float, values: Tensor) -> Tensor:
    """The states x' = a x + value, from products of a: P_i (x + sum_{j < i} value_j / P_{j+1}). For 0 it has 1e-80."""
    scale = (torch.where(own == 0, 1e-80, own) + slope).cumprod(1)[..., None]
    later = (values / scale).cumsum(1).add(x[:, None]).mul(scale)
    return torch.cat([x[:, None], later], dim=1)


def dividing(patch: Patch, where: Callable[[ScalarMoves, Tensor], bool]) -> None:
    """Work states out by division where that is said, by the A's of the window."""
    own = ScalarMoves._rolled

    def rolled(moves: ScalarMoves, x: Tensor, step: Tensor, values: Tensor, slope: Tensor | None = None) -> Tensor:
        a = moves._a(step)
        if where(moves, a):
            return divided(x, a, 0.0 if slope is None else slope, values)
        return own(moves, x, step, values, slope)

    patch.setattr(ScalarMoves, "_rolled", rolled)


def division_by_products(patch: Patch) -> None:
    """States were worked out by dividing by products of A, unless one in the batch was too small."""
    dividing(patch, lambda moves, a: bool((a.abs().clamp(min=1e-80).log().sum(1) > -200).all()))


def harmless_division(patch: Patch) -> None:
    """Division by products of A only on chains on which they stay close to one: nothing shows."""

    def close(moves: ScalarMoves, a: Tensor) -> bool:
        log = torch.nn.functional.pad(moves.plan.a.abs().log().cumsum(0), (1, 0))
        return float(log.max() - log.min()) < 5

    dividing(patch, close)


def slopes_of_one_sign(patch: Patch) -> None:
    """Slopes were held between 0 and B / signal also where that is negative: A and such a slope may add up to zero."""
    harmless_division(patch)
    own = ScalarMoves.__init__

    def init(moves: ScalarMoves, *args: Any) -> None:
        own(moves, *args)
        lowest, highest = moves.slopes
        moves.slopes = torch.zeros_like(lowest), torch.where(moves.plan.signal[:-1] > 0, lowest + highest, 0.0)

    patch.setattr(ScalarMoves, "__init__", init)


def squares_that_overflow(patch: Patch) -> None:
    """The distance of two means was squared in standard deviations: with one of 1e-160 that is no number."""

    def couple(law: Gaussian, draft: Gaussian, guess: Tensor, noise: Tensor, uniform: Tensor) -> tuple[Tensor, Tensor]:
        shift = (law.mean - draft.mean) / law._unit[..., None]
        square, product = (shift * shift).sum(-1), (shift * noise).sum(-1)
        keep = uniform.log() <= product - square / 2
        mirror = torch.where(keep, 0.0, (square - 2 * product) / torch.where(square > 0, square, 1.0))
        return guess + (law.scale * mirror)[..., None] * shift, keep

    patch.setattr(Gaussian, "couple", couple)


def mirrored_from_afar(patch: Patch) -> None:
    """What was not kept was mirrored from the guess, which may be so far away that nothing is left of the noise."""

    def couple(law: Gaussian, draft: Gaussian, guess: Tensor, noise: Tensor, uniform: Tensor) -> tuple[Tensor, Tensor]:
        size, e = law._apart(draft)
        along, delta = (e * noise).sum(-1), size / law._unit
        keep = uniform.log() <= torch.where(size > 0, delta * (along - delta / 2), 0.0)
        mirror = torch.where(keep, 0.0, size - 2 * law.scale * along)
        return torch.addcmul(guess, mirror[..., None], e), keep

    patch.setattr(Gaussian, "couple", couple)


def views(chain: AffineChain, state: Tensor, step: Tensor, given: Any) -> Tensor:
    x = state.reshape(-1, *chain.state_shape).to(chain.dtype)
    prediction = chain.predict(x, step.to(chain.device), given)
    assert isinstance(prediction, Tensor)
    return chain.moves.adjust(prediction.reshape(len(step), -1).double())


def views_of_states(patch: Patch) -> None:
    """Rounds showed the model their own states and steps: what it wrote there was theirs."""
    patch.setattr(drawahead.chains.affine_queries, "predictions", views)


def zeros_refused(patch: Patch) -> None:
    """Captured rounds refused chains with two A's of zero, and blamed the sampler."""
    own = drawahead.runner.start

    def start(call: Any, held: Any) -> Any:
        if call.graphs and isinstance(call.chain, GaussianChain) and int((call.chain.plan.a == 0).sum()) > 1:
            raise InputError("graphs=True needs another sampler")
        return own(call, held)

    patch.setattr(drawahead.runner, "start", start)


def seeds_modulo(patch: Patch) -> None:
    """Seeds were taken modulo 2^64."""
    patch.setattr(drawahead.runner, "seed_from", lambda seed, generator: seed % 2**64)


@dataclass(frozen=True)
class Bug:
    put_back: Callable[[Patch], None]
    near: tuple[int, ...] = ()
    """Cases that found it once: they are tried first."""
    kind: str = "gaussian"

    def __str__(self) -> str:
        return self.put_back.__name__


BUGS = [
    Bug(negative_a_is_zero),
    Bug(a_neighbours_window, near=(23,)),
    Bug(least_by_the_mean, near=(56,)),
    Bug(stale_drafts, near=(5,)),
    Bug(division_by_products, near=(23,)),
    Bug(slopes_of_one_sign, near=(5,)),
    Bug(squares_that_overflow),
    Bug(mirrored_from_afar, near=(97,)),
    Bug(views_of_states),
    Bug(views_of_states, kind="stacked"),
    Bug(zeros_refused),
]


def finds(kind: str, seed: int) -> bool:
    """Whether this case fails."""
    try:
        judge(kind, seed)
    except (AssertionError, DrawaheadError):
        return True
    return False


@pytest.mark.parametrize("bug", BUGS, ids=str)
def test_a_bug_is_found(bug: Bug, monkeypatch: Patch) -> None:
    bug.put_back(monkeypatch)
    assert any(finds(bug.kind, seed) for seed in itertools.chain(bug.near, range(CASES[bug.kind])))


def test_seeds_that_alias_are_found(monkeypatch: Patch) -> None:
    seeds_modulo(monkeypatch)
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        test_another_seed_is_other_noise_or_refused(0)
