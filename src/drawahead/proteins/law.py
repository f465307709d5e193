"""From ProteinMPNN's logits to the law of a step: bias, temperature, letters left out, and a profile."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor

from drawahead.errors import InputError
from drawahead.proteins.choices import biases, omitted
from drawahead.proteins.mpnn.encoded import Steps
from drawahead.proteins.profile import Profile
from drawahead.proteins.structures.backbone import Backbone
from drawahead.validate import short


@final
@dataclass(frozen=True, eq=False)
class DesignLaw:
    """From logits to the law of a step: bias, temperature, and the mixture with a profile, if there is one."""

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
    members, there = steps.members, steps.there[..., None]
    offset = (biases(structure, bias)[members] * there).nan_to_num(neginf=-math.inf, nan=0.0)
    offset = offset.sum(1) / there.sum(1)
    never = (omitted(structure, omit)[members] & there).any(1)
    if bool((never | (offset == -math.inf)).all(1).any()):
        raise InputError("omit and bias together leave no letter for some residue")
    if profile is None:
        return DesignLaw(offset.masked_fill(never, -math.inf)[None])
    if not isinstance(profile, Profile):
        raise InputError(f"profile must be a Profile, not {short(profile)}")
    # As published: what is omitted at residues is left out of the mixture, not of what is mixed.
    offset[(omitted(structure, omit, everywhere=True)[members] & there).any(1)] = -math.inf
    tables = profile.of_steps(len(structure), members, there) | {"bias": offset}
    mixed = {name: table[None] for name, table in tables.items()}
    return DesignLaw(**mixed, omitted=(never | (offset == -math.inf))[None])
