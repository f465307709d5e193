"""The images of one call of a pipeline, drawn together: their seeds, a progress bar, a callback."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import torch
from torch import Tensor

from drawahead.adapters._diffusers_denoiser import Denoiser
from drawahead.chains.base import Chain, Tally
from drawahead.chains.gaussian import GaussianChain
from drawahead.chains.gaussian_paths import GaussianPaths
from drawahead.errors import InputError
from drawahead.randomness import Stream, seed_from
from drawahead.report import Report
from drawahead.sample import Result, sample
from drawahead.samplers import Auto, Picard, Sampler, Sequential
from drawahead.validate import short

Callback = Callable[[Any, int, Tensor, dict[str, Any]], dict[str, Any] | None]
Generators = torch.Generator | list[torch.Generator] | None


@final
@dataclass(frozen=True)
class Asked:
    """How images are to be drawn, whatever they are."""

    generator: Generators = None
    sampler: Sampler | None = None
    max_batch_size: int | None = None
    callback: Callback | None = None
    callback_inputs: Sequence[str] = ("latents",)

    def __post_init__(self) -> None:
        if self.callback is not None and not callable(self.callback):
            raise InputError(f"callback_on_step_end must be callable, not {short(self.callback)}")
        if unknown := set(self.callback_inputs) - {"latents"}:
            raise InputError(f"callback_on_step_end_tensor_inputs may name 'latents' only, not {unknown}")

    def draw(self, pipe: Any, chain: GaussianChain, number: int) -> Result:
        """The images of a chain, with the pipeline's progress bar."""
        sampler = self.sampler or Auto()
        if chain.steps > 1 and not bool(chain.plan.s.any()) and not isinstance(sampler, Sequential | Picard):
            _warn()
        batch = Batch(chain, seeds(self.generator, number))
        before = 0  # a bar that is not shown does not count
        with pipe.progress_bar(total=chain.steps) as bar:

            def look(report: Report) -> None:
                nonlocal before
                done = min((steps[-1] for steps in report.progress.values()), default=0)  # of the first few images
                if done == before:
                    return
                bar.update(done - before)
                before = done
                if self.callback is not None:
                    given = dict.fromkeys(self.callback_inputs, batch.latents)
                    answer = self.callback(pipe, done - 1, chain.plan.time[done - 1], dict(given)) or {}
                    if any(answer.get(name, value) is not value for name, value in given.items()):
                        raise InputError("callback_on_step_end must not replace latents: that would change their law")

            return sample(
                batch,
                number,
                sampler=sampler,
                generator=None if isinstance(self.generator, list) else self.generator,
                max_batch_size=self.max_batch_size,
                max_live=number,
                on_round=look,
                graphs=None if self.callback is None else False,  # captured rounds cannot be looked into
            )


def _warn() -> None:
    """At the line of the user's call, however many functions of ours are in between."""
    warnings.warn(
        "no step of this scheduler is random (DDIM with eta=0, or an ODE solver), so there is nothing to speculate and "
        "every round takes one step; give eta=1.0 or a stochastic scheduler, or sampler=Picard(), which refines all "
        "steps to a tolerance and is not exact",
        stacklevel=5,
    )


def seeds(generator: Generators, number: int) -> list[int] | None:
    """A seed for each image, where each has a generator."""
    if not isinstance(generator, list):
        return None
    if len(generator) != number:
        raise InputError(f"generator is a list of {len(generator)} for {number} images; give one an image")
    return [seed_from(None, one) for one in generator]


def kept(home: dict[str, Any], chain: GaussianChain) -> GaussianChain:
    """The chain of the last call, if this one is the same but for its samples: its rounds may be captured already.
    It is kept at `home`, an object of ours."""
    last: GaussianChain | None = home.get("_last_chain")
    if last is None or not _same_chain(last, chain):
        home["_last_chain"] = chain
        return chain
    if not chain.condition and chain.start_state is None:
        return last
    start = None if chain.start_state is None else chain.start_state.view(-1, *chain.shape)
    return last.for_samples(condition=chain.condition or None, start=start)


def _same_chain(one: GaussianChain, other: GaussianChain) -> bool:
    """Whether two chains draw by the same steps of the same network."""
    here, there = one.denoiser, other.denoiser
    if not isinstance(here, Denoiser) or not isinstance(there, Denoiser):
        return False
    plain = [
        (c.shape, c.dtype, c.device, d.dtype, d.limit, d.guidance, d.told.form, d.told.passes, _networks(d))
        for c, d in ((one, here), (other, there))
    ]
    names = ("a", "b", "s", "c", "signal", "noise", "time")
    tables = [
        [table for name in names if (table := getattr(c.plan, name)) is not None] + [d.table, d.time]
        for c, d in ((one, here), (other, there))
    ]
    try:
        if plain[0] != plain[1] or len(tables[0]) != len(tables[1]):
            return False
    except RuntimeError:  # what a network is told holds tensors without rows, which have no one truth value
        return False
    return all(a.shape == b.shape and torch.equal(a, b) for a, b in zip(*tables, strict=True))


def _networks(denoiser: Denoiser) -> tuple[int, ...]:
    called = denoiser.network
    parts = (getattr(called, "network", called), getattr(called, "control", None))
    return tuple(map(id, parts))


@final
class Batch(Chain):
    """The images of one call: of a seed each, if `seeds` are given, and open to a look between rounds.

    Image i of a seed of its own is the first image of that seed.
    """

    def __init__(self, chain: GaussianChain, seeds: list[int] | None) -> None:
        self.chain, self.seeds = chain, seeds
        self.live: list[GaussianPaths] = []
        self.values = chain.empty(0)

    @property
    def steps(self) -> int:
        return self.chain.steps

    @property
    def model(self) -> GaussianChain:
        return self.chain

    @property
    def owner(self) -> Any:
        return self.chain.owner

    @property
    def device(self) -> torch.device:
        return self.chain.device

    @property
    def row_bytes(self) -> int:
        return self.chain.row_bytes

    @property
    def passes(self) -> int:
        return self.chain.passes

    def captured_parts(self) -> dict[str, Any]:
        return self.chain.captured_parts()

    def check(self, num_samples: int) -> None:
        self.chain.check(num_samples)

    def empty(self, num_samples: int) -> Tensor:
        self.values = self.chain.empty(num_samples)  # finished images are written into it
        return self.values

    def start(self, seed: int, samples: Tensor, tally: Tally) -> GaussianPaths:
        paths = self.chain.start(seed, samples, tally)
        if self.seeds is not None:
            alone = [self.chain.start(self.seeds[i], torch.tensor([0]), tally) for i in samples.tolist()]
            streams = Stream(torch.cat([one.stream.keys for one in alone]))
            x = torch.cat([one.x for one in alone]) if self.chain.start_state is None else paths.x
            paths = replace(paths, stream=streams, copies=streams, x=x)
        self.live.append(paths)
        return paths

    @property
    def position(self) -> Tensor:
        """How many steps each image has finished (batch,)."""
        position = torch.full((len(self.values),), self.steps)
        for paths in self.live:
            position[paths.sample] = paths.position
        return position

    @property
    def latents(self) -> Tensor:
        """The newest state of each image (batch, *shape)."""
        latents = self.values.to(self.chain.device, copy=True)
        for paths in self.live:
            latents[paths.sample.to(latents.device)] = paths.x.view(-1, *self.chain.shape).to(latents.dtype)
        return latents
