"""Models through `torch.compile`.

On a GPU the weights of convolutions are laid out with channels last, as cuDNN wants them: their values stay, and are
not turned around again in every call, which takes a third of a policy's round and a quarter of an image's.

What a compiled model answers differs from what it answers as it is by rounding: that is part of the model's numerics,
like the batch it is asked in. Drafts and targets both come from the compiled one, so samples are exact for it.
"""

from __future__ import annotations

import time
import types
from collections.abc import Callable, Iterator
from typing import Any, final

import torch
from torch import Tensor, nn

from drawahead.oracles.tokens import ForwardingOracle, TokenOracle

_PLANAR = (nn.Conv2d, nn.ConvTranspose2d)
_SIZES = 6  # of batches for each of which a network is compiled by itself; dynamo calls it as it is after eight


@final
class Compiled:
    """A function of a model, compiled when it is first called. Where that fails it is called as it is."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.seconds = 0.0
        """What compiling took so far."""
        self.trouble = ""
        """Why it is not compiled."""
        self._called = False
        self._sizes: set[tuple[int, ...]] = set()
        on_gpu = [module for module in networks(function, set()) if any(w.is_cuda for w in module.parameters())]
        for module in on_gpu:
            lay_out(module)
        self._planar = any(isinstance(part, _PLANAR) for module in on_gpu for part in module.modules())
        """Whether there are convolutions over a plane. For batches of any size the compiler does not choose their
        layout, and turns every answer around: the image's network then takes hardly less time than as it is."""
        self._fast = torch.compile(_alone(function))
        self._fixed = torch.compile(_alone(function), dynamic=False) if self._planar else self._fast

    def captured_parts(self) -> dict[str, Any]:
        return {"function": self.function}

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        if not self._called:  # a model that keeps what its first call works out would be compiled again for the second
            self.function(*arguments, **options)
            self._called = True
        if self.trouble:
            return self.function(*arguments, **options)
        import torch._dynamo as dynamo

        tables = [table for table in (*arguments, *options.values()) if isinstance(table, Tensor) and table.dim()]
        size = tuple(map(len, tables))
        fixed = self._planar and (size in self._sizes or len(self._sizes) < _SIZES)
        if fixed:
            self._sizes.add(size)
        for table in tables:
            if not fixed and len(table) > 1:
                dynamo.maybe_mark_dynamic(table, 0)  # rounds differ in how much they ask: compile for all of them
        graphs, began = dynamo.utils.counters["stats"]["unique_graphs"], time.perf_counter()
        try:
            answer = (self._fixed if fixed else self._fast)(*arguments, **options)
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # any: the model may be at fault, too, and will then say so itself
            self.trouble = " ".join([f"{type(error).__name__}:", *str(error).split()])[:200]
            return self.function(*arguments, **options)
        if dynamo.utils.counters["stats"]["unique_graphs"] > graphs:
            self.seconds += time.perf_counter() - began
        return answer


@final
class CompiledOracle(ForwardingOracle):
    """An oracle whose answers are compiled."""

    def __init__(self, oracle: TokenOracle, shared: dict[str, Compiled] | None = None) -> None:
        super().__init__(oracle)
        self.shared = {} if shared is None else shared
        """By method; an oracle that is told a condition shares them with the one that was not."""

    def captured_parts(self) -> dict[str, Any]:
        return {"oracle": self.oracle}

    @property
    def note(self) -> str:
        return described(list(self.shared.values()))

    def conditioned(self, **rows: Tensor) -> CompiledOracle:
        return CompiledOracle(self.oracle.conditioned(**rows), self.shared)

    def forward(self, door: str, *arguments: Any) -> Tensor:
        if door not in self.shared:
            self.shared[door] = Compiled(lambda oracle, *arguments: getattr(oracle, door)(*arguments))
        rows: Tensor = self.shared[door](self.oracle, *arguments)
        return rows


def networks(part: Any, met: set[int]) -> Iterator[nn.Module]:
    """The networks that a function is, holds or closes over, but for those in what was met before."""
    if id(part) in met:
        return
    met.add(id(part))
    if isinstance(part, nn.Module):
        yield part
        return
    cells = (cell for cell in getattr(part, "__closure__", None) or () if cell != types.CellType())
    held = [getattr(part, "__self__", None), getattr(part, "func", None), *(cell.cell_contents for cell in cells)]
    for inner in (*held, *getattr(part, "__dict__", {}).values()):
        if callable(inner) and not isinstance(inner, type):
            yield from networks(inner, met)


def lay_out(module: nn.Module) -> None:
    """Lay the weights of convolutions out with channels last, in place."""
    for part in module.modules():
        if isinstance(part, (nn.Conv1d, nn.ConvTranspose1d, *_PLANAR)):
            part.weight.data = part.weight.data.movedim(1, -1).contiguous().movedim(-1, 1)


def _alone(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with code of its own: what is compiled is kept with the code, and not much of it."""

    def call(*arguments: Any, **options: Any) -> Any:
        return function(*arguments, **options)

    call.__code__ = call.__code__.replace()
    return call


def described(parts: list[Compiled]) -> str:
    """One line for the report."""
    trouble = next((part.trouble for part in parts if part.trouble), "")
    if trouble:
        return f"the model could not be compiled and is called as it is ({trouble})"
    return f"the model is compiled, which took {sum(part.seconds for part in parts):.1f} s so far"
