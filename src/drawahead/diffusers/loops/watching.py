"""The loop of a pipeline, read by watching it.

A pipeline is called as it is, with stand-ins for its networks and its scheduler. In the first step the networks answer
themselves; in all others their answers and the states are made up, which costs next to nothing. What is done with the
states is recorded, operation by operation: on the way to the networks, from their answers to the scheduler, and from
one step to the next. If all steps do the same, but for numbers that belong to a step, the loop is a chain; at its last
step the chain is drawn and handed back, and the pipeline goes on with it: it decodes and finishes as ever.
"""

from __future__ import annotations

import copy
import functools
import inspect
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from drawahead.diffusers.loops.body import TapeSteps
from drawahead.diffusers.loops.comparing import close, equal
from drawahead.diffusers.loops.recording import Recorder, paused
from drawahead.diffusers.loops.tape import Split, Tape, common, split
from drawahead.diffusers.schedulers.reading import Recipes
from drawahead.diffusers.schedulers.stochastic import advice
from drawahead.diffusers.schedulers.supply import Supplied, copied, in_float64, stepped
from drawahead.errors import DrawaheadError, InputError

_NO_OPTIONS = ("generator", "return_dict", "old_pred_original_sample", "timestep_back")
_LARGE = 30.0


@final
class Made(tuple[Any, ...]):
    """What a stand-in for a scheduler's step answers, by whichever name it is asked for."""

    @property
    def prev_sample(self) -> Any:
        return self[0]


@final
@dataclass(frozen=True, eq=False)
class Moment:
    """A step of the loop that the chain is compared with."""

    k: int
    state: Tensor
    body: Tape
    noise: Tensor
    after: Tensor  # where the scheduler's own step leads with that noise

    @property
    def answers(self) -> list[list[Any]]:
        """What the networks answered, call by call."""
        return [
            [None if number is None else self.body.values[number] for number in node.results]
            for node in self.body.nodes
            if node.calls
        ]


