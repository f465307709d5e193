"""Exact samples from any-order autoregressive models and diffusion models in a handful of parallel rounds."""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # what type checkers and editors see; at run time a name is imported when it is first used
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

__version__ = "0.1.0"

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

_HOMES = {
    name: home
    for home, names in {
        "chains": "CausalChain Chain GaussianChain StackedChain StackedPlan TokenChain",
        "errors": "AnswerError DrawaheadError InputError Interrupted JobError SamplingError",
        "executors": "Local Ray Replicas",
        "jobs": "RayWorkers",
        "laws": "Categorical Gaussian",
        "oracles.causal": "Above CausalOracle FirstGuess LastAnswer Ngram Uniform",
        "oracles.denoisers": "CountingDenoiser Denoiser DenoisingTarget "
        "from_data_prediction from_epsilon from_score from_velocity",
        "oracles.tokens": "HIDDEN CountingOracle FunctionOracle TokenOracle",
        "oracles.perturbed": "Noisy NoisyDenoiser",
        "rejection": "Rejection rejection speculative_rejection",
        "report": "Report",
        "rounds.run": "Result",
        "runner": "Runner",
        "sample": "sample tune",
        "samplers": "Auto Block Coupled Picard Recursive Sampler Separated Sequential Stepwise",
        "schedules": "DDIM DDPM EulerAncestral OUExponential StochasticLocalization",
        "science.statistics": "Summary summary",
        "science.stopping": "until",
        "verification.findings": "Verdict",
        "verification.verify": "verify",
    }.items()
    for name in names.split()
}
"""Where each name lives that is not a module; a test compares this with the imports above."""
_ROOMS = {"design": "proteins.design", "tilings": "counting.tilings"}
"""Modules that are public under a shorter name."""


def _found(name: str) -> Any:
    """What is called `name`: torch is loaded here, not with the package, so that `drawahead --help` need not wait."""
    if name in _HOMES:
        found = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
        globals()[name] = found
        return found
    module = f"{__name__}.{_ROOMS.get(name, name)}"
    try:
        if not name.startswith("_"):
            return import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
    near = import_module(f"{__name__}.words").guess(name, __all__)
    raise AttributeError(f"drawahead has no {name!r}" + (f"; did you mean {near!r}?" if near else ""))


class _Package(ModuleType):
    """Two functions, `sample` and `rejection`, are called like their modules, which Python would put in their place."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in _HOMES and isinstance(value, ModuleType)):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return [*__all__, "__version__"]

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        """By its name, as plain modules are pickled where functions of a user travel to workers."""
        return import_module, (__name__,)


if not TYPE_CHECKING:  # or every misspelt name would pass for Any
    sys.modules[__name__].__class__ = _Package
    __getattr__ = _found
