"""Smooth distributions known by the gradient of their energy, and differences of energies along a line."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import NamedTuple, final

import numpy as np
import torch
from torch import Tensor

from drawahead.errors import InputError
from drawahead.validate import whole
from drawahead.values import dataclass


class Difference(NamedTuple):
    """A difference of energies or of log densities."""

    value: Tensor  # (rows,)
    error: Tensor  # (rows,) an estimate of how far off the value is; 0 where it is exact


@final
@dataclass(frozen=True)
class LineIntegral:
    """Gauss-Legendre quadrature of <score, new - old> along the line between states: a call of `nodes` states per row.

    It is exact where the score is a polynomial of degree 2 nodes - 1 along the line (one node is enough for a
    Gaussian). The error is estimated, without another call, by leaving out the node nearest to the middle: that rule is
    exact to degree nodes - 2 (or a little more), so the estimate is as a rule far above the error.
    """

    nodes: int = 4

    def __post_init__(self) -> None:
        object.__setattr__(self, "nodes", whole("nodes", self.nodes, 2))

    def __call__(self, score: Callable[[Tensor, Tensor], Tensor], old: Tensor, new: Tensor, t: Tensor) -> Difference:
        """log p(new) - log p(old) for states (m, d) at times t (m,)."""
        place, weight, fewer = (torch.as_tensor(part, device=old.device) for part in self._rule())
        states = old[:, None] + place[:, None] * (new - old)[:, None]  # (m, nodes, d)
        answers = score(states.flatten(0, 1), t.repeat_interleave(self.nodes)).view_as(states)
        along = (answers * (new - old)[:, None]).sum(-1)  # (m, nodes)
        value = along @ weight
        return Difference(value, (value - along @ fewer).abs())

    def _rule(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Nodes in (0, 1), their weights, and the weights of the rule that leaves one node out (with a 0 for it)."""
        place, weight = np.polynomial.legendre.leggauss(self.nodes)
        rest = np.delete(np.arange(self.nodes), self.nodes // 2)
        # The weights that integrate every polynomial of degree < nodes - 1 on [-1, 1]: in Legendre's basis all but the
        # first integrate to 0.
        basis = np.polynomial.legendre.legvander(place[rest], self.nodes - 2)
        fewer = np.zeros_like(weight)
        fewer[rest] = np.linalg.solve(basis.T, np.eye(self.nodes - 1)[0] * 2)
        return (1 + place) / 2, weight / 2, fewer / 2


class Potential(abc.ABC):
    """A smooth distribution on R^d, exp(-g(z)) up to a constant; one for each row, or the same for all."""

    @abc.abstractmethod
    def gradient(self, z: Tensor) -> Tensor:
        """grad g at z (rows, d): (rows, d)."""

    @abc.abstractmethod
    def energy_difference(self, old: Tensor, new: Tensor) -> Difference:
        """g(new) - g(old) for states (rows, d), and how far off that may be; an InputError where it is not known."""


@final
class FunctionPotential(Potential):
    """A distribution by its `gradient` (rows, d) -> (rows, d) and, if it is known, `energy` (rows, d) -> (rows,)."""

    def __init__(self, gradient: Callable[[Tensor], Tensor], energy: Callable[[Tensor], Tensor] | None = None) -> None:
        self._gradient, self._energy = gradient, energy

    def gradient(self, z: Tensor) -> Tensor:
        return self._gradient(z)

    def energy_difference(self, old: Tensor, new: Tensor) -> Difference:
        if self._energy is None:
            raise InputError("this kernel needs energy differences: give energy= to FunctionPotential")
        value = self._energy(new) - self._energy(old)
        return Difference(value, torch.zeros_like(value))
