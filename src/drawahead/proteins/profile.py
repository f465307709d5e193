"""Amino acids of a protein's relatives, mixed into the law of a design: ProteinMPNN's PSSM terms."""

from __future__ import annotations

from typing import Any, final

import torch
from torch import Tensor

from drawahead.errors import InputError
from drawahead.validate import as_float64, number
from drawahead.values import dataclass

_UNLIKELY = 0.001  # the probability of letters below the threshold is multiplied by this, of all others by one more


@final
@dataclass(frozen=True, eq=False)
class Profile:
    """What is known of each residue from elsewhere.

    A law p becomes (1 - c w) p + c w b with c = `share`, and w, b the residue's `trust` and `probabilities`. With
    `log_odds`, letters whose log-odds are not above `threshold` then become 1001 times less likely against the others.
    Letters that are omitted stay so.
    """

    trust: Any = None
    """(n,), from 0 to 1."""
    probabilities: Any = None
    """(n, 21)"""
    share: float = 0.0
    log_odds: Any = None
    """(n, 21)"""
    threshold: float = 0.0

    def of_steps(self, length: int, members: Tensor, there: Tensor) -> dict[str, Tensor]:
        """The tables of a `DesignLaw`, of tied residues their mean: `members` (g, m), those that count in `there`."""
        found: dict[str, Tensor] = {}
        if self.probabilities is not None:
            share = number("share", self.share, least=0)
            trust = self._table("trust", torch.ones(length) if self.trust is None else self.trust, (length,))[:, None]
            given = self._table("probabilities", self.probabilities, (length, 21))
            if share > 1 or bool(((trust < 0) | (trust > 1)).any()):
                raise InputError("share and trust of a profile must be from 0 to 1")
            if bool((given < 0).any()) or bool(((given.sum(1) - 1).abs() > 1e-3)[trust[:, 0] > 0].any()):
                raise InputError("probabilities of a profile must sum to 1 for each residue")
            found["share"] = share * _mean(trust, members, there)
            found["profile"] = _mean(given, members, there)
        if self.log_odds is not None:
            odds = self._table("log_odds", self.log_odds, (length, 21)) > number("threshold", self.threshold)
            found["factor"] = _mean(odds.double(), members, there) + _UNLIKELY
        return found

    @staticmethod
    def _table(name: str, value: Any, shape: tuple[int, ...]) -> Tensor:
        given = as_float64(f"{name} of a profile", value, "cpu", finite=True)
        if given.shape != shape:
            raise InputError(f"{name} of a profile must be {shape}, not {tuple(given.shape)}")
        return given


def _mean(values: Tensor, members: Tensor, there: Tensor) -> Tensor:
    return (values[members] * there).sum(1) / there.sum(1)
