"""Whether a model is still the one whose rounds were captured.

A captured round reads a model's tensors where they lie, so weights changed in place are read as they are now. All else
is as it was when the round was captured. A guard is a list of marks: where tensors lie, plain attributes, flags, hooks,
functions with what they close over and the globals they name. Code of installed packages is taken to stay as it is.
What no walk can see (an environment variable, a file) the canary finds.
"""

from __future__ import annotations

import contextlib
import math
import sys
import time
import types
import weakref
import zlib
from collections import OrderedDict, deque
from collections.abc import Mapping
from typing import Any, final

import numpy as np
import torch
from torch import Tensor, nn

from drawahead.code import HOMES, is_installed, names_in

_PLAIN = {bool, int, complex, str, bytes, type(None), type(...), range, torch.dtype, torch.device, torch.Size}
_NUMBERS, _BARE = {bool, int, float, str}, {dict, OrderedDict, list, tuple, set}
_INNER = ("__self__", "__func__", "fget", "func", "args", "keywords")  # of methods, properties, partials
_MOST, _SMALL = 200_000, 2**16  # objects looked at, bytes of a tensor on the CPU that are compared one by one


@final
class Guard:
    """Marks of a model, to be compared with later ones. Once `done` it keeps nothing of the model alive. What is met is
    numbered, and entered in that order, a little at a time (`go_on`)."""

    def __init__(self, parts: Mapping[str, Any]) -> None:
        self.marks: list[Any] = []
        self.done = False
        self._numbers: dict[int, int] = {}  # of objects met before
        self._met: list[tuple[Any, str]] = []  # with their names; held meanwhile, so that no id is used twice
        self._places: list[tuple[weakref.ref[Tensor], int]] = []
        self._entering = iter(self._met)  # which goes on to what is met later
        self._mapping(parts)

    def go_on(self, seconds: float = math.inf) -> None:
        """Walk on, for so long at most."""
        until = time.perf_counter() + seconds
        for value, name in self._entering:
            self.marks.append(name)
            with contextlib.suppress(Exception):  # of what cannot be read, the canary sees a change
                self._enter(value, type(value))
            if time.perf_counter() > until:
                return
        self.done, self._entering = True, iter(())
        self._numbers, self._met = {}, []

    @property
    def in_place(self) -> bool:
        """Whether all tensors lie where they lay: a round replayed now reads memory that is still the model's."""
        return all((tensor := one()) is not None and tensor.data_ptr() == place for one, place in self._places)

    def difference(self, later: Guard) -> str:
        """The name of the first thing that is not as it was."""
        pairs = enumerate(zip(self.marks, later.marks, strict=False))
        first = next((i for i, (old, new) in pairs if old != new), len(later.marks))
        return next((m for m in reversed(later.marks[: first + 1]) if type(m) is str and m.isidentifier()), "")

    def _mapping(self, entries: Mapping[Any, Any]) -> None:
        for name, value in [*entries.items()]:
            kind = type(value)
            self.marks.append(name) if type(name) is str else self._visit(name)
            if kind in _PLAIN:
                self.marks += (value, kind)
            else:
                self.marks.append(kind) if kind in _BARE and not value else self._visit(value, name)
        self.marks.append(len(entries))

    def _visit(self, value: Any, name: Any = "") -> None:
        kind = type(value)
        if kind in _PLAIN or kind is float:  # 1 and True are equal; 0.0 and -0.0 are equal, and nan is not
            self.marks += (value.hex() if kind is float else value, kind)
            return
        self.marks.append(number := self._numbers.setdefault(id(value), len(self._met)))
        if number == len(self._met) < _MOST:
            self._met.append((value, name if type(name) is str else ""))

    def _enter(self, value: Any, kind: type) -> None:
        if isinstance(value, Tensor):
            self._places.append((weakref.ref(value), value.data_ptr()))
            self.marks += (value.data_ptr(), value.shape, value.dtype, value.device)
            if value.is_cpu and value.layout == torch.strided:  # a graph may hold copies of its numbers
                small, version = value.nbytes <= _SMALL, not value.is_inference() and value._version
                flat = value.detach().clone(memory_format=torch.contiguous_format).flatten() if small else None
                self.marks += (value.stride(), version if flat is None else _checksum(flat.view(torch.uint8).numpy()))
        elif isinstance(value, np.ndarray | np.generic):
            self.marks += (value.shape, str(value.dtype), _checksum(value))
        elif isinstance(value, nn.Module) or kind is dict:
            self._visit(kind)
            self._mapping(value if kind is dict else vars(value))
        elif isinstance(value, types.FunctionType):
            self._function(value)
        elif isinstance(value, types.ModuleType) and (at := getattr(value, "__file__", None)) and is_installed(at):
            self.marks.append(value.__name__)  # all that it imports would be walked otherwise
        elif isinstance(value, type):
            self._class(value)
        elif kind in (list, tuple) and _NUMBERS.issuperset(kinds := tuple(map(type, value))):
            self.marks += (repr(value), kinds)
        elif isinstance(value, set | frozenset):
            self.marks.append(frozenset(entry if type(entry) in _PLAIN else id(entry) for entry in value))
        elif hasattr(kind, "captured_parts"):  # it says itself what answers depend on
            self._mapping({"class": kind, **value.captured_parts()})
        else:
            self._visit(kind)
            self.marks += [repr(value)] if isinstance(value, int | float | complex | str | bytes) else []
            if isinstance(value, list | tuple | deque):
                self._mapping({"length": len(value), **dict(enumerate(value))})
            self._mapping(value if isinstance(value, Mapping) else {})
            self._mapping({name: getattr(value, name) for name in _INNER if hasattr(kind, name)})
            self._visit(value() if isinstance(value, weakref.ref) else None)
            slots = [name for base in kind.__mro__ for name in vars(base).get("__slots__", ())]
            self._mapping({name: getattr(value, name, None) for name in slots} | getattr(value, "__dict__", {}))

    def _class(self, kind: type) -> None:
        for base in kind.__mro__:
            self.marks.append(weakref.ref(base))
            if not is_installed(getattr(sys.modules.get(base.__module__), "__file__", None)):  # names of Python's own
                own = vars(base).items()
                self._mapping({n: e for n, e in own if not n.startswith("__") or isinstance(e, types.FunctionType)})
            elif isinstance(forward := vars(base).get("forward"), types.FunctionType):
                self.marks.append(weakref.ref(forward.__code__))  # another may have been put there

    def _function(self, value: types.FunctionType) -> None:
        self.marks.append(weakref.ref(code := value.__code__))
        cells = zip(code.co_freevars, value.__closure__ or (), strict=True)
        closure = {name: cell.cell_contents for name, cell in cells if cell != types.CellType()}
        self._mapping({"defaults": (value.__defaults__, value.__kwdefaults__), **value.__dict__, **closure})
        names = () if code.co_filename.startswith(HOMES) else names_in(code)
        for name, entry in ((name, value.__globals__[name]) for name in names if name in value.__globals__):
            if not isinstance(entry, types.ModuleType):
                self._mapping({name: entry})
            elif not is_installed(getattr(entry, "__file__", None)):
                self._mapping({inner: vars(entry)[inner] for inner in names if inner in vars(entry)})


def _checksum(array: np.ndarray[Any, Any] | np.generic) -> int:
    return zlib.crc32(np.ascontiguousarray(array).view("B").data) if array.size and not array.dtype.hasobject else 0
