"""What a pipeline does to its tensors, written down while it does it."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor, nn, overrides
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

_READS = {"numpy", "tolist", "__array__"}
_READ = torch.ops.aten._local_scalar_dense.default


@final
@dataclass(frozen=True, eq=False)
class Recorded:
    """An operation of torch, or a call of a network: what went in and what came out, flat."""

    op: Any
    leaves: list[Any]
    spec: Any
    results: list[Any]

    @property
    def writes(self) -> list[Tensor]:
        """What it writes into."""
        if isinstance(self.op, nn.Module):
            return []
        return [
            value
            for argument, value in zip(self.op._schema.arguments, self.leaves, strict=False)
            if argument.alias_info is not None and argument.alias_info.is_write and isinstance(value, Tensor)
        ]


@final
class Recorder(TorchDispatchMode):
    """Records operations outside of networks; once a state is followed, all those that depend on it and no others."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.entries: list[Recorded] = []
        self._live: dict[int, Any] | None = None  # what depends on the state, by identity
        self._past: dict[int, weakref.ref[Any]] = {}  # what depends on states of earlier steps
        self.fault = ""  # why what was done with the state cannot be followed
        self._depth = 0

    def follow(self, state: Tensor) -> None:
        """Begin anew, with what depends on this state; what depends on those before is remembered as long as it is."""
        left = {id(value): weakref.ref(value) for value in (self._live or {}).values()}
        self._past = {name: value for name, value in self._past.items() if value() is not None} | left
        self.entries, self._live, self.fault = [], {id(state): state}, ""

    def depends(self, value: Any) -> bool:
        return self._live is not None and id(value) in self._live

    def _is_past(self, value: Any) -> bool:
        return id(value) in self._past and self._past[id(value)]() is value and not self.depends(value)

    def note(self, op: Any, leaves: list[Any], spec: Any, results: list[Any]) -> None:
        entry = Recorded(op, leaves, spec, results)
        if self._live is not None:
            past = any(map(self._is_past, leaves))
            if not any(map(self.depends, leaves)):
                made = [value for value in results if isinstance(value, Tensor)] if past else []
                self._past |= {id(value): weakref.ref(value) for value in made}
                return
            if past:
                self.fault = "uses in one step what it computed in another"
            self._check(entry)
            self._live |= {id(value): value for value in results if isinstance(value, Tensor)}
        self.entries.append(entry)

    def _check(self, entry: Recorded) -> None:
        if entry.op is _READ:
            self.read()
        if not all(map(self.depends, entry.writes)):
            self.fault = f"writes its latents into a tensor of its own ({entry.op}), where they cannot be followed"

    def read(self) -> None:
        """Numbers of the state have left torch; after the last step that is no harm."""
        self.fault = "decides by the numbers in its latents"

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if self._live is not None or not self._depth:
            leaves, spec = pytree.tree_flatten((args, kwargs or {}))
            self.note(func, leaves, spec, pytree.tree_leaves(result))
        return result

    @contextmanager
    def recording(self) -> Iterator[None]:
        def enter(*_: Any) -> None:
            self._depth += 1

        def leave(*_: Any) -> None:
            self._depth -= 1

        hooks = nn.modules.module
        with ExitStack() as stack:
            self._hooks = [
                hooks.register_module_forward_pre_hook(enter),
                hooks.register_module_forward_hook(leave, always_call=True),
            ]
            stack.callback(self.unhook)
            stack.enter_context(_Reads(self))
            stack.enter_context(self)
            yield

    def unhook(self) -> None:
        """Before something else is done within: no hook of ours is left."""
        for hook in self._hooks:
            hook.remove()


@contextmanager
def paused() -> Iterator[None]:
    """Within it nothing is recorded."""
    with _disable_current_modes():
        modes = [overrides._pop_mode() for _ in range(torch._C._len_torch_function_stack())]
        try:
            yield
        finally:
            for mode in reversed(modes):
                overrides._push_mode(mode)


@final
class _Reads(TorchFunctionMode):
    """Sees numbers leave torch by a way that is no operation of torch."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self.recorder = recorder

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if args and getattr(func, "__name__", "") in _READS and self.recorder.depends(args[0]):
            self.recorder.read()
        return func(*args, **(kwargs or {}))
