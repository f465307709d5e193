"""A scheduler at work on numbers of ours: noise where it calls for it, float64 throughout, and what comes of it."""

from __future__ import annotations

import copy
import inspect
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from drawahead.diffusers.networks import learns_variance
from drawahead.errors import InputError

ENTRIES = (4, 1, 4, 4)  # of a trial, in rows of small numbers and of large ones, by turns
LARGE = 37.0  # the size of these
LEFT = 1e-8  # of a step, that need not be explained
_SAME = 1e-10  # of a column, that the ones before it do not hold

Options = Mapping[str, Any]


@final
class Supplied(TorchFunctionMode):
    """Within it torch draws no noise but what `supply` gives, and keeps float64 what is cast to less."""

    def __init__(self, supply: Callable[[tuple[int, ...]], Tensor]) -> None:
        super().__init__()
        self.supply = supply

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func is torch.randn:
            shape = kwargs.get("size", args[0] if args and not isinstance(args[0], int) else args)
            return self.supply(tuple(shape))
        if func is torch.randn_like:
            return self.supply(tuple(args[0].shape))
        if func is torch.Tensor.to and args[0].dtype == torch.float64:
            kwargs = {name: value for name, value in kwargs.items() if not _fewer_digits(value)}
            args = tuple(value for value in args if not _fewer_digits(value))
        elif func is torch.Tensor.float and args[0].dtype == torch.float64:
            return args[0]
        return func(*args, **kwargs)


def _fewer_digits(value: object) -> bool:
    return isinstance(value, torch.dtype) and value.is_floating_point and value != torch.float64


def in_float64(scheduler: Any) -> Any:
    """A scheduler with its tables in float64; they hold the numbers that they held."""
    for name, value in vars(scheduler).items():
        if isinstance(value, Tensor) and value.is_floating_point() and name != "timesteps":
            setattr(scheduler, name, value.double())
    return scheduler


def copied(scheduler: Any) -> Any:
    """A copy with its tables on the CPU."""
    scheduler = copy.deepcopy(scheduler)
    for name, value in vars(scheduler).items():
        if isinstance(value, Tensor):
            setattr(scheduler, name, value.cpu())
    return scheduler


def fresh(scheduler: Any, first: int = 0) -> Any:
    """A copy in float64, about to take step number `first`."""
    scheduler = in_float64(copied(scheduler))
    if first and hasattr(scheduler, "set_begin_index"):
        scheduler.set_begin_index(first)
    return scheduler


def check_functions(scheduler: Any) -> None:
    """Refuse functions that were put on the object, in place of its class's: they may refer to that very object."""
    if any(map(callable, vars(scheduler).values())):
        raise InputError(
            f"a function was put on the {type(scheduler).__name__} in place of its own, and copies are read, which "
            "need not share it: make it a method of a class derived from that"
        )


def levels_of(scheduler: Any, time: Tensor) -> tuple[Tensor, Tensor]:
    """Signal and noise, (N + 1,), of the scheduler's own forward process; all signal, where it has none."""
    scheduler = fresh(scheduler)
    for name in ("_begin_index", "_step_index"):  # where these are set, they decide how noisy a state is, not the time
        if hasattr(scheduler, name):
            setattr(scheduler, name, None)
    one, none = torch.ones(1, 1, 1, 1, dtype=torch.float64), torch.zeros(1, 1, 1, 1, dtype=torch.float64)

    def noised(data: Tensor, noise: Tensor, t: Tensor) -> float:
        if hasattr(scheduler, "add_noise"):
            return float(scheduler.add_noise(data, noise, t))
        return float(scheduler.scale_noise(data, t, noise) if hasattr(scheduler, "scale_noise") else data)

    rows = [[noised(one, none, t), noised(none, one, t)] for t in time[:, None]]
    signal, noise = torch.tensor([*rows, [1.0, 0.0]], dtype=torch.float64).T.contiguous()
    return signal, noise


@dataclass(frozen=True)
class Trials:
    """What went into N steps, and what came out: float64 of shape (N, *ENTRIES) but for the scale."""

    x: Tensor
    scale: Tensor  # what x is multiplied with before the network sees it (N,)
    output: Tensor  # with twice the channels, where a variance is read from it
    noises: list[Tensor]
    after: Tensor
    data: Tensor | None  # what the scheduler says it takes for a prediction of the data


def stepped(scheduler: Any, output: Tensor, k: int, x: Tensor, old: Tensor | None, options: Options) -> Any:
    """One call of `step`, as pipelines make it."""
    time = scheduler.timesteps
    if "old_pred_original_sample" in inspect.signature(scheduler.step).parameters:
        return scheduler.step(output, old, time[k], time[k - 1] if old is not None else None, x, **options)
    return scheduler.step(output, time[k], x, **options)


