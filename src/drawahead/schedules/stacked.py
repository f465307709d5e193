"""The coefficients of a chain whose state stacks several vectors, worked out and checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, replace
from typing import Any, final

import torch
from torch import Tensor

from drawahead.errors import InputError
from drawahead.validate import as_float64, short
from drawahead.values import dataclass

_RANK = 1e-14  # singular values of s that are as small as this, against the largest, are none
_SLIGHT = 1e-9  # what b may have along them: rounding


@final
@dataclass(frozen=True, eq=False)
class StackedPlan:
    """N steps on c lanes. Step k draws u = b_k m_k + xi and moves the lanes X (c, d) to a_k X + s_k u.

    m_k (d,) is the oracle's answer at X and xi (r, d) standard normal, so u is a Gaussian of unit scale, and s_k s_k^T
    the covariance that a step adds to the lanes. In a step that is `deterministic` there is no xi: u = b_k m_k.

    `refresh` holds matrices R (N + 1, c, c) and T (N + 1, c, q): once k steps are taken, k = 0 ... N, the lanes X
    become R_k X + T_k zeta with fresh standard normal zeta (q, d), which does not depend on the oracle.

    `start` holds the standard deviation of each lane at the beginning. `final` computes a sample from the last lanes:
    weights (c,) for one vector, or a matrix (outputs, c).

    `reads` lets drafts lean (see `Coupled.secant`): weights of the lanes whose sum an answer mostly follows. The answer
    of step k is then drafted at other lanes by a slope times how far sum_j reads_kj X_j has moved, and `slopes` holds
    the lowest and the highest possible slope, where they are known. Neither changes the distribution; both may save
    rounds. All tensors are float64.
    """

    a: Tensor  # (N, c, c)
    b: Tensor  # (N, r)
    s: Tensor  # (N, c, r)
    _: KW_ONLY
    start: Tensor  # (c,)
    final: Tensor  # (c,) or (outputs, c)
    refresh: tuple[Tensor, Tensor] | None = None
    deterministic: Tensor | None = None  # (N,) bool
    reads: Tensor | None = None  # (N, c)
    slopes: tuple[Tensor, Tensor] | None = None  # (N,), (N,)

    def __post_init__(self) -> None:
        for name in ("a", "b", "s", "start", "final", "reads"):
            if name != "reads" or self.reads is not None:
                self._set(name, as_float64(name, getattr(self, name)))
        if self.a.dim() != 3 or not self.a.numel():
            raise InputError(f"a must have shape (steps, lanes, lanes), not {tuple(self.a.shape)}")
        if self.b.dim() != 2 or not self.b.numel():
            raise InputError(f"b must have shape (steps, noises), not {tuple(self.b.shape)}")
        n, c, r = *self.a.shape[:2], self.b.shape[1]
        final = (c,) if self.final.dim() < 2 else (self.final.shape[0], c)
        shapes = {"a": (n, c, c), "b": (n, r), "s": (n, c, r), "start": (c,), "final": final, "reads": (n, c)}
        for name, shape in shapes.items():
            if getattr(self, name) is not None:
                self._check(name, getattr(self, name), shape)
        if bool((self.start < 0).any()):
            raise InputError(f"start must hold standard deviations, not {self.start.tolist()}")
        if self.refresh is not None:
            keep, add = _two("refresh", self.refresh)
            self._check("refresh[0]", keep, (n + 1, c, c))
            self._check("refresh[1]", add, (n + 1, c, add.shape[-1] if add.dim() else 0))
            self._set("refresh", (keep, add))
        if self.slopes is not None:
            low, high = _two("slopes", self.slopes)
            if low.shape != (n,) or high.shape != (n,) or not bool((low <= high).all()):
                raise InputError(f"slopes must be {n} lowest and {n} highest ones, none above the other")
            self._set("slopes", (low, high))
        if self.deterministic is not None:
            flags = as_float64("deterministic", self.deterministic)
            if flags.shape != (n,) or not bool(((flags == 0) | (flags == 1)).all()):
                raise InputError(f"deterministic must hold {n} booleans, not {short(self.deterministic)}")
            self._set("deterministic", flags.bool())
        self._check_noise()

    @property
    def steps(self) -> int:
        return len(self.a)

    @property
    def lanes(self) -> int:
        return self.a.shape[1]

    @property
    def noises(self) -> int:
        """r, how many vectors of noise a step draws."""
        return self.b.shape[1]

    @property
    def is_deterministic(self) -> Tensor:
        """Which steps are deterministic (N,)."""
        none = torch.zeros(self.steps, dtype=torch.bool, device=self.a.device)
        return none if self.deterministic is None else self.deterministic

    def to(self, device: torch.device) -> StackedPlan:
        """The same plan with its tensors on another device."""
        if self.a.device == device:
            return self
        parts = {name: part for name, part in vars(self).items() if part is not None}
        moved: dict[str, Any] = {
            name: part.to(device) if isinstance(part, Tensor) else tuple(table.to(device) for table in part)
            for name, part in parts.items()
        }
        return replace(self, **moved)

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)  # as given, but float64

    @staticmethod
    def _check(name: str, table: Tensor, shape: tuple[int, ...]) -> None:
        if table.shape != shape or not table.numel():
            raise InputError(f"{name} must have shape {shape} to fit a and b, not {tuple(table.shape)}")
        if not bool(table.isfinite().all()):
            raise InputError(f"{name} must be finite")

    def _check_noise(self) -> None:
        """An answer may push only where there is noise: u has unit scale whatever s makes of it."""
        _, size, axes = torch.linalg.svd(self.s, full_matrices=True)  # axes (N, r, r), in rows
        size = torch.nn.functional.pad(size, (0, axes.shape[1] - size.shape[1]))
        along = (axes @ self.b[..., None])[..., 0].abs()
        nothing = size <= _RANK * size.max(dim=1, keepdim=True).values
        unseen = (along > _SLIGHT * self.b.norm(dim=1, keepdim=True)) & nothing
        bad = (unseen.any(1) & ~self.is_deterministic).nonzero()[:, 0]
        if len(bad):
            raise InputError(
                f"in step {int(bad[0])} b pushes where s adds no noise: the columns of s_k must be independent, or b_k "
                "orthogonal to what s_k sends to zero; a step that has no noise at all must be marked in deterministic="
            )


def _two(name: str, value: Sequence[Tensor]) -> list[Tensor]:
    tables = [as_float64(name, part) for part in value]
    if len(tables) != 2:
        raise InputError(f"{name} must be two tables, not {len(tables)}")
    return tables