class LoopWatch:
    """A pipeline under watch; at the last step of its loop `draw` gives the final states."""

    def __init__(self, pipe: Any, draw: Callable[[], Tensor], scheduler: Any = None, number: int | None = None) -> None:
        """`scheduler` is in place of its own; `number` is that of its steps, where they do not go through all
        timesteps."""
        self.pipe, self.draw, self.number = pipe, draw, number
        self.kind = type(pipe).__name__
        self.networks = {
            name: inner_module(part) for name, part in pipe.components.items() if isinstance(part, nn.Module)
        }
        if not self.networks or getattr(pipe, "scheduler", None) is None:
            raise InputError(f"pipe must have a network and a scheduler, and {self.kind} has not")
        self.scheduler = copy.deepcopy(scheduler or pipe.scheduler)
        self.recorder = Recorder()
        self.first = self.taken = 0  # the first timestep that is visited, and how many were
        self.done = False
        self.drawing = False  # set once its loop was read
        self.options: dict[str, Any] = {}
        self.moments: list[Moment] = []
        self._steps: TapeSteps | None = None
        self._cut = 0
        self._start: tuple[list[Any], list[Tensor], Tensor, Tensor] | None = None
        self._exact: Any = None  # the scheduler, in float64, doing its own work
        self._old: Any = None
        self._handed: Tensor | None = None
        self._answers: dict[int, list[Any]] = {}  # what each network answered in the first step
        self._asked: dict[int, int] = {}  # how often in this one
        self._generator = torch.Generator().manual_seed(0)

    def call(self, arguments: Sequence[Any], named: dict[str, Any]) -> Any:
        """Call the pipeline. It shares everything with its stand-ins, and is left as it is."""
        running = copy.copy(self.pipe)
        parts: dict[str, Any] = {name: self._standing_in(network) for name, network in self.networks.items()}
        parts["scheduler"] = self._scheduler()
        parts |= {"maybe_free_model_hooks": lambda: None, "_progress_bar_config": {"disable": True}}
        vars(running).update(parts)
        with self.recorder.recording():
            return running(*arguments, **named)

    @property
    def steps(self) -> TapeSteps:
        """What all steps do."""
        if self._steps is None:  # there is but one
            assert self._start is not None
            entries, targets, noise, after = self._start
            tape = Tape(entries, targets[0], targets)
            self._check_depends(tape)
            self._steps = TapeSteps(self.kind, tape, None)
            self.moments = [Moment(0, targets[0], tape, noise, after)]
        return self._steps

    @property
    def plain_scheduler(self) -> Any:
        """The scheduler with its timesteps set as the pipeline has set them, and nothing standing in."""
        plain = self._copied()
        if hasattr(plain, "_step_index"):
            plain._step_index, plain._begin_index = None, None
        return plain

    def _copied(self) -> Any:
        plain = copy.deepcopy(self.scheduler)
        vars(plain).pop("step", None)
        return plain

    def _standing_in(self, network: nn.Module) -> nn.Module:
        @functools.wraps(network.forward)  # some look at what it takes
        def forward(*arguments: Any, **named: Any) -> Any:
            leaves, spec = pytree.tree_flatten((arguments, named))
            with paused():
                number, known = self._asked.get(id(network), 0), self._answers.setdefault(id(network), [])
                live = not self.taken or any(map(self.recorder.depends, leaves))
                self._asked[id(network)] = number + live
                if not live or number >= len(known):
                    result = network(*arguments, **named)
                    known += [result] if live else []
                else:
                    result = self._made_up(known[number])
            self.recorder.note(network, leaves, spec, pytree.tree_leaves(result))
            return result

        twin = copy.copy(network)
        for name in ("_forward_hooks", "_forward_pre_hooks"):
            twin.__dict__[name] = OrderedDict()
        twin.__dict__["forward"] = forward
        return twin

    def _made_up(self, answer: Any) -> Any:
        """An answer like one that was given before. Large numbers every other time: whatever bends only those would be
        missed otherwise."""
        size = _LARGE if self.taken % 2 else 1.0

        return pytree.tree_map_only(Tensor, lambda value: (size * self._drawn(value.shape)).to(value), answer)

    def _scheduler(self) -> Any:
        signature = inspect.signature(type(self.scheduler).step)
        signature = signature.replace(parameters=list(signature.parameters.values())[1:])

        def step(*arguments: Any, **named: Any) -> Made:
            try:
                given = signature.bind(*arguments, **named).arguments
                sample, output, timestep = (given.pop(name) for name in ("sample", "model_output", "timestep"))
            except (TypeError, KeyError) as error:
                raise InputError(f"{self.kind} calls its scheduler in a way that is not understood: {error}") from error
            options = {name: value for name, value in given.items() if name not in _NO_OPTIONS}
            options |= options.pop("kwargs", {})
            with paused():
                self._check(sample, options)
                try:
                    return self._step(sample, output, timestep, options)
                except DrawaheadError:
                    raise
                except Exception as error:  # any: of the scheduler, or of an operation that cannot be done for many
                    if self.drawing:
                        raise
                    Recipes().prepared(copied(self.plain_scheduler), options, self.first)  # which may say more
                    raise InputError(
                        f"the loop of {self.kind} cannot be sampled ahead: {type(error).__name__}: "
                        f"{str(error).strip().partition(chr(10))[0]}"
                    ) from error

        step.__signature__ = signature  # type: ignore[attr-defined]
        self.scheduler.step = step
        return self.scheduler

    def _step(self, sample: Tensor, output: Tensor, timestep: Any, options: dict[str, Any]) -> Made:
        self.options = options
        last = self._is_last(timestep)
        noise, after = self._real(output, sample)
        self._hear([sample, output], noise, after, last)
        self.taken += 1
        self._asked = {}
        self.done = last
        if last:
            self.recorder.unhook()
            drawn = self.draw()
            # Some finish with the data that the last step has predicted, where that is what it leads to.
            return Made((drawn, drawn if isinstance(self._old, Tensor) and close(self._old, after) else self._old))
        self._handed = self._drawn(sample.shape).to(sample)
        self.recorder.follow(self._handed)
        return Made((self._handed, self._old))

    def _hear(self, targets: list[Tensor], noise: Tensor, after: Tensor, last: bool) -> None:
        entries, state = self.recorder.entries, self._handed
        if state is None:
            self._start = entries, targets, noise, after
            return
        if self._steps is None:
            assert self._start is not None
            whole = Tape(entries, state, targets)
            self._check_depends(whole)
            self._cut, body = common(self.kind, *self._start[:2], whole, entries, targets)
            step = split(entries, state, targets, self._cut)
            self._steps = TapeSteps(self.kind, body, step)
            self.moments = [Moment(0, body.values[0], body, *self._start[2:])]
            self._start = None
        else:
            step = self._split(entries, state, targets)
            self._steps.add(step)
        if len(self.moments) < 2 or last:
            self.moments.append(Moment(self.taken, state, step.body, noise, after))

    def _split(self, entries: list[Any], state: Tensor, targets: list[Tensor]) -> Split:
        whole = Tape(entries, state, targets)
        self._check_depends(whole)
        if self._cut >= len(whole.values):
            raise InputError(f"the loop of {self.kind} does other things in a later step than in the first ones")
        return split(entries, state, targets, self._cut)

    def _check_depends(self, tape: Tape) -> None:
        if tape.missing or not any(node.calls for node in tape.nodes):
            raise InputError(
                f"the loop of {self.kind} does not hand its scheduler the answer of a network to its latents, as "
                "far as can be seen, so its steps cannot be sampled ahead"
            )

    def _check(self, sample: Tensor, options: dict[str, Any]) -> None:
        if not sample.is_floating_point():
            raise InputError(
                f"{self.kind} draws tokens, and this draws steps with Gaussian noise: for networks that fill in tokens "
                "see da.adapters.MaskedLM and da.adapters.PermutationLM"
            )
        if self.recorder.fault:
            raise InputError(f"the loop of {self.kind} {self.recorder.fault}, so its steps cannot be sampled ahead")
        if self.taken and not equal(options, self.options):
            raise InputError(f"the loop of {self.kind} changes the options of its scheduler's step on the way")

    def _real(self, output: Tensor, sample: Tensor) -> tuple[Tensor, Tensor]:
        """Noise, and the states that the scheduler's own step leads to with it."""
        self._exact = in_float64(self._exact or self._copied())
        asked: list[tuple[int, ...]] = []
        noise = self._drawn(sample.shape).to(sample.device)

        def led_to(scheduler: Any, noise: Tensor) -> Any:
            asked.clear()
            with Supplied(lambda shape: asked.append(shape) or noise):  # type: ignore[func-returns-value]
                k = self.first + self.taken
                return stepped(scheduler, output.double(), k, sample.double(), self._old, self.options)

        before = copy.deepcopy(self._exact) if not self.taken else None
        answer = led_to(self._exact, noise)
        if len(asked) > 1 and before is not None:  # how they add up is not to be seen from one
            noise = torch.zeros_like(noise)
            answer = led_to(before, noise)
        if hasattr(self._exact, "_step_index"):
            self.scheduler._step_index = self._exact._step_index
        self._old = answer[1] if len(answer) > 1 else None
        return noise, answer[0]

    def _is_last(self, timestep: Any) -> bool:
        time = self.scheduler.timesteps
        here = int((time == torch.as_tensor(timestep, device=time.device)).nonzero()[0, 0])
        self.first = self.first if self.taken else here
        if here != self.first + self.taken:
            raise InputError(
                f"{type(self.scheduler).__name__} does not take one step for each timestep in {self.kind}, as those "
                f"with noise do: {advice(self._copied())}"
            )
        return here + 1 == len(time) if self.number is None else self.taken + 1 == self.number

    def _drawn(self, shape: Sequence[int]) -> Tensor:
        return torch.randn(tuple(shape), dtype=torch.float64, generator=self._generator)


def inner_module(module: nn.Module) -> nn.Module:
    """What torch.compile has wrapped; a module that it has not, as it is."""
    inner = vars(module).get("_modules", {}).get("_orig_mod")
    return inner if isinstance(inner, nn.Module) else module
