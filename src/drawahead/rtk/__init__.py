"""Diffusion inference with reverse transition kernels (RTK): few long segments, each drawn by a Markov chain."""

from drawahead.rtk.baselines import DPOM, DPUM, ProbabilityFlow, ReverseSDE
from drawahead.rtk.chain import chain
from drawahead.rtk.kernels import (
    CentredStart,
    GaussianStart,
    Info,
    Kernel,
    MarkovKernel,
    Noise,
    PerSegment,
    Start,
    State,
)
from drawahead.rtk.langevin import ULA, ULD, ULDStep
from drawahead.rtk.metropolis import HMC, MALA, ProjectedMALA
from drawahead.rtk.potentials import Difference, FunctionPotential, LineIntegral, Potential
from drawahead.rtk.sample import RTKReport, RTKResult, sample
from drawahead.rtk.scores import (
    ExactScore,
    LearnedScore,
    Score,
    ScoreOracle,
    exact,
    from_data_prediction,
    from_epsilon,
    learned,
)
from drawahead.rtk.segments import RTKTarget, Segments

__all__ = [
    "DPOM",
    "DPUM",
    "HMC",
    "MALA",
    "ULA",
    "ULD",
    "CentredStart",
    "Difference",
    "ExactScore",
    "FunctionPotential",
    "GaussianStart",
    "Info",
    "Kernel",
    "LearnedScore",
    "LineIntegral",
    "MarkovKernel",
    "Noise",
    "PerSegment",
    "Potential",
    "ProbabilityFlow",
    "ProjectedMALA",
    "RTKReport",
    "RTKResult",
    "RTKTarget",
    "ReverseSDE",
    "Score",
    "ScoreOracle",
    "Segments",
    "Start",
    "State",
    "ULDStep",
    "chain",
    "exact",
    "from_data_prediction",
    "from_epsilon",
    "learned",
    "sample",
]


def __dir__() -> list[str]:
    return __all__
