"""Models people run, as oracles and denoisers. Each one imports its library only when it is used."""

from __future__ import annotations

import importlib
from typing import Any

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


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"drawahead.adapters has no {name!r}; it has {', '.join(__all__)}")
    return getattr(importlib.import_module(f"drawahead.adapters.{_HOMES[name]}"), name)
