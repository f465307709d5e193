"""Any other pipeline of diffusers: with prompts, labels, images, guidance and latents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, final

import torch
from torch import Tensor

from drawahead.chains.gaussian import GaussianChain
from drawahead.diffusers.batch import Asked, Callback, kept
from drawahead.diffusers.denoiser import Denoiser
from drawahead.diffusers.loops.loop import Reader
from drawahead.diffusers.loops.reading import Loop
from drawahead.diffusers.loops.replay import check_replay
from drawahead.diffusers.loops.watching import NETWORKS, Watch
from drawahead.diffusers.networks import drops_out
from drawahead.diffusers.schedulers.reading import prepared
from drawahead.diffusers.schedulers.recipe import Conversion
from drawahead.diffusers.schedulers.supply import has_functions, lent
from drawahead.errors import DrawaheadError, InputError
from drawahead.report import Report
from drawahead.sample import Result
from drawahead.samplers import Sampler
from drawahead.samplers.record import as_sampler
from drawahead.schedules import Given


@final
class PromptedPipeline:
    """A pipeline whose loop is drawn in parallel rounds, and which is otherwise itself.

    It is called with the pipeline's own arguments, and everything but the loop is the pipeline's own work: prompts are
    encoded, first latents drawn, final ones decoded and checked as ever. What it returns has a `report` beside.
    Attributes are the pipeline's: `pipe.scheduler = ...` or `pipe.load_lora_weights(...)` do what they did.
    """

    pipe: Any

    def __init__(self, pipe: Any) -> None:
        object.__setattr__(self, "pipe", pipe)
        Watch(pipe, lambda step: None, lambda: torch.empty(0))  # says what is missing

    def __getattr__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "pipe"), name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.pipe, name, value)

    def __repr__(self) -> str:
        return f"PromptedPipeline({type(self.pipe).__name__})"

    @torch.no_grad()
    def __call__(
        self,
        *arguments: Any,
        callback_on_step_end: Callback | None = None,
        callback_on_step_end_tensor_inputs: Sequence[str] = ("latents",),
        return_dict: bool = True,
        sampler: Sampler | str | None = None,
        max_batch_size: int | None = None,
        **named: Any,
    ) -> Any:
        """Call the pipeline, its loop drawn by `sampler` (`Auto()` by default).

        callback_on_step_end: called after each round that brought the slowest image further, as in `DrawaheadPipeline`.
        max_batch_size: the most states a round asks about at a time; with guidance the network is given twice as many.
        return_dict: False returns a tuple, the report last.
        """
        _check(self.pipe, named)
        generator = named.get("generator")
        asked = Asked(
            generator,
            as_sampler(sampler),
            max_batch_size,
            callback_on_step_end,
            tuple(callback_on_step_end_tensor_inputs),
        )
        reader, results = Reader(), list[Result]()

        def draw() -> Tensor:
            loop = reader.loop(watch)
            chain = _chain(watch, loop)
            check_replay(watch.kind, chain, reader.first)
            results.append(asked.draw(self.pipe, *kept(vars(self), chain), len(loop.start)))
            return torch.cat([results[-1].samples.to(loop.start)] * loop.copies)

        watch = Watch(self.pipe, lambda step: reader.hear(watch, step), draw)
        try:
            output = watch.twin()(*arguments, return_dict=return_dict, **named)
        except (TypeError, ValueError, ZeroDivisionError) as error:
            if results or isinstance(error, DrawaheadError):  # not its arguments are at fault, or that is said already
                raise
            raise InputError(f"{watch.kind} cannot be called like this: {error}") from error
        self.pipe.maybe_free_model_hooks()
        if not watch.done:
            raise InputError(f"the loop of {watch.kind} ends before its last timestep (denoising_end?): leave that out")
        report: Report = results[-1].report
        if not return_dict:
            return (*output, report)
        output.report = report
        return output


def _check(pipe: Any, named: dict[str, Any]) -> None:
    if named.get("callback") is not None:
        raise InputError("callback= sees every step, and steps finish in bunches: give callback_on_step_end=")
    if has_functions(pipe.scheduler):
        raise InputError(
            f"a function was put on the {type(pipe.scheduler).__name__} of this pipeline in place of its own, and "
            "copies are read, which need not share it: make it a method of a class derived from that"
        )
    for name in (*NETWORKS, "controlnet"):
        part = getattr(pipe, name, None)
        if isinstance(part, torch.nn.Module) and part.training and drops_out(part):
            raise InputError(f"{name} is in training mode with dropout, so its answers are random; call .eval() first")


def _chain(watch: Watch, loop: Loop) -> GaussianChain:
    """The chain that a loop is."""
    with lent(watch.plain_scheduler) as scheduler:
        recipe = prepared(scheduler, loop.options, loop.first)
    scale = recipe.conversion.scale
    if not loop.scales or loop.steps_scaled:
        if loop.steps_scaled and not bool((scale == 1).all()):
            raise InputError(
                f"{watch.kind} lets {type(scheduler).__name__} step from states that are scaled for the network, which "
                "spoils them: use a scheduler that does not scale, such as DDPM or DDIM"
            )
        conversion = Conversion(torch.ones_like(scale), recipe.conversion.skip, recipe.conversion.out)
        recipe = replace(recipe, conversion=conversion)
    dtype, device = loop.start.dtype, loop.start.device
    denoiser = Denoiser(
        *(loop.network, recipe, loop.told, loop.guidance, watch.network.dtype, device, loop.time),
        scales_beside=loop.scales_beside,
    )
    return GaussianChain(
        denoiser,
        Given(recipe.plan),
        loop.start.shape[1:],
        start=loop.start,
        dtype=torch.promote_types(dtype, torch.float32),
        device=device,
        condition=loop.rows or None,
    )
