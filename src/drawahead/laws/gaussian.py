"""Laws on vectors: isotropic Gaussians, draft and target with the same covariance.

Along e, the unit vector from the draft's mean to the target's, the draft is N(0, 1) and the target N(delta, 1), in
units of the standard deviation; across e they agree. So everything reduces to one dimension. With weight p <= 1 the
residual (p target - draft)_+ lives on z >= c, c = delta/2 - log(p)/delta, where its density is
phi(z) (exp(delta (z - c)) - 1).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar, Self, final

import torch
from torch import Tensor
from torch.special import erfc, log_ndtr, ndtri

from drawahead.doors import kernels
from drawahead.laws.base import Law
from drawahead.randomness import Purpose, Stream
from drawahead.values import dataclass

_CUDA = "drawahead.laws.gaussian_cuda"
_SMALL = 0.1  # deltas below this use a series in delta: there the closed form is a difference of nearly equal tails
_BISECTIONS = 60  # of an interval of at most a thousand standard deviations: to less than rounding
_DISJOINT = 1e3
"""Deltas from this on leave draft and target nothing in common: exp(-delta^2 / 8) is zero in every precision."""


@final
@dataclass(frozen=True)
class Gaussian(Law):
    """N(mean, scale^2 I): `mean` (rows, window, d) and `scale` (rows, window), float64; values (rows, window, d).

    A scale of zero is a point mass: it is sampled, but never drafted.

    A draft may *lean*: with a `slope` (rows, window) and an `anchor` (rows, window, d) its mean at the state x, once
    that is known, is mean + slope (x - anchor). `paths.follow` turns such a draft into a plain one. A slope of NaN
    marks a step without any answer yet.

    A target may be *thin*: `thin` (rows, window, d) holds the standard deviation of every entry, at most `scale`. Where
    one is smaller than `scale`, the covariance differs from the draft's, and no draft of that step is accepted. This is
    decided before the step's noise is read.
    """

    couples_alone: ClassVar[bool] = False
    mean: Tensor
    scale: Tensor
    slope: Tensor | None = None
    anchor: Tensor | None = None
    thin: Tensor | None = None

    def noise(self, stream: Stream, purpose: Purpose, step: Tensor, attempt: Tensor | int = 0) -> Tensor:
        return stream.normal(purpose, step, attempt, size=self.mean.shape[-1])

    def draw(self, noise: Tensor) -> Tensor:
        return torch.addcmul(self.mean, self.scale[..., None] if self.thin is None else self.thin, noise)

    def log_ratio(self, draft: Self, value: Tensor) -> Tensor:
        # delta times how far x lies beyond the middle of the means, along e and in standard deviations.
        size, e = self._apart(draft)
        middle = (self.mean + draft.mean).mul_(0.5)
        beyond = (e * (value - middle)).sum(-1)
        ratio = torch.where(size > 0, size / self._unit * (beyond / self._unit), 0.0)
        return ratio if self.thin is None else ratio.masked_fill(self._alone, -torch.inf)

    def residual_mass(self, draft: Self, log_weight: Tensor) -> Tensor:
        mass = _mass(self._apart(draft)[0] / self._unit, log_weight)
        return mass if self.thin is None else torch.where(self._alone, log_weight.exp(), mass)

    def draw_residual(self, draft: Self, log_weight: Tensor, noise: Tensor) -> Tensor:
        size, e = self._apart(draft)
        delta = size / self._unit
        along = (e * noise).sum(-1)
        z = _residual_quantile(delta.clamp(max=_DISJOINT), log_weight, along)
        moved = draft.mean + self.scale[..., None] * (noise + (z - along)[..., None] * e)
        # Without a residual, or where draft and target have nothing in common, it is the target.
        plain = (delta >= _DISJOINT) | (_mass(delta, log_weight) <= 0)
        if self.thin is not None:
            plain = plain | self._alone
        return torch.where(plain[..., None], self.draw(noise), moved)

    def couple(self, draft: Self, guess: Tensor, noise: Tensor, uniform: Tensor) -> tuple[Tensor, Tensor]:
        """Reflection coupling: keep the guess as often as any coupling can, else mirror it between the two means."""
        size, e = self._apart(draft)
        along = (e * noise).sum(-1)
        delta = size / self._unit
        keep = uniform.log() <= delta * (along - delta / 2)  # 0 where the means are the same
        # From the target's mean: a guess may lie so far away that moving it back would lose every digit.
        mirrored = torch.addcmul(self.mean, self.scale[..., None], torch.addcmul(noise, along[..., None], e, value=-2))
        values = torch.where(keep[..., None], guess, mirrored)
        if self.thin is None:
            return values, keep
        alone = self._alone
        return torch.where(alone[..., None], self.draw(noise), values), keep & ~alone

    def refined(
        self, draft: Self, guess: Tensor, noise: Tensor, uniform: Tensor, width: Tensor
    ) -> tuple[Tensor, Tensor]:
        if self.thin is None and (kernel := kernels(_CUDA, self.mean.device.type)) is not None:
            both: tuple[Tensor, Tensor] = kernel.refined(
                self.mean, draft.mean, self.scale, guess, noise, uniform, width
            )
            return both
        asked = guess.shape[1]
        values, agrees = self.first(asked).couple(draft, guess, noise[:, :asked], uniform)
        used = torch.arange(asked, device=width.device) < width[:, None]
        outright = self.draw(noise)
        values = torch.where(used[..., None], values, outright[:, :asked])
        return torch.cat([values, outright[:, asked:]], dim=1), (agrees & used).cumprod(1).sum(1)

    def secants(self, states: Tensor, draft: Self, slopes: tuple[Tensor, Tensor], width: Tensor) -> Tensor:
        """How the mean changes with the state, by this law's, at `states` (rows, w, ...), and that of a `draft` which
        leans (rows, w): the least-squares factor of one change along the other, held between the lowest and the highest
        of `slopes` (rows, w). Zero in columns from `width` (rows,) on, and where the draft was never asked about."""
        assert draft.slope is not None and draft.anchor is not None
        if (kernel := kernels(_CUDA, self.mean.device.type)) is not None:
            found: Tensor = kernel.secant(states, self.mean, draft.anchor, draft.mean, draft.slope, *slopes, width)
            return found
        moved, rose = states - draft.anchor, self.mean - draft.mean
        size = (moved * moved).sum(-1)
        found = ((moved * rose).sum(-1) / size.clamp(min=1e-30)).clamp(*slopes)
        found = torch.where(size > 1e-12, found, draft.slope)
        stands = (torch.arange(found.shape[1], device=width.device) >= width[:, None]) | draft.slope.isnan()
        return found.masked_fill_(stands, 0.0)

    def leaning(
        self,
        states: Tensor,
        draft: Self,
        slopes: tuple[Tensor, Tensor],
        width: Tensor,
        free: Tensor | None = None,
    ) -> Self:
        """This law (rows, w + 1), answered at `states`, with slopes from `draft` (rows, w), the answers before.

        Only a row's own `width` (rows,) columns lean: what lies behind them in the table is another row's business.
        Rows in which entries are not `free` do not lean: their states are not the draft's own.
        """
        drafted = draft.shape[1]
        slope = torch.zeros_like(self.scale)
        if draft.slope is not None:
            slope[:, :drafted] = self.first(drafted).secants(states[:, :drafted], draft, slopes, width)
        if free is not None:
            slope.masked_fill_(~free.all(-1, keepdim=True), 0.0)
        return type(self)(self.mean, self.scale, slope, states)

    def gap(self, draft: Self) -> Tensor:
        """The root mean square difference of the means, in standard deviations (absolute where there are none)."""
        return self._apart(draft)[0] / self._unit / math.sqrt(self.mean.shape[-1])

    def without_thin(self) -> Self:
        """As a draft."""
        return self if self.thin is None else replace(self, thin=None)

    @property
    def _alone(self) -> Tensor:
        """Which laws stand alone (rows, window)."""
        if self.thin is None:
            return torch.zeros_like(self.scale, dtype=torch.bool)
        return (self.thin < self.scale[..., None]).any(-1)

    @property
    def _unit(self) -> Tensor:
        return self.scale.masked_fill(self.scale == 0, 1.0)

    def _apart(self, draft: Self) -> tuple[Tensor, Tensor]:
        """How far apart the means are (rows, window), and e (rows, window, d), zero where they are the same.

        Scaled by the largest entry: no square may overflow or vanish, however small a standard deviation is.
        """
        shift = self.mean - draft.mean
        least = torch.finfo(shift.dtype).tiny  # so that no zero is divided by
        most = largest(shift)
        shift.div_(most.clamp(min=least)[..., None])
        length = torch.linalg.vector_norm(shift, dim=-1)
        return most * length, shift.div_(length.clamp(min=least)[..., None])

    def __getitem__(self, index: tuple[Tensor, Tensor]) -> Self:
        return self._each(lambda part: part[index])

    def first(self, width: int) -> Self:
        return self._each(lambda part: part[:, :width])

    def _each(self, cut: Callable[[Tensor], Tensor]) -> Self:
        slope, anchor, thin = (None if p is None else cut(p) for p in (self.slope, self.anchor, self.thin))
        return type(self)(cut(self.mean), cut(self.scale), slope, anchor, thin)

    def join(self, other: Self) -> Self:
        """Of drafts: no part is thin."""
        mean, scale = torch.cat([self.mean, other.mean], dim=1), torch.cat([self.scale, other.scale], dim=1)
        if self.slope is None and other.slope is None:
            return type(self)(mean, scale)
        slope = torch.cat(
            [torch.full_like(law.scale, torch.nan) if law.slope is None else law.slope for law in (self, other)], dim=1
        )
        anchor = torch.cat([law.mean if law.anchor is None else law.anchor for law in (self, other)], dim=1)
        return type(self)(mean, scale, slope, anchor)

    def padded(self, width: int, leaning: bool) -> Self:
        mean = self.mean.new_zeros(len(self.mean), width, self.mean.shape[-1])
        law = type(self)(mean, torch.ones_like(mean[..., 0]))
        return replace(law, slope=torch.full_like(law.scale, torch.nan), anchor=mean.clone()) if leaning else law

    @property
    def shape(self) -> tuple[int, int]:
        return self.scale.shape[0], self.scale.shape[1]


def _threshold(delta: Tensor, log_weight: Tensor) -> Tensor:
    """c, where the residual begins; +inf where there is none."""
    c = delta / 2 - log_weight / torch.where(delta > 0, delta, 1.0)
    return torch.where(delta > 0, c, torch.inf)


def _mass(delta: Tensor, log_weight: Tensor) -> Tensor:
    """The residual's mass, G(c)."""
    c = _threshold(delta, log_weight)
    return torch.where(c.isfinite(), _tail(c, c, delta, log_weight), 0.0)


