"""The loop of a pipeline, read by watching it.

A pipeline is called as it is, with stand-ins for its network and its scheduler. They let its loop run through all of
its timesteps on made-up states and outputs, which costs next to nothing, and note what the network is told, how its
outputs become one, and what becomes of the states. If all of that is the same at every step, the loop is a chain; at
its last step the chain is drawn and handed back, and the pipeline goes on with it: it decodes and finishes as ever.
Whatever else a loop does to states or outputs shows in the numbers, and is refused.
"""

from __future__ import annotations

import copy
import inspect
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor, nn

from drawahead.diffusers.schedulers.supply import Supplied, in_float64
from drawahead.errors import InputError

NETWORKS = ("unet", "transformer")
_MARKS = (2.0, 4.0)
"""What stands for the scheduler's own scaling of inputs, in turn: what follows it is scaled, too. They are powers of
two, so that no dtype rounds them."""
_NO_OPTIONS = ("generator", "return_dict")
_LARGE = 30.0


@final
class Made(tuple[Any, ...]):
    """What a stand-in answers, by whichever name it is asked for."""

    __slots__ = ()

    @property
    def sample(self) -> Any:
        return self[0]

    @property
    def prev_sample(self) -> Any:
        return self[0]


@final
@dataclass(frozen=True, eq=False)
class Call:
    """What a network was called with."""

    shown: Tensor
    time: Tensor
    told: dict[str, Any]


@final
@dataclass(frozen=True, eq=False)
class Step:
    """What happened in one step of the loop."""

    calls: list[Call]  # of the network
    controls: list[Call]  # of the ControlNet
    residuals: tuple[list[Tensor], Tensor] | None  # what that was made to answer
    outputs: Tensor  # what the network was made to answer (rows, ...), float64
    guided: Tensor  # what the scheduler was given for it
    given: Tensor  # the states the scheduler was given
    expected: Tensor | None  # those it had handed out before; None at the first step
    options: dict[str, Any]  # of the scheduler's step
    mark: float | None  # what states were multiplied with for the network; None if the scheduler was not asked for that
    real: tuple[Tensor, Tensor] | None  # noise, and the states that its own step leads to with it; of the first step


