"""Models people run, as oracles and denoisers: the doors into their houses, opened when a name is used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from drawahead.doors import doors

if TYPE_CHECKING:  # what type checkers and editors see
    from drawahead.diffusers.chain import from_diffusers
    from drawahead.diffusers.pipeline import DrawaheadPipeline
    from drawahead.language.masked_lm import MaskedLM
    from drawahead.language.permutation import PermutationLM
    from drawahead.language.protein_lm import ProteinLM
    from drawahead.policies.policy import accelerate, policy
    from drawahead.proteins.mpnn.model import ProteinMPNN
    from drawahead.science.ancestral import from_denoising_diffusion, from_guided_diffusion
    from drawahead.science.k_diffusion import from_k_diffusion
    from drawahead.science.reverse import from_score_sde

_HOMES = {
    "MaskedLM": "language.masked_lm",
    "PermutationLM": "language.permutation",
    "ProteinLM": "language.protein_lm",
    "ProteinMPNN": "proteins.mpnn.model",
    "from_denoising_diffusion": "science.ancestral",
    "from_diffusers": "diffusers.chain",
    "from_guided_diffusion": "science.ancestral",
    "from_k_diffusion": "science.k_diffusion",
    "from_score_sde": "science.reverse",
    "DrawaheadPipeline": "diffusers.pipeline",
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
    "from_denoising_diffusion",
    "from_diffusers",
    "from_guided_diffusion",
    "from_k_diffusion",
    "from_score_sde",
    "policy",
]


def __dir__() -> list[str]:
    return __all__


if not TYPE_CHECKING:  # or every misspelt name would pass for Any
    __getattr__ = doors(__name__, _HOMES)
