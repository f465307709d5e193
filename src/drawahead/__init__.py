"""Exact samples from diffusion, masked and left-to-right models in few parallel rounds."""

from typing import TYPE_CHECKING

from drawahead.doors import doors

if TYPE_CHECKING:  # what type checkers see, and `doors` reads: a name is imported when it is first used
    from drawahead import (
        adapters,
        ardiffusion,
        counting,
        jobs,
        networks,
        rtk,
        samplers,
        schedules,
        science,
        show,
        targets,
        teaching,
    )
    from drawahead.chains import CausalChain, Chain, GaussianChain, StackedChain, StackedPlan, TokenChain
    from drawahead.counting import tilings
    from drawahead.errors import AnswerError, DrawaheadError, InputError, Interrupted, JobError, SamplingError
    from drawahead.executors import Local, Ray, Replicas
    from drawahead.jobs import RayWorkers
    from drawahead.laws import Categorical, Gaussian
    from drawahead.oracles.causal import Above, CausalOracle, FirstGuess, LastAnswer, Ngram, Uniform
    from drawahead.oracles.denoisers import (
        CountingDenoiser,
        Denoiser,
        DenoisingTarget,
        from_data_prediction,
        from_epsilon,
        from_score,
        from_velocity,
    )
    from drawahead.oracles.perturbed import Noisy, NoisyDenoiser
    from drawahead.oracles.tokens import HIDDEN, CountingOracle, FunctionOracle, TokenOracle
    from drawahead.proteins import design
    from drawahead.rejection import Rejection, rejection, speculative_rejection
    from drawahead.report import Report
    from drawahead.rounds.run import Result
    from drawahead.runner import Runner
    from drawahead.sample import sample, tune
    from drawahead.samplers import Auto, Block, Coupled, Picard, Recursive, Sampler, Separated, Sequential, Stepwise
    from drawahead.schedules import DDIM, DDPM, EulerAncestral, OUExponential, StochasticLocalization
    from drawahead.science.statistics import Summary, summary
    from drawahead.science.stopping import until
    from drawahead.verification.findings import Verdict
    from drawahead.verification.verify import verify

__version__ = "0.2.0"

__all__ = [
    "DDIM",
    "DDPM",
    "HIDDEN",
    "Above",
    "AnswerError",
    "Auto",
    "Block",
    "Categorical",
    "CausalChain",
    "CausalOracle",
    "Chain",
    "CountingDenoiser",
    "CountingOracle",
    "Coupled",
    "Denoiser",
    "DenoisingTarget",
    "DrawaheadError",
    "EulerAncestral",
    "FirstGuess",
    "FunctionOracle",
    "Gaussian",
    "GaussianChain",
    "InputError",
    "Interrupted",
    "JobError",
    "LastAnswer",
    "Local",
    "Ngram",
    "Noisy",
    "NoisyDenoiser",
    "OUExponential",
    "Picard",
    "Ray",
    "RayWorkers",
    "Recursive",
    "Rejection",
    "Replicas",
    "Report",
    "Result",
    "Runner",
    "Sampler",
    "SamplingError",
    "Separated",
    "Sequential",
    "StackedChain",
    "StackedPlan",
    "Stepwise",
    "StochasticLocalization",
    "Summary",
    "TokenChain",
    "TokenOracle",
    "Uniform",
    "Verdict",
    "adapters",
    "ardiffusion",
    "counting",
    "design",
    "from_data_prediction",
    "from_epsilon",
    "from_score",
    "from_velocity",
    "jobs",
    "networks",
    "rejection",
    "rtk",
    "sample",
    "samplers",
    "schedules",
    "science",
    "show",
    "speculative_rejection",
    "summary",
    "targets",
    "teaching",
    "tilings",
    "tune",
    "until",
    "verify",
]

doors(__name__)
