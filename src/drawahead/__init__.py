"""Exact samples from any-order autoregressive models in a handful of parallel rounds."""

from drawahead import samplers, targets
from drawahead.chains import Chain, TokenChain
from drawahead.errors import AnswerError, DrawaheadError, InputError, SamplingError
from drawahead.executors import Local
from drawahead.laws import Categorical
from drawahead.oracles import HIDDEN, CountingOracle, FunctionOracle, TokenOracle
from drawahead.rejection import Rejection, rejection, speculative_rejection
from drawahead.report import Report
from drawahead.sample import Result, sample
from drawahead.samplers import Block, Coupled, Recursive, Sampler, Sequential, Stepwise

__version__ = "0.1.0"

__all__ = [
    "HIDDEN",
    "AnswerError",
    "Block",
    "Categorical",
    "Chain",
    "CountingOracle",
    "Coupled",
    "DrawaheadError",
    "FunctionOracle",
    "InputError",
    "Local",
    "Recursive",
    "Rejection",
    "Report",
    "Result",
    "Sampler",
    "SamplingError",
    "Sequential",
    "Stepwise",
    "TokenChain",
    "TokenOracle",
    "rejection",
    "sample",
    "samplers",
    "speculative_rejection",
    "targets",
]
