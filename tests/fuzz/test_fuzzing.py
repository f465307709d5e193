"""The fuzz tests themselves: they can fail, and no public door is left out."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import torch
from hypothesis import strategies as st

import drawahead as da
from drawahead import ardiffusion, counting, jobs, networks, rtk, samplers, schedules, show, targets, teaching, tilings
from drawahead.errors import InputError
from drawahead.verification import statistics
from tests.fuzz.fuzzing import clear_errors, fuzzed, only_our_errors, strange
from tests.fuzz.test_constructors import MADE
from tests.fuzz.test_functions import DOORS

GIVEN = {
    # What drawahead gives, and nobody has to make.
    *("AnswerError", "DrawaheadError", "InputError", "Interrupted", "JobError", "SamplingError"),
    *(
        "Rejection",
        "Result",
        "Verdict",
        "Film",
        "Gallery",
        "Shard",
        "SamplerRecord",
        "Config",
        "Guarantee",
        "NamedTarget",
    ),
    *("Difference", "Info", "State", "ULDStep", "RTKReport", "RTKResult", "RTKTarget", "Progress", "Trained", "Normal"),
    # Parts of models, and types.
    *("ConditionalDenoiser", "Conditionals", "Denoiser", "Score", "TextModel"),
}
ELSEWHERE = {
    *("Auto", "sample", "Categorical", "Gaussian"),  # test_sampling; laws through rejection
    *("Report", "document"),  # through to_html and from_dict
    *("Ray", "RayWorkers"),  # start a cluster: see tests/executors and tests/jobs
    *("ExactScore", "LearnedScore"),  # through exact and learned
    *("Noise", "FunctionPotential", "CentredStart", "CountingDenoiser"),  # take what they are given, or nothing
    "emoji_words",  # takes nothing
    # Bad input of these is listed in tests/causal and tests/science.
    *("CausalChain", "FirstGuess", "Above", "LastAnswer", "Ngram", "Uniform", "emoji_tokens", "emoji_pictures"),
    *("Summary", "summary", "until"),
    *("ddim_steps", "ddpm_steps", "with_learned_range", "LearnedRange", "LearnedVariance"),  # of the schedules
    *("aztec_diamond", "domino_grid"),  # through region
    *("Points", "Subgraphs"),  # through the command line
}
ROOMS = (
    da,
    statistics,
    ardiffusion,
    counting,
    jobs,
    networks,
    rtk,
    samplers,
    schedules,
    show,
    targets,
    teaching,
    tilings,
)


def public(room: ModuleType) -> list[str]:
    own = [name for name, value in vars(room).items() if getattr(value, "__module__", None) == room.__name__]
    names = getattr(room, "__all__", [name for name in own if not name.startswith("_")])
    return [name for name in names if callable(getattr(room, name)) and not inspect.isabstract(getattr(room, name))]


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.__name__)
def test_no_door_is_left_out(room: ModuleType) -> None:
    fuzzed_ = {part for key in [*MADE, *DOORS] for part in key.split(" ")[0].split(".")}
    assert not {*public(room)} - fuzzed_ - GIVEN - ELSEWHERE


def test_only_our_errors_pass() -> None:
    with only_our_errors():
        raise InputError("the input is wrong")
    for error in (TypeError("no"), KeyError(3), InputError(""), InputError("x" * 10_000)):
        with pytest.raises((TypeError, KeyError, AssertionError)), only_our_errors():
            raise error


def test_what_python_says_of_a_wrong_type_passes_and_of_a_wrong_value_does_not() -> None:
    with clear_errors({"steps": 3}, {"steps": "three"}):
        raise TypeError("a text where a number belongs")
    with clear_errors({"steps": 3}, {"steps": torch.ones(2)}):
        assert not torch.ones(2)
    for error in (TypeError("a fault of ours"), AttributeError("another")):
        with pytest.raises(type(error)), clear_errors({"steps": 3}, {"steps": -1}):
            raise error
    for other in (ZeroDivisionError("a fault of ours"), RuntimeError("a fault of torch's")):
        with pytest.raises(type(other)), clear_errors({"steps": 3}, {"steps": "three"}):
            raise other


def quick(test: Callable[..., None]) -> Any:
    """The profile of a test's quick run."""
    (mark,) = (mark for mark in test.pytestmark if mark.name == "parametrize")  # type: ignore[attr-defined]
    return mark.args[1][0].values[0]


def careless(value: Any) -> None:
    """A door as they were before they were fuzzed."""
    if value is not None and value < 0:
        raise InputError("value must not be negative")


@pytest.mark.parametrize("door", [careless, lambda value: 1 / value if isinstance(value, int) else 0])
def test_a_careless_door_is_found(door: Callable[[Any], Any]) -> None:
    @fuzzed(100, value=strange)
    def holds(value: Any) -> None:
        with only_our_errors():
            door(value)

    with pytest.raises((Exception, ExceptionGroup)) as caught:
        holds(quick(holds))
    assert not isinstance(caught.value, da.DrawaheadError)


def test_quick_runs_are_the_same_each_time() -> None:
    seen: list[int] = []

    @fuzzed(30, value=st.integers())
    def look(value: int) -> None:
        seen.append(value)

    look(quick(look))
    first = [*seen]
    seen.clear()
    look(quick(look))
    assert seen == first and len({*first}) > 5
