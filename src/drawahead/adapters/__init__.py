"""Models people run, as oracles and denoisers. Each one imports its library only when it is used."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from drawahead.words import guess

if TYPE_CHECKING:  # what type checkers and editors see
    from drawahead.adapters.diffusers import from_diffusers
    from drawahead.adapters.diffusers_pipeline import DrawaheadPipeline
    from drawahead.adapters.masked_lm import MaskedLM
    from drawahead.adapters.permutation import PermutationLM
    from drawahead.adapters.policies import accelerate, policy
    from drawahead.adapters.protein_lm import ProteinLM
    from drawahead.adapters.proteinmpnn import ProteinMPNN

_HOMES = {
    "MaskedLM": "masked_lm",
    "PermutationLM": "permutation",
    "ProteinLM": "protein_lm",
    "ProteinMPNN": "proteinmpnn",
    "from_diffusers": "diffusers",
    "DrawaheadPipeline": "diffusers",
    "accelerate": "policies",
    "policy": "policies",
}

__all__ = [
    "DrawaheadPipeline",
    "MaskedLM",
    "PermutationLM",
    "ProteinLM",
    "ProteinMPNN",
    "accelerate",
    "from_diffusers",
    "policy",
]


def __dir__() -> list[str]:
    return __all__


def _found(name: str) -> Any:
    if name not in _HOMES:
        near = guess(name, __all__)
        rest = f"did you mean {near!r}?" if near else f"it has {', '.join(__all__)}"
        raise AttributeError(f"drawahead.adapters has no {name!r}; {rest}")
    return getattr(importlib.import_module(f"drawahead.adapters.{_HOMES[name]}"), name)


if not TYPE_CHECKING:  # or every misspelt name would pass for Any
    __getattr__ = _found
