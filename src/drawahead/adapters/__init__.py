"""Adapters: models of other libraries as chains to sample from. Each is imported when its name is first used."""

from typing import TYPE_CHECKING

from drawahead.doors import doors

if TYPE_CHECKING:  # what type checkers see, and `doors` reads
    from drawahead.diffusers.chain import from_diffusers
    from drawahead.diffusers.pipeline import DrawaheadPipeline
    from drawahead.language.generate import generate
    from drawahead.language.masked_lm import MaskedLM
    from drawahead.language.permutation import PermutationLM
    from drawahead.language.protein_lm import ProteinLM
    from drawahead.policies.policy import accelerate, policy
    from drawahead.proteins.mpnn.model import ProteinMPNN
    from drawahead.science.ancestral import from_denoising_diffusion, from_guided_diffusion
    from drawahead.science.k_diffusion import from_k_diffusion
    from drawahead.science.reverse import from_score_sde

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
    "generate",
    "policy",
]

doors(__name__)
