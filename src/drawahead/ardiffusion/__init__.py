"""Auto-regressive diffusion: data in parts, each drawn by a diffusion conditioned on the parts before."""

from drawahead.ardiffusion.checkpoints import load
from drawahead.ardiffusion.config import (
    MLPDenoiser,
    MLPEncoder,
    ModelConfig,
    Training,
    TransformerDenoiser,
    TransformerEncoder,
)
from drawahead.ardiffusion.gaussian import GaussianParts, Normal, law
from drawahead.ardiffusion.inference import RTK, chain, sample
from drawahead.ardiffusion.model import ARModel, ConditionalDenoiser, Encoder
from drawahead.ardiffusion.parts import Conditionals, Parts
from drawahead.ardiffusion.training import Progress, Trained, train

__all__ = [
    "RTK",
    "ARModel",
    "ConditionalDenoiser",
    "Conditionals",
    "Encoder",
    "GaussianParts",
    "MLPDenoiser",
    "MLPEncoder",
    "ModelConfig",
    "Normal",
    "Parts",
    "Progress",
    "Trained",
    "Training",
    "TransformerDenoiser",
    "TransformerEncoder",
    "chain",
    "law",
    "load",
    "sample",
    "train",
]


def __dir__() -> list[str]:
    return __all__