def _tail(z: Tensor, c: Tensor, delta: Tensor, log_weight: Tensor) -> Tensor:
    """G(z): the residual's mass beyond z >= c."""
    small = delta < _SMALL
    some, all_of_them = (True, False) if delta.is_cuda else (bool(small.any()), bool(small.all()))
    if not some:
        return _direct_tail(z, delta, log_weight).clamp(min=0)
    # For small delta that is a difference of nearly equal tails. With t = z' - z the density is
    # phi(z + t) (exp(delta (z - c)) exp(delta t) - 1), whose integral is a sum of positive terms.
    past = (delta * (z - c)).clamp(max=50.0)
    stable = torch.expm1(past) * _upper(z) + torch.exp(past) * _excess(z, delta)
    return (stable if all_of_them else torch.where(small, stable, _direct_tail(z, delta, log_weight))).clamp(min=0)


def _direct_tail(z: Tensor, delta: Tensor, log_weight: Tensor) -> Tensor:
    return torch.exp(log_weight + log_ndtr(delta - z)) - _upper(z)


def _upper(z: Tensor) -> Tensor:
    """Phi(-z). torch's own ndtr loses its digits in the tail."""
    return torch.mul(erfc(z / math.sqrt(2)), 0.5)


def _excess(z: Tensor, delta: Tensor) -> Tensor:
    """The integral over t > 0 of phi(z + t) (exp(delta t) - 1), for small delta: a series in it."""
    # I_k, of t^k phi(z + t): I_0 = Phi(-z), I_1 = phi(z) - z I_0, I_k = (k - 1) I_{k-2} - z I_{k-1}.
    far = z > 25  # every term is below 1e-130
    z = z.clamp(max=25.0)
    delta = delta.clamp(max=_SMALL)
    before = _upper(z)
    now = torch.exp(-z * z / 2) / math.sqrt(2 * math.pi) - z * before
    total, power = torch.zeros_like(z), torch.ones_like(z)
    for k in range(1, 9):
        power = power * delta / k
        total = total + power * now.clamp(min=0)
        before, now = now, k * before - z * now
    return torch.where(far, 0.0, total)


def largest(x: Tensor) -> Tensor:
    """The largest absolute value along the last axis."""
    if x.device.type == "cpu":  # where a norm takes twenty times as long
        return x.abs().amax(-1)
    norm: Tensor = torch.linalg.vector_norm(x, torch.inf, dim=-1)
    return norm


def _residual_quantile(delta: Tensor, log_weight: Tensor, normal: Tensor) -> Tensor:
    """z >= c with G(z) = u G(c), u = Phi(-normal), by bisection."""
    if (kernel := kernels(_CUDA, delta.device.type)) is not None:
        quantile: Tensor = kernel.residual_quantile(delta, log_weight, normal, _BISECTIONS)
        return quantile
    c = _threshold(delta, log_weight)
    c = torch.where(c.isfinite(), c, 0.0)
    goal = _upper(normal) * _tail(c, c, delta, log_weight)
    # The residual is below p times the target, so beyond `high` its tail is at most the goal.
    high = torch.maximum(c, delta - ndtri((goal * torch.exp(-log_weight)).clamp(min=1e-300)))
    low = c
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        above = _tail(middle, c, delta, log_weight) > goal
        low, high = torch.where(above, middle, low), torch.where(above, high, middle)
    return (low + high) / 2
