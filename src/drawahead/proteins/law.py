"""From ProteinMPNN's logits to the distribution of a step: bias, temperature, omitted letters, and a profile."""

from __future__ import annotations

import math
from typing import Any, final

import torch
from torch import Tensor

from drawahead.errors import InputError
from drawahead.proteins.choices import biases, omitted
from drawahead.proteins.mpnn.encoded import Steps
from drawahead.proteins.structures.backbone import Backbone
from drawahead.validate import as_float64, number
from drawahead.values import dataclass

_UNLIKELY = 0.001  # the probability of letters below the threshold is multiplied by this, of all others by one more


@final
@dataclass(frozen=True, eq=False)
class Profile:
    """Amino acid frequencies of each residue, from elsewhere: the PSSM terms of ProteinMPNN.

    A distribution p becomes (1 - c w) p + c w b with c = `share`, and w, b the residue's `trust` and `probabilities`.
    With `log_odds`, letters whose log-odds are not above `threshold` then become 1001 times less likely against the
    others. Letters that are omitted stay so.
    """

    trust: Any = None
    """(n,), from 0 to 1."""
    probabilities: Any = None
    """(n, 21)"""
    share: float = 0.0
    log_odds: Any = None
    """(n, 21)"""
    threshold: float = 0.0

    def of_steps(self, length: int, steps: Steps) -> dict[str, Tensor]:
        """The tables of a `DesignLaw`; those of tied residues are their mean."""
        tables: dict[str, Tensor] = {}
        if self.probabilities is not None:
            share = number("share", self.share, least=0)
            trust = self._table("trust", torch.ones(length) if self.trust is None else self.trust, (length,))[:, None]
            rows = self._table("probabilities", self.probabilities, (length, 21))
            if share > 1 or bool(((trust < 0) | (trust > 1)).any()):
                raise InputError("share and trust of a profile must be from 0 to 1")
            if bool((rows < 0).any()) or bool(((rows.sum(1) - 1).abs() > 1e-3)[trust[:, 0] > 0].any()):
                raise InputError("probabilities of a profile must sum to 1 for each residue")
            tables["share"], tables["profile"] = share * steps.mean(trust), steps.mean(rows)
        if self.log_odds is not None:
            odds = self._table("log_odds", self.log_odds, (length, 21)) > number("threshold", self.threshold)
            tables["factor"] = steps.mean(odds.double()) + _UNLIKELY
        return tables

    @staticmethod
    def _table(name: str, value: Any, shape: tuple[int, ...]) -> Tensor:
        table = as_float64(f"{name} of a profile", value, "cpu", finite=True)
        if table.shape != shape:
            raise InputError(f"{name} of a profile must be {shape}, not {tuple(table.shape)}")
        return table


@final
@dataclass(frozen=True, eq=False)
class DesignLaw:
    """From logits to the law of a step; the last four tables are there with a profile only."""

    bias: Tensor  # (s, g, letters); minus infinity where a letter is never drawn
    share: Tensor | None = None  # (s, g, 1): how much of the law is the profile's
    profile: Tensor | None = None  # (s, g, letters) probabilities
    factor: Tensor | None = None  # (s, g, letters) by which probabilities are multiplied then
    omitted: Tensor | None = None  # (s, g, letters): letters that are left out of the mixture, at the end

    def rows(self, logits: Tensor, temperature: Tensor | float, on: Tensor | int, step: Tensor) -> Tensor:
        """The law (..., letters) of steps (...) on these structures."""
        bias = self.bias[on, step]
        rows = ((logits + bias) / temperature).log_softmax(-1)
        if self.share is not None and self.profile is not None:
            share = self.share[on, step]
            rows = (rows.exp() * (1 - share) + self.profile[on, step] * share).log()
        if self.factor is not None:
            rows = rows + self.factor[on, step].log()
        if self.omitted is None:
            return rows
        return rows.masked_fill(self.omitted[on, step], -torch.inf).log_softmax(-1)

    def to(self, device: torch.device, dtype: torch.dtype) -> DesignLaw:
        """The same there, in this dtype."""
        there = {name: table.to(device) for name, table in vars(self).items() if table is not None}
        return DesignLaw(**{name: table if name == "omitted" else table.to(dtype) for name, table in there.items()})


def design_law(structure: Backbone, steps: Steps, omit: Any, bias: Any, profile: Profile | None) -> DesignLaw:
    """The law of a design's steps. Of a tied group letters are omitted that any member omits, and biases are the
    members' mean."""
    there = steps.there[..., None]
    offset = steps.mean(biases(structure, bias))
    never = (omitted(structure, omit)[steps.members] & there).any(1)
    if bool((never | (offset == -math.inf)).all(1).any()):
        raise InputError("omit and bias together leave no letter for some residue")
    if profile is None:
        return DesignLaw(offset.masked_fill(never, -math.inf)[None])
    # As published: what is omitted at residues is left out of the mixture, not of what is mixed.
    offset[(omitted(structure, omit, everywhere=True)[steps.members] & there).any(1)] = -math.inf
    tables = profile.of_steps(len(structure), steps) | {"bias": offset, "omitted": never | (offset == -math.inf)}
    return DesignLaw(**{name: table[None] for name, table in tables.items()})
