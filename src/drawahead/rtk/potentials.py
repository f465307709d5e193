"""What a kernel needs to know of the law exp(-g) it draws from: a gradient and, for some, energy differences."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import final

import torch
from torch import Tensor

from drawahead.errors import InputError
from drawahead.rtk.energies import Difference


class Potential(abc.ABC):
    """A smooth law on R^d, exp(-g(z)) up to a constant; one such law for each row, or the same for all."""

    @property
    @abc.abstractmethod
    def has_energy(self) -> bool:
        """Whether `energy_difference` can answer."""

    @abc.abstractmethod
    def gradient(self, z: Tensor) -> Tensor:
        """grad g at z (rows, d): (rows, d)."""

    @abc.abstractmethod
    def energy_difference(self, old: Tensor, new: Tensor) -> Difference:
        """g(new) - g(old) for states (rows, d), and how far off that may be."""


@final
class FunctionPotential(Potential):
    """A law given by `gradient` (rows, d) -> (rows, d) and, if it is known, `energy` (rows, d) -> (rows,)."""

    def __init__(self, gradient: Callable[[Tensor], Tensor], energy: Callable[[Tensor], Tensor] | None = None) -> None:
        self._gradient, self._energy = gradient, energy

    @property
    def has_energy(self) -> bool:
        return self._energy is not None

    def gradient(self, z: Tensor) -> Tensor:
        return self._gradient(z)

    def energy_difference(self, old: Tensor, new: Tensor) -> Difference:
        if self._energy is None:
            raise InputError("this potential has no energies: give energy= to FunctionPotential")
        value = self._energy(new) - self._energy(old)
        return Difference(value, torch.zeros_like(value))
