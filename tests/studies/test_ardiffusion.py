"""What is measured of auto-regressive diffusion is what it says."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
import torch

from drawahead import ardiffusion as ar
from studies.ardiffusion import pairs
from studies.ardiffusion.bound import Case, measured
from studies.ardiffusion.page import values
from studies.ardiffusion.parallel import INNER, SAMPLERS
from studies.ardiffusion.shapes import UNRELATED, Shapes, relation_errors
from studies.ardiffusion.shapes_study import QUICK, contenders, study
from studies.ardiffusion.sweeps import Sweep
from studies.ardiffusion.sweeps import study as swept
from studies.ardiffusion.words import compared
from studies.estimates import mean
from studies.study import DOCS, data_path, read


@pytest.mark.parametrize("across", [True, False])
def test_images_keep_their_own_rule_and_not_the_other(across: bool) -> None:
    images = Shapes(1000, across=across, seed=0).images
    assert images.shape == (1000, 16, 16) and -1 <= float(images.min()) < float(images.max()) <= 1
    noisy = images + 0.045 * torch.randn(images.shape, generator=torch.Generator().manual_seed(0))
    for shown in (images, noisy):
        assert float(relation_errors(shown, across=across).square().mean().sqrt()) < 0.03
        assert abs(float(relation_errors(shown, across=not across).square().mean().sqrt()) - UNRELATED) < 0.02


def test_contenders_are_of_one_size() -> None:
    sizes = [ar.ARModel(contender.config).size for contender in contenders(96)]
    assert max(sizes) < 1.1 * min(sizes)


def test_a_study_of_shapes_runs() -> None:
    for contender in contenders(QUICK.width):
        row = study(contender, True, 0, 3, replace(QUICK, drawn=4, sampling_steps=2), "cpu")
        assert json.dumps(row) and row["relation_error"] > 0 and len(row["examples"]) == 4


def test_the_path_bounds_the_kl_and_the_bound_bounds_the_path() -> None:
    for case in (
        Case(steps=20),
        Case(3, 1, shift=1.0, duration=1.0, steps=30),
        Case(variance=0.3, steps=40, error=0.2),
    ):
        found = measured(case)
        path = sum(value for key, value in found.items() if key.startswith("path"))
        bound = sum(value for key, value in found.items() if key.startswith("bound"))
        assert 0 < found["kl"] < path < bound


def test_the_path_kl_of_standard_noise() -> None:
    """There the score is -x, and E|x_t - x_s|^2 is known; nothing is cut off."""
    case = Case(1, 1, correlation=0.0, duration=2.0, steps=10)
    found = measured(case)
    assert found["path truncation"] == pytest.approx(0, abs=1e-12)
    assert found["path discretisation"] == pytest.approx(10 * 2 * (0.2 + math.expm1(-0.2)), rel=1e-6)


def test_the_score_error_counts_once_for_each_part() -> None:
    sweep = Sweep("K", "score", tuple((k, Case(number=k, size=1, correlation=0.0, error=0.2)) for k in (1, 2, 4)))
    found = swept(sweep)
    assert all(found["exponents"][key][0] == pytest.approx(1, abs=1e-6) for key in ("kl", "path", "bound"))


def test_the_pair_of_the_lemma() -> None:
    for eps, slope in ((0.1, 1.0), (0.001, 100.0)):
        found = pairs.lemma(eps, slope, 1000)
        assert found["joint_kl"] == pytest.approx(eps) and found["conditional_kl_per_x2"] > slope**2


def test_the_toy_in_closed_form_and_drawn() -> None:
    found = pairs.exact(0.3, 16, 4000)
    for kind in ("auto-regressive", "joint"):
        own = found[kind]
        assert abs(own["spread"] - own["drawn_spread"]) < 5 * own["standard_error"]
    assert found["joint"]["kl"] < found["auto-regressive"]["kl"]  # as many calls, steps half as long


def test_words_follow_numbers() -> None:
    small, large, vague = mean([0.04, 0.05, 0.045]), mean([0.3, 0.31, 0.29]), mean([0.0, 0.6])
    assert compared(small, large) == "parts are 6.7 times closer"
    assert compared(large, small) == "the joint model is 6.7 times closer"
    assert compared(small, small) == compared(small, vague) == "no difference worth a choice"


def test_tests_that_the_data_lack_are_named() -> None:
    data = read(data_path(DOCS, "ardiffusion"))
    row = data["agreed"][0]
    every = [row | {"inner": inner, "sampler": sampler} for inner in INNER for sampler in SAMPLERS]
    assert values(data | {"agreed": every})["untested"] is None
    assert values(data | {"agreed": every[1:]})["untested"] == "stepwise (OU, 64 steps)"
