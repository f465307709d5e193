"""The images of one call of a pipeline, drawn together: their seeds, a progress bar, a callback."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import torch
from torch import Tensor

from drawahead.chains.affine import AffinePaths
from drawahead.chains.base import Chain, Tally
from drawahead.chains.gaussian import GaussianChain
from drawahead.diffusers.loops.comparing import equal
from drawahead.diffusers.schedulers.stochastic import advice
from drawahead.errors import InputError
from drawahead.oracles.compiled import Compiled
from drawahead.randomness import Stream, seed_from
from drawahead.report import Report
from drawahead.rounds.run import Result
from drawahead.runner import Runner
from drawahead.samplers import Auto, Picard, Sampler, Sequential

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
        if unknown := set(self.callback_inputs) - {"latents"}:
            raise InputError(f"callback_on_step_end_tensor_inputs may name 'latents' only, not {unknown}")

    def draw(self, pipe: Any, runner: Runner, chain: GaussianChain, number: int) -> Result:
        """The images of a chain, by the pipeline's runner and with its progress bar."""
        sampler = self.sampler or Auto()
        if chain.steps > 1 and not bool(chain.plan.s.any()) and not isinstance(sampler, Sequential | Picard):
            _warn(pipe)
        if isinstance(self.generator, list):  # all their seeds tell this call's noise from that of any other
            own = seeds(self.generator, number)
            seed = functools.reduce(_mixed, own, number)
        else:
            own, seed = None, seed_from(None, self.generator)
        batch = Batch(chain, seed, own)
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

            graphs = None if self.callback is None else False  # captured rounds cannot be looked into
            mine = runner.using(chain=batch, sampler=sampler, graphs=graphs, max_batch_size=self.max_batch_size)
            return mine.sample(number, seed=seed, max_live=number, on_round=look)


def _warn(pipe: Any) -> None:
    """At the line of the user's call, however many functions of ours are in between."""
    warnings.warn(
        "no step of this scheduler is random (DDIM with eta=0, or an ODE solver), so there is nothing to sample ahead "
        f"and every round takes one step: {advice(pipe.scheduler)}; or give sampler=Picard(), which refines all steps "
        "to a tolerance and is not exact",
        stacklevel=5,
    )


def seeds(generator: list[torch.Generator], number: int) -> list[int]:
    """A seed for each image."""
    if len(generator) != number:
        raise InputError(f"generator is a list of {len(generator)} for {number} images; give one an image")
    return [seed_from(None, one) for one in generator]


def _mixed(one: int, other: int) -> int:
    """A seed of two, which depends on their order."""
    return (6364136223846793005 * one + other) % 2**63


def kept(
    home: dict[str, Any],
    chain: GaussianChain,
    compile: bool = False,  # noqa: A002
) -> tuple[Runner, GaussianChain]:
    """The runner of the last call, with this call's chain, if that is the same but for its samples; or another one. It
    is kept at `home`, an object of ours."""
    runner: Runner | None = home.get("_runner")
    last = None if runner is None else runner.chain
    if (
        runner is None
        or not isinstance(last, GaussianChain)
        or isinstance(last.denoiser, Compiled) != compile
        or not equal(_deciding(last), _deciding(chain))
    ):
        chain = chain.compiled() if compile else chain
        home["_runner"] = Runner(chain)
        return home["_runner"], chain
    if all(not each.condition and each.start_state is None for each in (last, chain)):
        return runner, last
    return runner, last.for_samples(condition=chain.condition or None, start=chain.start_state)


_OF_SAMPLES = ("condition", "start_state")


def _deciding(chain: GaussianChain) -> dict[str, Any]:
    """All that decides how a chain draws, but for what each sample has of its own."""
    own = {name: value for name, value in vars(chain).items() if name not in _OF_SAMPLES}
    denoiser = chain.denoiser
    return own | {"denoiser": denoiser.function if isinstance(denoiser, Compiled) else denoiser}


@final
class Batch(Chain):
    """The images of one call: of a seed each, if `seeds` are given, and open to a look between rounds.

    Image i of a seed of its own is the first image of that seed. Whatever is drawn with another `seed` than the call's,
    as rounds that are timed are, has noise of its own and is not looked at.
    """

    def __init__(self, chain: GaussianChain, seed: int, seeds: list[int] | None) -> None:
        self.chain, self.seed, self.seeds = chain, seed, seeds
        self.live: list[AffinePaths] = []
        self.values = chain.empty(0)

    @property
    def steps(self) -> int:
        return self.chain.steps

    @property
    def model(self) -> GaussianChain:
        return self.chain

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

    def start(self, seed: int, samples: Tensor, tally: Tally) -> AffinePaths:
        paths = self.chain.start(seed, samples, tally)
        if seed != self.seed:
            return paths
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
