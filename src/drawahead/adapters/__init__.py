"""Models people run, as oracles and denoisers: the doors into their houses, opened when a name is used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from drawahead.doors import doors

if TYPE_CHECKING:  # what type checkers and editors see
    from drawahead.diffusers.chain import from_diffusers
    from drawahead.diffusers.pipeline import DrawaheadPipeline
    from drawahead.language.generate import generate
    from drawahead.language.masked_lm import MaskedLM
    from drawahead.language.permutation import PermutationLM
    from drawahead.language.protein_lm import ProteinLM
    from drawahead.policies.policy import accelerate, policy
    from drawahead.proteins.mpnn.model import ProteinMPNN

_HOMES = {
    "MaskedLM": "language.masked_lm",
    "PermutationLM": "language.permutation",
    "ProteinLM": "language.protein_lm",
    "ProteinMPNN": "proteins.mpnn.model",
    "from_diffusers": "diffusers.chain",
    "DrawaheadPipeline": "diffusers.pipeline",
    "generate": "language.generate",
    "accelerate": "policies.policy",
    "policy": "policies.policy",
}

__all__ = [
    "DrawaheadPipeline",
    "MaskedLM",
    "PermutationLM",
    "ProteinLM",
    "ProteinMPNN",
    "accelerate",
    "from_diffusers",
    "generate",
    "policy",
]


def __dir__() -> list[str]:
    return __all__


if not TYPE_CHECKING:  # or every misspelt name would pass for Any
    __getattr__ = doors(__name__, _HOMES)
