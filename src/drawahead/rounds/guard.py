"""Whether a model is still the one whose rounds were captured.

A captured round reads a model's tensors where they lie, so weights changed in place are read as they are now. All else
is as it was when the round was captured. A guard is a list of marks, made by walking through the model: where tensors
lie, plain attributes, flags and hooks, functions with the variables they close over and the globals they name, torch's
global modes. Code of installed packages is taken to stay as it is. What no walk can see (an environment variable, a
file, a name put together at run time) the canary finds: see `Batch.agrees`.
"""

from __future__ import annotations

import sys
import types
import weakref
import zlib
from collections import OrderedDict, deque
from collections.abc import Mapping
from typing import Any, final

import numpy as np
import torch
from torch import Tensor, nn

from drawahead.rounds.code import INSTALLED, is_installed, names_in
from drawahead.rounds.modes import modes

_PLAIN = frozenset(
    {bool, int, complex, str, bytes, type(None), type(...), range, torch.dtype, torch.device, torch.Size}
)
_NUMBERS = frozenset({bool, int, float, str})
_DICTS = frozenset({dict, OrderedDict})
_BARE = _DICTS | {list, tuple, set}
_INNER = ("__self__", "__func__", "__wrapped__", "fget", "func", "args", "keywords")  # of methods, properties, partials
_MOST = 200_000  # objects looked at; the canary watches over the rest
_SMALL = 2**16  # bytes of a tensor on the CPU that are compared one by one


