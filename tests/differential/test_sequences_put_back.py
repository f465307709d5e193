"""Objects that remember what they must not, made from those of the library by what anybody can do to them: the
sequences find each."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from torch import Tensor

import drawahead as da
from drawahead.errors import DrawaheadError
from tests.differential.test_sequences import JUDGES, judge

pytest.importorskip("diffusers")
pytest.importorskip("transformers")
from tests.differential.pipeline_sequences import wrapped
from tests.differential.policy_sequences import place

CHOICES = [da.Sequential(), da.Coupled(4)]

# Chains: each gives what stands in for `sample`


def another_choice_with_every_call() -> Callable[..., da.Result]:
    """The default went by what it had learned from the samples that it drew again."""
    choices = itertools.cycle(CHOICES)

    def draw(chain: Any, number: int, **options: Any) -> da.Result:
        options["sampler"] = options["sampler"] or next(choices)
        return da.sample(chain, number, **options)

    return draw


def captured_rounds_of_old_weights() -> Callable[..., da.Result]:
    old: dict[int, Any] = {}

    def draw(chain: Any, number: int, **options: Any) -> da.Result:
        if options.get("graphs"):
            chain = old.setdefault(id(chain), (copy.deepcopy(chain), chain))[0]
        return da.sample(chain, number, **options)

    return draw


def the_first_chain_of_as_many_steps() -> Callable[..., da.Result]:
    """Of a chain that was replaced nothing else was compared."""
    first: dict[int, Any] = {}

    def draw(chain: Any, number: int, **options: Any) -> da.Result:
        return da.sample(first.setdefault(chain.steps, chain), number, **options)

    return draw


def left_over(name: str) -> Callable[[], Callable[..., da.Result]]:
    """What one call was told goes for the next one, too."""

    def broken() -> Callable[..., da.Result]:
        kept: dict[str, Any] = {}

        def draw(chain: Any, number: int, **options: Any) -> da.Result:
            if not (name == "hurry" and not isinstance(options["sampler"], da.Coupled)):
                options = kept | options
            kept.update({name: options[name]} if name in options else {})
            return da.sample(chain, number, **options)

        return draw

    broken.__name__ = f"{name}_is_left_over"
    return broken


# Pipelines: each gives what stands in for `from_pipe`


@dataclass
class Around:
    """A pipeline whose calls can be changed; its attributes are those of the one inside."""

    ours: Any

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["ours"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("ours", "kept"):
            self.__dict__[name] = value
        else:
            setattr(self.ours, name, value)


class OldScheduler(Around):
    """Draws by the first scheduler of each kind."""

    def __call__(self, **options: Any) -> Any:
        self.__dict__.setdefault("kept", {})
        now = self.ours.scheduler
        try:
            self.ours.scheduler = self.kept.setdefault(type(now), copy.deepcopy(now))
            return self.ours(**options)
        finally:
            self.ours.scheduler = now


class OldGuidance(Around):
    def __call__(self, **options: Any) -> Any:
        scale = self.__dict__.setdefault("kept", options["guidance_scale"])
        return self.ours(**options | {"guidance_scale": scale})


class OtherLatents(Around):
    """The last latents that a callback is shown are those of a trial run."""

    def __call__(self, **options: Any) -> Any:
        seen, last = options["callback_on_step_end"], options["num_inference_steps"] - 1

        def look(pipe: Any, step: int, time: Any, given: dict[str, Any]) -> Any:
            other = given["latents"] + (step == last)
            seen(pipe, step, time, {"latents": other})

        return self.ours(**options | {"callback_on_step_end": None if seen is None else look})


class AnotherChoice(Around):
    def __call__(self, **options: Any) -> Any:
        choices = self.__dict__.setdefault("kept", itertools.cycle(CHOICES))
        return self.ours(**options | {"sampler": options["sampler"] or next(choices)})


def around(kind: type[Around]) -> Callable[[], Callable[[Any], Any]]:
    def broken() -> Callable[[Any], Any]:
        return lambda pipe: kind(wrapped(pipe))

    broken.__name__ = kind.__name__
    return broken


# Policies: each gives what stands in for `accelerate`


class Reported:
    """Keeps the report of the last call that came to its end."""

    def __init__(self, policy: Any, **options: Any) -> None:
        self.fast, self.report = da.adapters.accelerate(policy, **options), None
        policy.conditional_sample = self.call

    def call(self, *arguments: Any, **named: Any) -> Tensor:
        actions = self.fast(*arguments, **named)
        self.report = self.fast.report
        return actions


class OldWeights(Reported):
    """Draws by the weights that the network had at first."""

    def __init__(self, policy: Any, **options: Any) -> None:
        super().__init__(policy, **options)
        self.policy, self.place = policy, place("lerobot" if hasattr(policy, "unet") else "")
        self.old = copy.deepcopy(getattr(policy, self.place))

    def call(self, *arguments: Any, **named: Any) -> Tensor:
        self.report = None
        now = getattr(self.policy, self.place)
        setattr(self.policy, self.place, self.old.train(now.training))
        try:
            return super().call(*arguments, **named)
        finally:
            setattr(self.policy, self.place, now)


class OldObservations(Reported):
    """Draws for what was seen when as many actions were asked for first."""

    def __init__(self, policy: Any, **options: Any) -> None:
        super().__init__(policy, **options)
        self.seen: dict[Any, Any] = {}

    def call(self, *arguments: Any, **named: Any) -> Tensor:
        self.report = None
        sizes = tuple(tuple(part.shape) if isinstance(part, Tensor) else part for part in arguments)
        if not any(bool(part.isnan().any()) for part in (*arguments, *named.values()) if isinstance(part, Tensor)):
            told = {name: part for name, part in named.items() if name in ("cond", "global_cond")}
            arguments, told = self.seen.setdefault(sizes, (arguments, told))
            named = named | told
        return super().call(*arguments, **named)


def in_place(kind: type[Reported]) -> Callable[[], Callable[..., Any]]:
    def broken() -> Callable[..., Any]:
        return kind

    broken.__name__ = kind.__name__
    return broken


@dataclass(frozen=True)
class Bug:
    put_back: Callable[[], Any]
    sort: str
    kind: str

    def __str__(self) -> str:
        return f"{self.put_back.__name__}-{self.kind}"


BUGS = [
    Bug(another_choice_with_every_call, "chains", "gaussian"),
    Bug(another_choice_with_every_call, "chains", "stacked"),
    *(Bug(captured_rounds_of_old_weights, "chains", kind) for kind in ("gaussian", "stacked", "tokens")),
    *(Bug(the_first_chain_of_as_many_steps, "chains", kind) for kind in ("gaussian", "stacked", "tokens")),
    Bug(left_over("stop"), "chains", "tokens"),
    Bug(left_over("hurry"), "chains", "gaussian"),
    *(Bug(around(OldScheduler), "pipelines", kind) for kind in ("plain", "text")),
    Bug(around(OldGuidance), "pipelines", "text"),
    *(Bug(around(OtherLatents), "pipelines", kind) for kind in ("plain", "text")),
    *(Bug(around(AnotherChoice), "pipelines", kind) for kind in ("plain", "text")),
    *(Bug(in_place(Reported), "policies", kind) for kind in ("lerobot", "unet")),
    *(Bug(in_place(OldWeights), "policies", kind) for kind in ("lerobot", "transformer")),
    *(Bug(in_place(OldObservations), "policies", kind) for kind in ("lerobot", "unet")),
]


NEAR = {
    "another_choice_with_every_call-stacked": 3,
    "captured_rounds_of_old_weights-gaussian": 7,
    "captured_rounds_of_old_weights-stacked": 30,
    "the_first_chain_of_as_many_steps-gaussian": 3,
    "the_first_chain_of_as_many_steps-stacked": 5,
    "the_first_chain_of_as_many_steps-tokens": 4,
    "stop_is_left_over-tokens": 1,
    "hurry_is_left_over-gaussian": 12,
    "OldScheduler-plain": 35,
    "OldScheduler-text": 1,
    "OldGuidance-text": 1,
    "OtherLatents-text": 1,
    "AnotherChoice-plain": 2,
    "AnotherChoice-text": 13,
}
"""Sequences that found a bug once: they are tried first."""


def finds(bug: Bug, seed: int) -> bool:
    """Whether this sequence fails."""
    try:
        judge(bug.sort, bug.kind, seed, bug.put_back())
    except (AssertionError, DrawaheadError):
        return True
    return False


@pytest.mark.parametrize("bug", BUGS, ids=str)
def test_what_is_remembered_is_found(bug: Bug) -> None:
    seeds = JUDGES[bug.sort][1][bug.kind]
    first = NEAR.get(str(bug), seeds[0])
    assert any(finds(bug, seed) for seed in (first, *seeds))