def tried(ready: Any, first: int, options: Options, large: float) -> Trials:
    """A scheduler whose timesteps are set, taken through them from number `first` on."""
    scheduler = fresh(ready, first)
    generator, learned = torch.Generator(), learns_variance(scheduler)
    kind, steps = type(scheduler).__name__, len(scheduler.timesteps)
    size = torch.tensor([1.0, large] * 2, dtype=torch.float64).view(-1, 1, 1, 1)

    def drawn() -> Tensor:
        return size * torch.randn(ENTRIES, dtype=torch.float64, generator=generator)

    def supply(shape: tuple[int, ...]) -> Tensor:
        if shape != ENTRIES:
            raise InputError(f"{kind} draws noise of another shape than the state's")
        with torch._C.DisableTorchFunction():
            noises.append(drawn())
        return noises[-1]

    told, noised, scales, old = list[tuple[Any, ...]](), list[list[Tensor]](), list[float](), None
    for k in range(first, steps):
        generator.manual_seed(k)  # so that a step is the same, wherever the first one is
        x, output = drawn(), drawn()
        if learned:
            x[2], output[2] = 0.0, 0.0
            output = torch.cat([output, torch.rand(ENTRIES, dtype=torch.float64, generator=generator)], dim=1)
        noises: list[Tensor] = []
        with Supplied(supply):
            time = scheduler.timesteps[k]
            shown = scheduler.scale_model_input(x.clone(), time) if hasattr(scheduler, "scale_model_input") else x
            answer = stepped(scheduler, output.clone(), k, x.clone(), old, options)
        old = _data(scheduler, answer)
        if not isinstance(answer[0], Tensor) or answer[0].shape != ENTRIES or not answer[0].is_floating_point():
            raise InputError(f"a step of {kind} does not lead from a state to a state")
        if not bool(answer[0].isfinite().all()):
            raise InputError(
                f"{kind} itself answers what is not finite at step {k} of {steps}, as where a timestep comes twice: "
                f"use another number of steps or another timestep_spacing{_said(scheduler, options)}"
            )
        scales.append(float((shown[0] / x[0]).flatten()[0]))
        if not torch.allclose(shown, scales[-1] * x, rtol=1e-9):
            raise InputError(f"scale_model_input of {kind} does not multiply the state by a number")
        told.append((x, output, answer[0], old))
        noised.append(noises)
    states, outputs, afters, data = zip(*told, strict=True)
    none = torch.zeros(ENTRIES, dtype=torch.float64)
    return Trials(
        torch.stack(states),
        torch.tensor(scales, dtype=torch.float64),
        torch.stack(outputs),
        [torch.stack(each) for each in itertools.zip_longest(*noised, fillvalue=none)],
        torch.stack(afters),
        None if any(each is None for each in data) else torch.stack(data),
    )


def _said(scheduler: Any, options: Options) -> str:
    """Other settings that may be why."""
    variance = getattr(scheduler.config, "variance_type", None)
    settings = ({} if variance is None else {"variance_type": variance}) | dict(options)
    return "".join(f", or another {name} than {value!r}" for name, value in settings.items())


def _data(scheduler: Any, answer: Any) -> Tensor | None:
    """What a step has taken for a prediction of the data, where it tells, or at least what it will look back at."""
    outputs = getattr(scheduler, "model_outputs", None)
    prediction = outputs[-1] if outputs else getattr(answer, "pred_original_sample", None)
    if prediction is None and isinstance(answer, tuple) and len(answer) > 1:
        prediction = answer[1]
    return prediction if isinstance(prediction, Tensor) and prediction.shape == ENTRIES else None


def least_squares(columns: list[Tensor], goal: Tensor) -> tuple[Tensor, Tensor]:
    """The coefficients (len(columns), N) of tensors (N, rows, ...), and whether they leave nothing over, in any row
    (N,). By Gram and Schmidt: what LAPACK answers changes in the last digit from call to call."""
    rows = goal.flatten(2).norm(dim=2)[..., None].clamp(min=1e-300)
    goal = (goal.flatten(2) / rows).flatten(1)
    table = [(column.flatten(2) / rows).flatten(1) for column in columns]
    width = torch.stack([column.norm(dim=1) for column in table]).clamp(min=1e-300)
    table = [column / size[:, None] for column, size in zip(table, width, strict=True)]
    basis = list[Tensor]()
    r = torch.zeros(len(table), len(table), len(goal), dtype=torch.float64)
    for j, column in enumerate(table):
        for i, direction in enumerate(basis):
            r[i, j] = (direction * column).sum(1)
            column = column - r[i, j, :, None] * direction
        r[j, j] = column.norm(dim=1)
        basis.append(torch.where(r[j, j] > _SAME, 1 / r[j, j], 0.0)[:, None] * column)
    share, left = torch.zeros_like(width), goal
    for _ in range(2):  # once more, for what rounding has left
        part = torch.zeros_like(width)
        along = list[Tensor]()
        for direction in basis:
            along.append((direction * left).sum(1))
            left = left - along[-1][:, None] * direction
        for i in reversed(range(len(basis))):
            part[i] = torch.where(r[i, i] > _SAME, (along[i] - (r[i, i + 1 :] * part[i + 1 :]).sum(0)) / r[i, i], 0.0)
        share = share + part
        left = goal - sum(size[:, None] * column for size, column in zip(share, table, strict=True))
    fits = (left.view(*rows.shape[:2], -1).norm(dim=2) <= LEFT).all(1)
    # A part of a step that is nothing but rounding is none.
    return torch.where(share.abs() > 1e-12 * share.abs().amax(0), share, 0.0) / width, fits
