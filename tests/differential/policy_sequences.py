"""Sequences of calls of one diffusion policy: observations come and go, its network and settings change, calls fail."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

import drawahead as da
from drawahead.samplers import Sampler
from tests.adapters import tiny_policies as tiny
from tests.differential.cases import coupled, dice
from tests.differential.pipeline_sequences import pause
from tests.differential.sequences import PACES, Clock, Drawn, judge_equal, made_up_time, named, normals

Accelerate = Callable[..., Any]
KINDS: dict[str, Callable[[], Any]] = {
    "lerobot": tiny.LeRobotModel,
    "unet": tiny.UnetPolicy,
    "transformer": tiny.TransformerPolicy,
}
MOST = 4
"""Observations of a call."""


@dataclass(frozen=True)
class Settings:
    """What a policy is, as plain data."""

    kind: str
    network: int = 0  # whose weights are these
    size: float = 1.0  # and times how much
    steps: int = 12
    predicts: str = "epsilon"
    clips: bool = True


@dataclass(frozen=True)
class Asked:
    """The arguments of a call, as plain data."""

    rows: int
    seen: int  # the seed of the observations
    noise: int  # of the generator
    given: int | None  # of a first state, or of entries that are known

    def draw(self, policy: Any, kind: str, broken: str = "") -> Tensor:
        told = normals(self.seen, MOST, tiny.HISTORY, tiny.OBSERVED)[: self.rows]
        told = told * torch.nan if broken == "nan" else told
        rows = self.rows + (broken == "rows")
        generator = torch.Generator().manual_seed(self.noise)
        data = normals(self.given or 0, MOST, tiny.HORIZON, tiny.ACTION)[: self.rows]
        if kind == "lerobot":
            start = None if self.given is None else data
            actions = policy.conditional_sample(rows, told.flatten(1), generator=generator, noise=start)
        else:
            data = torch.cat([data, data[:1]])[:rows]
            mask = torch.zeros_like(data, dtype=torch.bool)
            mask[:, 0] = self.given is not None
            named = {"cond": told} if kind == "transformer" else {"global_cond": told.flatten(1)}
            actions = policy.conditional_sample(data, mask, generator=generator, **named)
        assert isinstance(actions, Tensor)
        return actions


def network(settings: Settings) -> tiny.Network:
    made = tiny.Network()
    made.register_forward_pre_hook(pause)
    with torch.no_grad():
        for i, weight in enumerate(made.parameters()):
            weight.copy_(settings.size * normals(2 * settings.network + i, *weight.shape))
    return made.eval()


def scheduler(settings: Settings) -> Any:
    return tiny.scheduler(prediction_type=settings.predicts, clip_sample=settings.clips)


def made(settings: Settings) -> Any:
    """A policy that nothing was drawn from."""
    policy = KINDS[settings.kind]().eval()
    setattr(policy, place(settings.kind), network(settings))
    policy.noise_scheduler, policy.num_inference_steps = scheduler(settings), settings.steps
    return policy


def place(kind: str) -> str:
    return "unet" if kind == "lerobot" else "model"


class PolicySequence:
    """One sequence: what `accelerate` does to a policy is judged."""

    def __init__(self, seed: int, kind: str, clock: Clock, accelerate: Accelerate) -> None:
        self.d, self.clock = dice(f"policy sequence {kind}", seed), clock
        d = self.d
        clock.pace = d.choice(PACES)
        self.settings = Settings(kind, size=d.choice([1.0, 3.0]), steps=d.choice([12, 24]))
        self.policy = made(self.settings)
        self.sampler: Sampler | None = d.choice([None, None, coupled(d), da.Sequential()])
        self.graphs = d.choice([None, None, True])
        self.fast = accelerate(self.policy, sampler=self.sampler, graphs=self.graphs)
        self.seeds = [d.randrange(1000) for _ in range(2)]
        self.drawn = Drawn()
        self.history = [f"{self.settings} {self.sampler} graphs={self.graphs} {clock.pace}"]
        self.before: Hashable = None
        self.epoch = 0  # calls in a row that draw by the same steps share one

    # What is changed between calls

    def change(self) -> None:
        ways = [self.weighed, self.weighed, self.exchanged, self.reconfigured, self.reconfigured, self.busy, self.busy]
        way = self.d.choice(ways)
        way()
        self.history.append(f"{way.__name__}: {self.settings} {self.clock.pace}")

    def busy(self) -> None:
        self.clock.pace = self.d.choice(PACES)

    def weighed(self) -> None:
        """Weights are changed in place, or replaced."""
        self.settings = replace(self.settings, network=self.d.randrange(3))
        mine, new = getattr(self.policy, place(self.settings.kind)), network(self.settings)
        for name, weight in new.named_parameters():
            if self.d.chance(0.5):
                with torch.no_grad():
                    getattr(mine, name).copy_(weight)
            else:
                setattr(mine, name, nn.Parameter(weight.detach().clone()))

    def exchanged(self) -> None:
        self.settings = replace(self.settings, network=self.d.randrange(3))
        setattr(self.policy, place(self.settings.kind), network(self.settings))

    def reconfigured(self) -> None:
        """Another number of steps, another scheduler, or the same one with other settings."""
        d = self.d
        self.settings = replace(self.settings, steps=d.choice([12, 24]), predicts=d.choice(["epsilon", "sample"]))
        self.settings = replace(self.settings, clips=d.chance(0.5))
        self.policy.num_inference_steps = self.settings.steps
        if d.chance(0.5):
            self.policy.noise_scheduler = scheduler(self.settings)
        else:
            own = {"prediction_type": self.settings.predicts, "clip_sample": self.settings.clips}
            self.policy.noise_scheduler.register_to_config(**own)

    # Calls

    def call(self) -> None:
        d = self.d
        seen, noise = d.choice(self.seeds), d.choice(self.seeds)
        asked = Asked(d.choice([1, 1, 2, MOST]), seen, noise, d.choice([None, None, d.choice(self.seeds)]))
        cut, after = d.choice([""] * 6 + ["fails", "fails", "nan", "rows", "train"]), d.randint(0, 4)
        self.history.append(f"call: {asked} {cut} {after}")
        inside = getattr(self.policy, place(self.settings.kind))
        steps = replace(self.settings, network=0, size=1.0), id(inside)
        self.epoch, self.before = self.epoch + (steps != self.before), steps
        earlier = self.fast.report
        refused = (da.InputError,) if cut in ("nan", "rows", "train") else (da.SamplingError,) if cut == "fails" else ()
        self.policy.train(cut == "train")
        self.clock.left = after if cut == "fails" else float("inf")
        actions: Tensor | None = None
        try:
            with contextlib.suppress(*refused):
                actions = asked.draw(self.policy, self.settings.kind, cut)
        finally:
            self.clock.left = float("inf")
            self.policy.eval()
        if actions is None:
            report = self.fast.report
            assert report is None or report is not earlier, "after a call that failed, the report is an earlier call's"
            assert report is None or report.num_samples < asked.rows
        else:
            assert cut in ("", "fails"), f"it must be refused: {cut}"
            self.judge(asked, actions)

    def judge(self, asked: Asked, actions: Tensor) -> None:
        report = self.fast.report
        assert report is not None and report.exact and report.steps == self.settings.steps
        assert report.num_samples == asked.rows == len(actions)
        fresh = made(self.settings)
        by = named(report) if self.sampler is None else self.sampler
        beside = da.adapters.accelerate(fresh, sampler=by, graphs=False)
        judge_equal(actions, asked.draw(fresh, self.settings.kind), "not what a fresh policy draws")
        assert beside.report is not None and report.seed == beside.report.seed
        if self.sampler is None:
            plain = (self.epoch, self.settings, asked)
            self.drawn.judge(plain, actions, "actions")


def judge_policies(seed: int, kind: str, accelerate: Accelerate = da.adapters.accelerate, calls: int = 8) -> None:
    """One sequence of calls of a policy; `accelerate` makes what is judged."""
    with made_up_time() as clock:
        sequence = PolicySequence(seed, kind, clock, accelerate)
        try:
            for _ in range(calls):
                while sequence.d.chance(0.3):
                    sequence.change()
                sequence.call()
        except Exception as error:
            error.add_note("\n".join([f"{kind} sequence {seed}:", *sequence.history]))
            raise