class Watch:
    """A pipeline under watch. `hear` is told every step of its loop; at the last one `draw` gives the final states.

    In the first step the scheduler does its own work, on answers that are made up.
    """

    def __init__(self, pipe: Any, hear: Callable[[Step], None], draw: Callable[[], Tensor]) -> None:
        self.pipe, self.hear, self.draw = pipe, hear, draw
        self.kind = type(pipe).__name__
        self.name = next((name for name in NETWORKS if getattr(pipe, name, None) is not None), "")
        if not self.name or getattr(pipe, "scheduler", None) is None:
            raise InputError(f"pipe must have a unet or a transformer and a scheduler, and {self.kind} has not")
        self.network: Any = getattr(pipe, self.name)
        self.control: nn.Module | None = getattr(pipe, "controlnet", None)
        self.scheduler = copy.deepcopy(pipe.scheduler)
        self.running = copy.copy(pipe)
        self.first = self.taken = 0  # the first timestep that is visited, and how many were
        self.done = False
        self._generator = torch.Generator().manual_seed(0)
        self._handed: Tensor | None = None
        self._clear()

    def _clear(self) -> None:
        self._calls: list[Call] = []
        self._controls: list[Call] = []
        self._residuals: tuple[list[Tensor], Tensor] | None = None
        self._outputs: Tensor | None = None
        self._mark: float | None = None

    def twin(self) -> Any:
        """The pipeline with its stand-ins. It shares everything else, and leaves the pipeline as it is."""
        parts: dict[str, Any] = {self.name: standing_in(self.network, self._network)}
        parts["scheduler"] = self._scheduler()
        if self.control is not None:
            parts["controlnet"] = standing_in(self.control, self._control)
        parts |= {"maybe_free_model_hooks": lambda: None, "_progress_bar_config": {"disable": True}}
        vars(self.running).update(parts)
        return self.running

    def _scheduler(self) -> Any:
        ready = self.scheduler

        def scale(sample: Tensor, *given: Any, **named: Any) -> Tensor:
            if self.taken:
                self._mark = _MARKS[self.taken % len(_MARKS)]
                return sample * self._mark
            one = torch.ones(1, dtype=torch.float64, device=sample.device)
            self._mark = float(in_float64(self._as_it_is()).scale_model_input(one, *given, **named))
            scaled: Tensor = self._as_it_is().scale_model_input(sample, *given, **named)
            return scaled

        ready.scale_model_input = scale
        step = self._step
        signature = inspect.signature(type(ready).step)
        parameters = list(signature.parameters.values())[1:]
        step.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        ready.step = step
        return ready

    @property
    def plain_scheduler(self) -> Any:
        """The scheduler with its timesteps set as the pipeline has set them, and nothing standing in."""
        plain = self._as_it_is()
        if hasattr(plain, "_step_index"):
            plain._step_index, plain._begin_index = None, None
        return plain

    def _as_it_is(self) -> Any:
        """A copy of the scheduler as it stands now, with nothing standing in."""
        plain = copy.deepcopy(self.scheduler)
        for name in ("scale_model_input", "step"):
            vars(plain).pop(name, None)
        return plain

    def _real(self, output: Tensor, timestep: Any, sample: Tensor, options: dict[str, Any]) -> tuple[Tensor, Tensor]:
        """Noise, and the states that the scheduler's own step leads to with it."""
        asked: list[tuple[int, ...]] = []

        def led_to(noise: Tensor) -> Tensor:
            asked.clear()
            with Supplied(lambda shape: asked.append(shape) or noise):  # type: ignore[func-returns-value]
                answer = in_float64(self._as_it_is()).step(output.double(), timestep, sample.double(), **options)
            after: Tensor = answer[0]
            return after

        noise = self._drawn(sample.shape).to(sample.device)
        after = led_to(noise)
        if len(asked) > 1:  # how they add up is not to be seen from one
            noise = torch.zeros_like(noise)
            after = led_to(noise)
        return noise, after

    def _network(self, *arguments: Any, **named: Any) -> Made:
        call = called(self.network, arguments, named)
        self._calls.append(call)
        channels = getattr(getattr(self.network, "config", None), "out_channels", None) or call.shown.shape[1]
        shape = (len(call.shown), channels, *call.shown.shape[2:])
        # Large numbers every other time: whatever bends only those would be missed otherwise.
        made = self._drawn(shape).to(call.shown.device) * (_LARGE if self.taken % 2 else 1.0)
        self._outputs = made if self._outputs is None else torch.cat([self._outputs, made])
        return Made((made,))

    def _control(self, *arguments: Any, **named: Any) -> Made:
        self._controls.append(called(self.control, arguments, named))
        rows = len(self._controls[-1].shown)
        self._residuals = [torch.zeros(rows, 1, 1, 1)], torch.zeros(rows, 1, 1, 1)
        return Made(self._residuals)

    @property
    def _step(self) -> Callable[..., Made]:
        def step(model_output: Tensor, timestep: Any, sample: Tensor, *rest: Any, **options: Any) -> Made:
            if rest or self._outputs is None:
                raise InputError(f"the loop of {self.kind} calls its scheduler in a way that is not known here")
            kept = {name: value for name, value in options.items() if name not in _NO_OPTIONS}
            real = None if self.taken else self._real(model_output, timestep, sample, kept)
            last = self._is_last(timestep)
            networks = self._calls, self._controls, self._residuals, self._outputs
            self.hear(Step(*networks, model_output, sample, self._handed, kept, self._mark, real))
            self._clear()
            self.done = last
            made = self._drawn(sample.shape) if real is None else real[1]
            self._handed = self.draw() if last else made.to(sample)
            return Made((self._handed,))

        return step

    def _is_last(self, timestep: Any) -> bool:
        time = self.scheduler.timesteps
        here = int((time == torch.as_tensor(timestep, device=time.device)).nonzero()[0, 0])
        self.first = self.first if self.taken else here
        if here != self.first + self.taken:
            raise InputError(f"the loop of {self.kind} does not visit its timesteps one after another")
        self.taken += 1
        return here + 1 == len(time)

    def _drawn(self, shape: Sequence[int]) -> Tensor:
        return torch.randn(tuple(shape), dtype=torch.float64, generator=self._generator)


def standing_in(module: nn.Module, forward: Callable[..., Any]) -> nn.Module:
    """A module that is in all the one given, but for what it answers; hooks are left out."""
    twin = copy.copy(module)
    for name in ("_forward_hooks", "_forward_pre_hooks"):
        twin.__dict__[name] = OrderedDict()
    twin.__dict__["forward"] = forward
    return twin


def called(module: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> Call:
    """The arguments of a network by name: the state comes first, the time is called timestep."""
    names = list(inspect.signature(type(module).forward).parameters)[1:]
    told = dict(zip(names, arguments, strict=False)) | named
    state, time = names[0], told.pop("timestep", None)
    shown = told.pop(state, None)
    if not isinstance(shown, Tensor) or time is None:
        raise InputError(f"{type(module).__name__} is called without a state or a timestep")
    return Call(shown, torch.as_tensor(time), told)