@final
class Guard:
    """Marks of a model, to be compared with those of the same model later. It keeps nothing of the model alive."""

    def __init__(self, parts: Mapping[str, Any], device: torch.device) -> None:
        self._marks: list[Any] = []
        self._numbers: dict[int, int] = {}  # of objects met before
        self._met: list[Any] = []  # held during the walk, so that no id is used twice
        self._mapping(modes(device) | dict(parts))
        tensors = [value for value in self._met if isinstance(value, Tensor)]
        self._tensors, self._places = [*map(weakref.ref, tensors)], [*map(Tensor.data_ptr, tensors)]
        del self._numbers, self._met

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Guard) and self._marks == other._marks

    __hash__ = None  # type: ignore[assignment]

    @property
    def in_place(self) -> bool:
        """Whether all tensors lie where they lay: a round replayed now reads memory that is still the model's."""
        return self._places == [-1 if (tensor := one()) is None else tensor.data_ptr() for one in self._tensors]

    def difference(self, later: Guard) -> str:
        """The name of the first thing that is not as it was."""
        pairs = enumerate(zip(self._marks, later._marks, strict=False))
        first = next((i for i, (old, new) in pairs if old != new), len(later._marks))
        return next(
            (mark for mark in reversed(later._marks[: first + 1]) if type(mark) is str and mark.isidentifier()), ""
        )

    def _mapping(self, entries: Mapping[Any, Any]) -> None:
        for name, value in [*entries.items()]:
            kind = type(value)
            self._marks.append(name) if type(name) is str else self._visit(name)
            if kind in _PLAIN:
                self._marks += (value, kind)  # 1 and True are equal
            elif kind in _BARE and not value:
                self._marks.append(kind)
            else:
                self._visit(value)

    def _visit(self, value: Any) -> None:
        kind = type(value)
        if kind in _PLAIN:
            self._marks += (value, kind)
        elif kind is float:
            self._marks.append(value.hex())  # 0.0 and -0.0 are equal, and nan is not
        elif self._is_new(value):
            self._enter(value, kind)

    def _is_new(self, value: Any) -> bool:
        number = self._numbers.setdefault(id(value), len(self._met))
        self._marks.append(number)
        if number < len(self._met) or number >= _MOST:
            return False
        self._met.append(value)
        return True

    def _enter(self, value: Any, kind: type) -> None:
        if isinstance(value, Tensor):
            self._tensor(value)
        elif kind in _DICTS:
            self._marks.append(kind)
            self._mapping(value)
        elif isinstance(value, nn.Module):
            self._visit(kind)
            self._mapping(vars(value))
        elif isinstance(value, types.FunctionType):
            self._function(value)
        elif isinstance(value, type):
            self._class(value)
        elif isinstance(value, list | tuple | deque):
            self._sequence(value, kind)
        elif isinstance(value, set | frozenset):
            self._marks.append(frozenset(entry if type(entry) in _PLAIN else id(entry) for entry in value))
        elif isinstance(value, weakref.ref):
            self._visit(value())
        elif isinstance(value, np.ndarray | np.generic):
            self._marks += (value.shape, str(value.dtype), _checksum(np.ascontiguousarray(value)))
        elif hasattr(kind, "captured_parts"):  # it says itself what answers depend on
            self._mapping({"class": kind, **value.captured_parts()})
        else:
            self._visit(kind)
            self._marks += [repr(value)] if isinstance(value, int | float | complex | str | bytes) else []
            self._mapping({name: getattr(value, name) for name in _INNER if hasattr(value, name)})
            self._mapping(value if isinstance(value, Mapping) else {})
            self._attributes(value, kind)

    def _sequence(self, value: Any, kind: type) -> None:
        if (kind is list or kind is tuple) and _NUMBERS.issuperset(kinds := tuple(map(type, value))):
            self._marks += (repr(value), kinds)
            return
        self._marks += (len(value), weakref.ref(kind))
        for entry in value:
            self._visit(entry)
        self._attributes(value, kind)

    def _attributes(self, value: Any, kind: type) -> None:
        slots = {name: getattr(value, name, None) for base in kind.__mro__ for name in _slots(base)}
        self._mapping(slots | getattr(value, "__dict__", {}))

    def _tensor(self, value: Tensor) -> None:
        self._marks += (value.data_ptr(), value.shape, value.dtype, value.device)
        if value.is_cpu and value.layout == torch.strided:  # a graph may hold copies of its numbers
            small, version = value.numel() * value.element_size() <= _SMALL, not value.is_inference() and value._version
            self._marks += (value.stride(), _checksum(_flat(value).view(torch.uint8).numpy()) if small else version)

    def _class(self, kind: type) -> None:
        for base in kind.__mro__:
            self._marks.append(weakref.ref(base))
            if not is_installed(sys.modules.get(base.__module__)):
                own = {name: entry for name, entry in vars(base).items() if _is_written(name, entry)}
                self._mapping(own)
            elif isinstance(forward := vars(base).get("forward"), types.FunctionType):
                self._marks.append(weakref.ref(forward.__code__))  # another may have been put there

    def _function(self, value: types.FunctionType) -> None:
        code, scope = value.__code__, value.__globals__
        cells = zip(code.co_freevars, value.__closure__ or (), strict=True)
        closure = {name: cell.cell_contents for name, cell in cells if cell != types.CellType()}
        self._marks.append(weakref.ref(code))
        self._mapping({"defaults": (value.__defaults__, value.__kwdefaults__), **value.__dict__, **closure})
        names = () if code.co_filename.startswith(INSTALLED) else names_in(code)
        for name, entry in ((name, scope[name]) for name in names if name in scope):
            if not isinstance(entry, types.ModuleType):
                self._mapping({name: entry})
            elif not is_installed(entry):
                self._mapping({inner: vars(entry)[inner] for inner in names if inner in vars(entry)})


def _is_written(name: str, entry: object) -> bool:
    """Whether an entry of a class is one that somebody wrote: Python notes things there under names of its own."""
    return not name.startswith("__") or isinstance(entry, types.FunctionType)


def _slots(kind: type) -> list[str]:
    slots = vars(kind).get("__slots__", ())
    return [name for name in ([slots] if isinstance(slots, str) else slots) if not name.startswith("__")]


def _flat(tensor: Tensor) -> Tensor:
    whole = tensor.detach().contiguous()
    return whole.as_strided((whole.numel(),), (1,))  # a single number may have any stride


def _checksum(numbers: np.ndarray[Any, Any]) -> int:
    return zlib.crc32(numbers.data.cast("B")) if numbers.size and not numbers.dtype.hasobject else 0
