"""Constructors with strange arguments: what they make can be used, what they refuse is told."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from hypothesis import strategies as st

import drawahead as da
from drawahead import ardiffusion as ar
from drawahead import rtk, schedules, targets
from tests.fuzz.fuzzing import clear_errors, fuzzed, strange

Use = Callable[[Any], object]


def nothing(made: Any) -> None:
    """Making it is all."""


def planned(schedule: Any) -> None:
    da.sample(da.GaussianChain(targets.Hypercube(2), schedule), 1, sampler=da.Coupled(), seed=0)


def drawn(target: Any) -> None:
    da.sample(target, 2, sampler=da.Coupled(), seed=0)


def drawn_with(sampler: Any) -> None:
    da.sample(targets.MixtureOfProducts.random(5), 2, sampler=sampler, seed=0)
    da.sample(da.GaussianChain(targets.Hypercube(2), da.StochasticLocalization(5)), 2, sampler=sampler, seed=0)


PLAN: dict[str, Any] = {
    "a": torch.eye(2).repeat(3, 1, 1),
    "b": torch.ones(3, 1),
    "s": torch.ones(3, 2, 1),
    "start": torch.ones(2),
    "final": torch.ones(2),
    "refresh": None,
    "deterministic": None,
    "reads": None,
    "slopes": None,
}
RING = targets.GaussianMixture(torch.eye(2), 0.1)


def noised(target: Any) -> None:
    drawn(da.GaussianChain(target, da.DDPM((0.1, 0.1))))


def segment(kernel: Any, score: Any = RING) -> None:
    rtk.sample(score, kernel=kernel, segments=rtk.Segments((1.0, 0.5)), num_samples=2)


MADE: dict[str, tuple[Callable[..., Any], Mapping[str, Any], Use]] = {
    "DDPM": (
        da.DDPM,
        {"betas": (0.1, 0.2), "timesteps": (1, 0), "clip": 1.0, "threshold": None, "large_variance": False},
        planned,
    ),
    "DDIM": (da.DDIM, {"betas": (0.1, 0.2), "timesteps": None, "clip": None, "eta": 1.0}, planned),
    "EulerAncestral": (da.EulerAncestral, {"sigmas": (2.0, 1.0, 0.0)}, planned),
    "OUExponential": (da.OUExponential, {"times": (2.0, 1.0)}, planned),
    "OUExponential.even": (da.OUExponential.even, {"steps": 4, "first": 5.0, "last": 0.1}, planned),
    "StochasticLocalization": (da.StochasticLocalization, {"steps": 4, "radius": 1.0, "delta": 0.1}, planned),
    "StochasticLocalization.for_error": (
        da.StochasticLocalization.for_error,
        {"eps": 0.9, "dimension": 1, "radius": 1.0, "delta": 0.5},
        nothing,
    ),
    "Churn": (
        schedules.Churn,
        {"sigmas": (3.0, 1.5, 0.5, 0.0), "gamma": 0.8, "above": 1.0, "noise": 1.003, "step": 1.5},
        planned,
    ),
    "Given": (schedules.Given, {"steps": da.DDPM((0.1,)).plan()}, planned),
    "Threshold": (
        lambda ratio, most: da.DDPM((0.1, 0.1), threshold=schedules.Threshold(ratio, most)),
        {"ratio": 0.9, "most": 2.0},
        planned,
    ),
    "spaced": (schedules.spaced, {"steps": 3, "of": 7}, nothing),
    "linear_betas": (schedules.linear_betas, {"steps": 3, "first": 0.1, "last": 0.2}, nothing),
    "scaled_linear_betas": (schedules.scaled_linear_betas, {"steps": 3, "first": 0.1, "last": 0.2}, nothing),
    "cosine_betas": (schedules.cosine_betas, {"steps": 3, "largest": 0.9}, nothing),
    "Product": (targets.Product, {"probs": [[0.5, 0.5]] * 3}, drawn),
    "Product.random": (targets.Product.random, {"n": 3, "q": 2, "seed": 0}, drawn),
    "Pairs": (targets.Pairs, {"n": 4, "q": 2}, drawn),
    "MixtureOfProducts": (targets.MixtureOfProducts, {"weights": [1.0], "probs": [[[0.5, 0.5]] * 3]}, drawn),
    "MixtureOfProducts.random": (targets.MixtureOfProducts.random, {"n": 3, "components": 2, "q": 2, "seed": 0}, drawn),
    "PolyaUrns": (targets.PolyaUrns, {"n": 4, "block": 2}, drawn),
    "MarkovChain": (targets.MarkovChain, {"n": 3, "transition": [[0.5, 0.5]] * 2, "initial": None}, drawn),
    "TreeIsing": (targets.TreeIsing, {"parents": [-1, 0, 1], "coupling": 0.5, "field": 0.0}, drawn),
    "Ising": (targets.Ising, {"rows": 2, "cols": 2, "coupling": 0.4, "field": 0.0}, drawn),
    "Table": (targets.Table, {"probs": [[0.25, 0.25], [0.25, 0.25]]}, drawn),
    "Table.random": (targets.Table.random, {"n": 3, "q": 2, "seed": 0}, drawn),
    "DenseLogistic": (targets.DenseLogistic, {"n": 4}, drawn),
    "HardCode": (targets.HardCode, {"n": 5, "seed": 0, "sizes": [2, 3], "thresholds": [1, 2]}, drawn),
    "DPP": (targets.DPP, {"L": torch.eye(3), "K": None}, drawn),
    "DPP.random": (targets.DPP.random, {"n": 4, "rank": 2, "seed": 0}, drawn),
    "KDPP": (targets.KDPP, {"L": torch.eye(3), "k": 2}, drawn),
    "KDPP.random": (targets.KDPP.random, {"n": 4, "k": 2, "seed": 0}, drawn),
    "SpanningTree": (targets.SpanningTree, {"graph": da.tilings.domino_grid(2, 2), "weight": "weight"}, drawn),
    "PlanarMatching": (targets.PlanarMatching, {"graph": da.tilings.domino_grid(2, 2)}, drawn),
    "dominoes": (da.tilings.dominoes, {"shape": "square", "size": 2}, drawn),
    "GaussianTarget": (
        targets.GaussianTarget,
        {"variances": None, "covariance": torch.eye(2), "mean": torch.zeros(2)},
        noised,
    ),
    "GaussianMixture": (targets.GaussianMixture, {"means": torch.eye(2), "variances": 0.1, "weights": None}, noised),
    "GaussianMixture.random": (
        targets.GaussianMixture.random,
        {"d": 2, "components": 2, "variance": 0.1, "seed": 0},
        noised,
    ),
    "Hypercube": (targets.Hypercube, {"d": 2}, noised),
    "DataSet": (targets.DataSet, {"points": torch.eye(2), "chunk": 2}, noised),
    "targets.named": (targets.named, {"name": "pairs", "size": 4}, drawn),
    "FunctionOracle": (
        da.FunctionOracle,
        {"function": lambda tokens: torch.zeros(*tokens.shape, 2).log_softmax(-1), "length": 3, "vocab_size": 2},
        drawn,
    ),
    "CountingOracle": (da.CountingOracle, {"oracle": targets.Pairs(4)}, drawn),
    "Noisy": (da.Noisy, {"oracle": targets.Pairs(4), "error": 0.1, "seed": 0, "toward": None}, drawn),
    "TokenChain": (
        da.TokenChain,
        {"oracle": targets.Pairs(4), "length": None, "vocab_size": None, "order": None, "evidence": None},
        drawn,
    ),
    "GaussianChain": (
        da.GaussianChain,
        {
            "denoiser": lambda x, k: x,
            "schedule": da.DDPM((0.1, 0.1, 0.1)),
            "shape": (2,),
            "start": None,
            "known": None,
            "record": (),
            "dtype": torch.float64,
            "device": "cpu",
        },
        drawn,
    ),
    "StackedPlan": (da.StackedPlan, PLAN, lambda plan: drawn(da.StackedChain(lambda x, k: x[:, 0], plan, (2,)))),
    "StackedChain": (
        da.StackedChain,
        {
            "oracle": lambda x, k: x[:, 0],
            "plan": da.StackedPlan(**PLAN),
            "shape": (2,),
            "start": None,
            "record": (),
            "dtype": torch.float64,
            "device": "cpu",
        },
        drawn,
    ),
    "Sequential": (da.Sequential, {}, drawn_with),
    "Block": (da.Block, {"window": 3, "pipelined": True}, drawn_with),
    "Stepwise": (da.Stepwise, {"window": 3, "pipelined": True}, drawn_with),
    "Coupled": (da.Coupled, {"window": 3, "secant": True, "least": 0.0}, drawn_with),
    "Picard": (da.Picard, {"tolerance": 0.1, "window": 3}, drawn_with),
    "Recursive": (da.Recursive, {"growth": 0.5}, drawn_with),
    "Separated": (
        da.Separated,
        {"inner": da.Coupled(), "spread": True},
        lambda sampler: da.sample(da.tilings.dominoes("square", 2), 1, sampler=sampler, seed=0),
    ),
    "samplers.named": (da.samplers.named, {"name": "block", "window": 3}, drawn_with),
    "Local": (
        da.Local,
        {"max_batch_size": 2, "chunk_bytes": 1000},
        lambda where: da.sample(targets.Pairs(4), 2, seed=0, executor=where),
    ),
    "Replicas": (
        da.Replicas,
        {"replicas": [targets.Pairs(4)], "max_batch_size": 2, "min_batch_size": 1},
        lambda where: da.sample(where.chain, 2, seed=0, executor=where),
    ),
    "Runner": (
        da.Runner,
        {"target": targets.Pairs(4), "sampler": da.Coupled(), "graphs": False, "max_batch_size": 3},
        lambda runner: runner.sample(2, seed=0),
    ),
    "Segments": (rtk.Segments, {"times": (1.0, 0.5)}, nothing),
    "Segments.even": (rtk.Segments.even, {"first": 1.0, "count": 2, "last": 0.1}, nothing),
    "Segments.from_smoothness": (rtk.Segments.from_smoothness, {"smoothness": 1.0, "first": 1.0, "last": 0.1}, nothing),
    "Segments.from_theory": (
        rtk.Segments.from_theory,
        {"smoothness": 1.0, "d": 2, "eps": 0.5, "gradient_at_zero": 0.0},
        nothing,
    ),
    "ULA": (rtk.ULA, {"tau": 0.1, "steps": 2, "begin": rtk.GaussianStart()}, segment),
    "ULD": (rtk.ULD, {"tau": 0.1, "gamma": 1.0, "steps": 2, "begin": rtk.CentredStart()}, segment),
    "ULD.from_theory": (rtk.ULD.from_theory, {"smoothness": 1.0, "d": 2, "eps": 0.5, "second_moment": None}, nothing),
    "MALA": (rtk.MALA, {"tau": 0.1, "steps": 2, "begin": rtk.GaussianStart()}, segment),
    "MALA.from_theory": (rtk.MALA.from_theory, {"smoothness": 1.0, "d": 2, "eps": 0.5}, nothing),
    "ProjectedMALA": (rtk.ProjectedMALA, {"tau": 0.1, "steps": 2, "reach": 1.0, "radius": 5.0}, segment),
    "HMC": (rtk.HMC, {"tau": 0.1, "leaps": 2, "steps": 2}, segment),
    "GaussianStart": (rtk.GaussianStart, {"curvature": 1.0}, lambda start: segment(rtk.ULA(0.1, 2, start))),
    "rtk.ReverseSDE": (rtk.ReverseSDE, {"steps": 2}, segment),
    "rtk.DPOM": (rtk.DPOM, {"tau": 0.1, "steps": 2, "predictor_steps": 1}, segment),
    "rtk.DPUM": (rtk.DPUM, {"tau": 0.1, "gamma": 1.0, "steps": 2, "predictor_steps": 1}, segment),
    "ProbabilityFlow": (rtk.ProbabilityFlow, {"steps": 2}, segment),
    "PerSegment": (rtk.PerSegment, {"choose": lambda time, eta: rtk.ULA(0.1, 1), "steps": 1}, segment),
    "LineIntegral": (
        rtk.LineIntegral,
        {"nodes": 3},
        lambda rule: rtk.sample(
            rtk.exact(RING, energy=rule), kernel=rtk.MALA(0.1, 2), segments=rtk.Segments((1.0, 0.5)), num_samples=2
        ),
    ),
    "rtk.exact": (rtk.exact, {"target": RING}, lambda score: segment(rtk.ULA(0.1, 1), score)),
    "rtk.learned": (
        rtk.learned,
        {"network": lambda x, t: -x, "shape": (2,), "energy": None, "dtype": torch.float32},
        lambda score: segment(rtk.ULA(0.1, 1), score),
    ),
    "rtk.sample": (
        rtk.sample,
        {
            "score": RING,
            "kernel": rtk.ULA(0.1, 1),
            "segments": rtk.Segments((1.0, 0.5)),
            "num_samples": 2,
            "shape": (2,),
            "seed": 0,
            "start": None,
            "max_batch_size": 1,
            "device": "cpu",
        },
        nothing,
    ),
    "rtk.chain": (
        rtk.chain,
        {
            "score": RING,
            "kernel": rtk.ULD(0.1, 1.0, 2),
            "segments": rtk.Segments((1.0, 0.5)),
            "shape": (2,),
            "start": None,
            "spread": 0.5,
            "device": "cpu",
        },
        drawn,
    ),
    "Parts": (ar.Parts, {"shape": (4,), "grid": (2,)}, nothing),
    "MLPEncoder": (ar.MLPEncoder, {"width": 4, "layers": 1}, nothing),
    "TransformerEncoder": (ar.TransformerEncoder, {"width": 4, "layers": 1, "heads": 2}, nothing),
    "MLPDenoiser": (ar.MLPDenoiser, {"width": 4, "blocks": 1}, nothing),
    "TransformerDenoiser": (ar.TransformerDenoiser, {"tokens": 2, "width": 4, "layers": 1, "heads": 2}, nothing),
    "ar.ModelConfig": (
        ar.ModelConfig,
        {
            "parts": ar.Parts((4,), (2,)),
            "encoder": ar.MLPEncoder(4, 1),
            "denoiser": ar.MLPDenoiser(4, 1),
            "levels": (-5.0, 5.0),
        },
        lambda config: ar.ARModel(config),
    ),
}


@pytest.mark.parametrize("name", MADE)
def test_what_is_right_is_made_and_used(name: str) -> None:
    make, arguments, use = MADE[name]
    use(make(**arguments))


@fuzzed(1200, name=st.sampled_from(sorted(MADE)), data=st.data())
def test_one_or_two_strange_arguments(name: str, data: st.DataObject) -> None:
    make, arguments, use = MADE[name]
    if not arguments:
        return
    odd = data.draw(st.lists(st.sampled_from(sorted(arguments)), min_size=1, max_size=2, unique=True))
    changed = {key: data.draw(strange, key) for key in odd}
    with clear_errors(arguments, changed):
        use(make(**{**arguments, **changed}))
