"""Exact samples from any-order autoregressive models and diffusion models in a handful of parallel rounds."""

from drawahead import adapters, ardiffusion, design, jobs, networks, pages, rtk, samplers, schedules, targets, tilings
from drawahead.chains import Chain, GaussianChain, StackedChain, StackedPlan, TokenChain
from drawahead.engine.graphs import GRAPHS as graphs
from drawahead.errors import AnswerError, DrawaheadError, InputError, Interrupted, JobError, SamplingError
from drawahead.executors import Local, Ray, Replicas
from drawahead.jobs import RayWorkers
from drawahead.laws import Categorical, Gaussian
from drawahead.models.denoisers import (
    CountingDenoiser,
    Denoiser,
    DenoisingTarget,
    from_data_prediction,
    from_epsilon,
    from_score,
    from_velocity,
)
from drawahead.models.oracles import HIDDEN, CountingOracle, FunctionOracle, TokenOracle
from drawahead.models.perturbed import Noisy, NoisyDenoiser
from drawahead.rejection import Rejection, rejection, speculative_rejection
from drawahead.report import Report
from drawahead.sample import Result, sample
from drawahead.samplers import Auto, Block, Coupled, Picard, Recursive, Sampler, Separated, Sequential, Stepwise
from drawahead.schedules import DDIM, DDPM, EulerAncestral, OUExponential, StochasticLocalization
from drawahead.verification import Verdict, verify

__version__ = "0.1.0"

__all__ = [
    "DDIM",
    "DDPM",
    "HIDDEN",
    "AnswerError",
    "Auto",
    "Block",
    "Categorical",
    "Chain",
    "CountingDenoiser",
    "CountingOracle",
    "Coupled",
    "Denoiser",
    "DenoisingTarget",
    "DrawaheadError",
    "EulerAncestral",
    "FunctionOracle",
    "Gaussian",
    "GaussianChain",
    "InputError",
    "Interrupted",
    "JobError",
    "Local",
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
    "Sampler",
    "SamplingError",
    "Separated",
    "Sequential",
    "StackedChain",
    "StackedPlan",
    "Stepwise",
    "StochasticLocalization",
    "TokenChain",
    "TokenOracle",
    "Verdict",
    "adapters",
    "ardiffusion",
    "design",
    "from_data_prediction",
    "from_epsilon",
    "from_score",
    "from_velocity",
    "graphs",
    "jobs",
    "networks",
    "pages",
    "rejection",
    "rtk",
    "sample",
    "samplers",
    "schedules",
    "speculative_rejection",
    "targets",
    "tilings",
    "verify",
]
