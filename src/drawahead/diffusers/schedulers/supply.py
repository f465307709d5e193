"""A scheduler at work on numbers of ours: noise where it calls for it, and float64 throughout."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, final

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from drawahead.errors import InputError


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


@contextmanager
def lent(scheduler: Any) -> Iterator[Any]:
    """A scheduler to work with, its tables on the CPU; the one given is the same afterwards.

    It is a copy. But a function that was put on the object itself may refer to that very object, which a copy is not:
    then it is the object, and is put back as it was.
    """
    own = has_functions(scheduler)
    working, before = (scheduler, _state(scheduler)) if own else (copy.deepcopy(scheduler), {})
    try:
        for name, value in vars(working).items():
            if isinstance(value, Tensor):
                setattr(working, name, value.cpu())
        yield working
    finally:
        if own:
            _put(scheduler, before)


def again(scheduler: Any) -> Callable[[], Any]:
    """Gives schedulers that are as this one is now, one after another: copies, or itself, as in `lent`."""
    if not has_functions(scheduler):
        return lambda: copy.deepcopy(scheduler)
    before = _state(scheduler)

    def same() -> Any:
        _put(scheduler, copy.deepcopy(before))
        return scheduler

    return same


def has_functions(scheduler: Any) -> bool:
    """Whether functions were put on the object, in place of its class's."""
    return any(map(callable, vars(scheduler).values()))


def _state(scheduler: Any) -> dict[str, Any]:
    return {name: copy.deepcopy(value) for name, value in vars(scheduler).items() if not callable(value)}


def _put(scheduler: Any, state: dict[str, Any]) -> None:
    for name in [name for name, value in vars(scheduler).items() if name not in state and not callable(value)]:
        delattr(scheduler, name)
    vars(scheduler).update(state)


def levels_of(scheduler: Any, time: Tensor) -> tuple[Tensor, Tensor]:
    """Signal and noise, (N + 1,), of the scheduler's own forward process; all signal, where it has none."""
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


def scales_of(scheduler: Any, steps: Sequence[int]) -> Tensor:
    """What a state is multiplied with at these steps before the network sees it (len(steps),)."""
    if not hasattr(scheduler, "scale_model_input"):
        return torch.ones(len(steps), dtype=torch.float64)
    scheduler, scales = in_float64(scheduler), []
    x = torch.linspace(-2.0, 3.0, 4, dtype=torch.float64).view(1, 1, 2, 2)
    for k in steps:
        if hasattr(scheduler, "_step_index"):
            scheduler._step_index = k
        shown = scheduler.scale_model_input(x.clone(), scheduler.timesteps[k])
        scales.append(float(shown.flatten()[0]) / -2.0)
        if not torch.allclose(shown, scales[-1] * x, rtol=1e-9):
            kind = type(scheduler).__name__
            raise InputError(f"scale_model_input of {kind} does not multiply the state by a number")
    return torch.tensor(scales, dtype=torch.float64)
