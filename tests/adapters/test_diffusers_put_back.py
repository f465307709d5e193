"""Faults that the reading of diffusers has had, each put back: what passes without it must fail with it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import torch

from drawahead.diffusers import batch as batch
from drawahead.diffusers.denoiser import Guidance
from drawahead.diffusers.loops import reading
from drawahead.diffusers.loops.calls import ByStep
from drawahead.diffusers.loops.looped import Loop
from drawahead.diffusers.loops.rows import Batched
from drawahead.diffusers.schedulers import probing, supply
from drawahead.diffusers.schedulers import reading as schedulers
from drawahead.errors import DrawaheadError, InputError
from drawahead.schedules import LearnedVariance

pytest.importorskip("diffusers")
pytest.importorskip("transformers")
from tests.adapters import test_diffusers_adapter as adapter
from tests.adapters import test_diffusers_differential as differential
from tests.adapters import test_diffusers_pipelines as pipelines

Patch = pytest.MonkeyPatch


def no_noise_at_the_end(patch: Patch) -> None:
    """The floor of a learned variance was a share of the fixed one, which is zero where the next state is the data."""
    own = probing.probe

    def probe(*given: Any) -> Any:
        made = own(*given)
        if not isinstance(made.plan.spread, LearnedVariance):
            return made
        s = made.plan.s.clone()
        s[-1] = 0.0
        return dataclasses.replace(made, plan=dataclasses.replace(made.plan, s=s))

    patch.setattr(schedulers, "probe", probe)


def what_is_left_over_is_not_looked_at(patch: Patch) -> None:
    patch.setattr(supply, "LEFT", float("inf"))


def limits_are_for_the_whole_prediction(patch: Patch) -> None:
    """Where a step uses the prediction as it came as well."""
    own = probing.probe
    patch.setattr(schedulers, "probe", lambda *given: dataclasses.replace(own(*given), gains=None))


def schedulers_are_made_anew(patch: Patch) -> None:
    """What was read was a scheduler made anew from the config of the one given."""
    patch.setattr(schedulers, "check_functions", lambda scheduler: None)
    own = schedulers.copied
    patch.setattr(schedulers, "copied", lambda scheduler: own(type(scheduler)(**differential_config(scheduler))))


def differential_config(scheduler: Any) -> dict[str, Any]:
    return {name: value for name, value in scheduler.config.items() if not name.startswith("_")}


def the_heavier_pass_has_the_condition(patch: Patch) -> None:
    """With a scale of 0.5 or less, the pass without the condition weighs more."""

    own = Guidance.__init__

    def init(guidance: Guidance, *given: Any, **named: Any) -> None:
        own(guidance, *given, **named)
        heaviest = max(range(len(guidance.weights)), key=guidance.weights.__getitem__)
        object.__setattr__(guidance, "conditional", heaviest)

    patch.setattr(Guidance, "__init__", init)


FOUND_BY_CASES: list[Callable[[Patch], None]] = [
    no_noise_at_the_end,
    what_is_left_over_is_not_looked_at,
    limits_are_for_the_whole_prediction,
    schedulers_are_made_anew,
    the_heavier_pass_has_the_condition,
]


@pytest.mark.parametrize("put_back", FOUND_BY_CASES)
def test_the_cases_find_it(put_back: Callable[[Patch], None], monkeypatch: Patch) -> None:
    put_back(monkeypatch)
    assert any(map(_fails, range(differential.CASES)))


def _fails(seed: int) -> bool:
    try:
        differential.judge(seed)
    except (AssertionError, DrawaheadError):
        return True
    return False


def test_a_start_that_is_kept_is_found(monkeypatch: Patch) -> None:
    """A pipeline kept the chain of its last call where only the tables of its steps were the same."""
    monkeypatch.setattr(batch, "_deciding", lambda chain: vars(chain.plan) | {"start": None, "spread": None})
    for test in (
        adapter.test_a_pipeline_does_not_keep_what_another_scheduler_began_with,
        adapter.test_whatever_decides_a_chain_makes_another_one,
    ):
        with pytest.raises(AssertionError):
            test()


def test_a_callback_that_sees_rounds_which_are_timed_is_found(monkeypatch: Patch) -> None:
    """All that was drawn from a chain was taken to be the call's own images."""
    own = batch.Batch.start

    def start(self: Any, seed: int, samples: Any, tally: Any) -> Any:
        self.seed = seed
        return own(self, seed, samples, tally)

    monkeypatch.setattr(batch.Batch, "start", start)
    with pytest.raises(AssertionError):
        adapter.test_the_callback_sees_no_other_samples(adapter.tiny_unet().double(), listed=False)


def another_prompt_is_told(patch: Patch) -> None:
    own = Batched.tables
    patch.setattr(Batched, "tables", lambda self: {name: -table for name, table in own(self).items()})


def constants_are_those_of_the_first_step(patch: Patch) -> None:
    own = ByStep.__call__
    patch.setattr(ByStep, "__call__", lambda self, k: own(self, 0 * k))


def the_state_is_not_overwritten(patch: Patch) -> None:
    """What a loop does to the state that a step led to is left out."""
    own = Loop.read
    patch.setattr(Loop, "read", lambda *given: dataclasses.replace(own(*given), before=None))


MISREAD: list[tuple[Callable[[Patch], None], str, dict[str, Any]]] = [
    (another_prompt_is_told, "control", {"prompt": pipelines.PROMPTS, "image": pipelines.PICTURE}),
    (constants_are_those_of_the_first_step, "text", {"prompt": pipelines.PROMPTS}),
    (
        the_state_is_not_overwritten,
        "overwriting",
        {"prompt": "red", "image": pipelines.PICTURE, "mask_image": pipelines.MASK, "height": 8, "width": 8},
    ),
]


@pytest.mark.parametrize(("put_back", "kind", "arguments"), MISREAD, ids=lambda part: getattr(part, "__name__", ""))
@pytest.mark.parametrize("proved", [True, False], ids=["by its own steps", "by its images"])
def test_a_loop_that_is_misread_is_found(
    put_back: Callable[[Patch], None], kind: str, arguments: dict[str, Any], proved: bool, monkeypatch: Patch
) -> None:
    put_back(monkeypatch)
    if not proved:
        monkeypatch.setattr(reading, "difference", lambda *given: "")
        monkeypatch.setattr(reading, "settle", lambda kind, loop, moments: loop)
    with pytest.raises(InputError if proved else AssertionError), torch.random.fork_rng():
        pipelines.test_one_by_one_it_takes_the_path_of_its_own_loop(kind, arguments)
