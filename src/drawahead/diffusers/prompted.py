"""Any other pipeline of diffusers: with prompts, labels, images, guidance and latents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self, final

import torch
from torch import Tensor

from drawahead.diffusers.batch import Asked, Callback, kept
from drawahead.diffusers.loops.reading import read
from drawahead.diffusers.loops.watching import LoopWatch
from drawahead.diffusers.networks import drops_out, remembering
from drawahead.diffusers.schedulers.reading import Recipes
from drawahead.diffusers.schedulers.stochastic import in_place_of
from drawahead.diffusers.schedulers.supply import check_functions
from drawahead.errors import DrawaheadError, InputError
from drawahead.report import Report
from drawahead.sample import Result
from drawahead.samplers import Sampler
from drawahead.samplers.record import as_sampler


@final
class PromptedPipeline:
    """A pipeline whose loop is drawn in parallel rounds, and which is otherwise itself.

    It is called with the pipeline's own arguments, and everything but the loop is the pipeline's own work: prompts are
    encoded, first latents drawn, final ones decoded and checked as ever. What it returns has a `report` beside.
    Attributes are the pipeline's: `pipe.scheduler = ...` or `pipe.load_lora_weights(...)` do what they did.
    """

    pipe: Any

    def __init__(self, pipe: Any, rows: Sequence[str] = (), stochastic: bool = False) -> None:
        """`rows` and `stochastic` as in `DrawaheadPipeline.from_pipe`."""
        if isinstance(rows, str):
            raise InputError(f"rows must be names of arguments, such as ({rows!r},)")
        vars(self).update(pipe=pipe, _rows=tuple(rows), _stochastic=stochastic, _recipes=Recipes())
        LoopWatch(pipe, lambda: torch.empty(0))  # says what is missing

    def __getattr__(self, name: str) -> Any:
        return getattr(object.__getattribute__(self, "pipe"), name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.pipe, name, value)

    def to(self, *arguments: Any, **named: Any) -> Self:
        """Move the pipeline, as its own `to` does, and go on with this one."""
        self.pipe.to(*arguments, **named)
        return self

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
        compile: bool = False,  # noqa: A002
        **named: Any,
    ) -> Any:
        """Call the pipeline, its loop drawn by `sampler` (`Auto()` by default).

        callback_on_step_end: called after each round that brought the slowest image further, as in `DrawaheadPipeline`.
        max_batch_size: the most states a round asks about at a time; with guidance the network is given twice as many.
        compile: put the network through `torch.compile`: the first call takes longer, later ones less time.
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
        results = list[Result]()

        scheduler, note = in_place_of(self.pipe.scheduler, self._recipes) if self._stochastic else (None, "")

        def draw() -> Tensor:
            chain, loop = read(watch, self._rows, self._recipes)
            watch.drawing = True
            results.append(asked.draw(self.pipe, *kept(vars(self), chain, compile), loop.layout.images))
            return loop.layout.joined(results[-1].samples.to(watch.moments[0].state))

        generators = generator if isinstance(generator, list) else [generator]
        before = [one.get_state() for one in generators if isinstance(one, torch.Generator)]
        watch = LoopWatch(self.pipe, draw, scheduler)
        try:
            output = watch.call(arguments, named | {"return_dict": return_dict})
            if not watch.done and watch.taken:  # it ends before the last timestep: now that is known
                for one, state in zip(generators, before, strict=False):
                    one.set_state(state)
                watch = LoopWatch(self.pipe, draw, scheduler, watch.taken)
                output = watch.call(arguments, named | {"return_dict": return_dict})
        except DrawaheadError:
            raise
        except Exception as error:  # any: it is the pipeline's
            if watch.drawing:  # its arguments are not at fault
                raise
            said = str(error).strip() or type(error).__name__
            raise InputError(f"{watch.kind} cannot be called like this: {said}") from error
        self.pipe.maybe_free_model_hooks()
        if not watch.done:
            inner = [name for name, part in vars(self.pipe).items() if hasattr(part, "components")]
            remedy = f": it is made of other pipelines ({', '.join(inner)}), so give from_pipe those" if inner else ""
            raise InputError(f"{watch.kind} does not step its scheduler with these arguments{remedy}")
        report: Report = results[-1].report
        report = replace(report, choice="; ".join(filter(None, (report.choice, note))))
        if not return_dict:
            return (*(output.to_tuple() if hasattr(output, "to_tuple") else output), report)
        output.report = report
        return output


def _check(pipe: Any, named: dict[str, Any]) -> None:
    if named.get("callback") is not None:
        raise InputError("callback= sees every step, and steps finish in bunches: give callback_on_step_end=")
    check_functions(pipe.scheduler)
    for name, part in pipe.components.items():
        if isinstance(part, torch.nn.Module) and (memory := remembering(part)):
            raise InputError(
                f"{name} of {type(pipe).__name__} keeps what it computed from one step to the next ({memory}), which "
                f"changes its answers: remove it, as pipe.{name}.disable_cache() does"
            )
        if isinstance(part, torch.nn.Module) and part.training and drops_out(part):
            raise InputError(f"{name} is in training mode with dropout, so its answers are random; call .eval() first")
