"""Whether a model is still the one whose rounds were captured.

A captured round reads a model's tensors where they lie, so weights that are changed in place are read as they are now.
All else is as it was when it was captured: which tensors those are, every number, flag and text, every function and
what it refers to. A fingerprint holds all of that, found by walking through the model's attributes. Plain values are
compared, objects and tensors must be the very same ones (and are only referred to weakly, so that a model can go).
Where something cannot be looked into there is no fingerprint, and rounds are captured anew.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import types
import weakref
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any, final

import numpy as np
import torch
from torch import Tensor

from drawahead.chains.base import Chain, Paths

_PLAIN = frozenset({bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device, torch.Size, range})
_FIXED = (type, types.BuiltinFunctionType, types.ModuleType, types.MethodDescriptorType, types.WrapperDescriptorType)
_CONTAINERS = frozenset({dict, OrderedDict, list, tuple, set})
_MOST = 200_000  # things looked at: beyond that a model is captured anew
_SMALL = 1 << 16  # bytes of an array that are compared


class Opaque(Exception):
    """There is something that cannot be looked into."""


@final
class Fingerprint:
    """Equal to another one if nothing that it saw has changed."""

    def __init__(self, marks: list[Any], seen: list[Any]) -> None:
        self._marks = marks
        self._seen = [weakref.ref(one) for one in seen]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Fingerprint) or len(self._seen) != len(other._seen) or self._marks != other._marks:
            return False
        pairs = zip(self._seen, other._seen, strict=True)
        return all((here := one()) is not None and here is another() for one, another in pairs)

    __hash__ = None  # type: ignore[assignment]


def fingerprint(chain: Chain, settings: object, paths: Paths) -> Fingerprint | None:
    """Of a chain's model and settings, and of what a row of its paths is made of; None where that cannot be told."""
    walk = _Walk()
    try:
        walk.visit(repr(settings))
        for name, tensor in paths.tensors().items():
            walk.visit((name, tuple(tensor.shape), tensor.dtype))
        walk.visit(type(chain))
        for name, value in chain.captured_parts().items():
            walk.visit(name)
            walk.visit(value)
    except (Opaque, RecursionError):
        return None
    return Fingerprint(walk.marks, walk.seen)


class _Walk:
    def __init__(self) -> None:
        self.marks: list[Any] = []  # plain values, in the order they are met
        self.seen: list[Any] = []  # objects that must be the same ones
        self._numbers: dict[int, int] = {}  # of objects met before
        self._held: list[Any] = []  # temporary objects, so that no id is used twice

    def visit(self, value: Any) -> None:
        kind = type(value)
        if kind in _PLAIN or isinstance(value, enum.Enum):
            self.marks.append(value if kind is not float or value == value else "nan")
            self.marks.append(kind)  # 1, 1.0 and True are equal
            return
        if isinstance(value, _FIXED):
            self.marks.append(id(value))  # they do not go
            return
        number = self._numbers.get(id(value))
        if number is not None:
            self.marks.append(("again", number))
            return
        number = self._numbers[id(value)] = len(self._numbers)
        if number > _MOST:
            raise Opaque
        self._held.append(value)
        self._enter(value)

    def _named(self, entries: Any) -> None:
        for name, entry in entries:
            self.marks.append(name)
            if type(entry) not in _CONTAINERS or entry:
                self.visit(entry)
            else:
                self.marks.append(None)  # a module has a dozen empty ones

    def _enter(self, value: Any) -> None:
        if isinstance(value, Tensor):
            self._tensor(value)
        elif callable(told := getattr(value, "captured_parts", None)) and not isinstance(value, torch.nn.Module):
            self.marks.append(type(value))
            if type(value).__weakrefoffset__:
                self.seen.append(value)
            self._named(told().items())
        elif isinstance(value, torch.nn.Module):
            self.marks.append(type(value))
            self.seen.append(value)
            self._named(value.__dict__.items())
        elif isinstance(value, dict | types.MappingProxyType):
            self.marks.append((type(value), len(value)))
            if all(type(key) is str for key in value):
                self._named(value.items())
                return
            for key, entry in value.items():
                self.visit(key)
                self.visit(entry)
        elif isinstance(value, list | tuple):
            self.marks.append((type(value), len(value)))
            for entry in value:
                self.visit(entry)
        elif isinstance(value, set | frozenset):
            if not all(type(entry) in _PLAIN for entry in value):
                raise Opaque
            self.marks.append((type(value), frozenset(value)))
        elif isinstance(value, np.ndarray):
            if value.nbytes > _SMALL or value.dtype.hasobject:
                raise Opaque
            self.marks.append((value.shape, str(value.dtype), value.tobytes()))
        elif isinstance(value, np.generic):
            self.marks.append((type(value), value.tobytes()))
        elif isinstance(value, types.FunctionType):
            self._function(value)
        elif isinstance(value, types.MethodType):
            self.marks.append("method")
            self.visit(value.__self__)
            self.visit(value.__func__)
        elif isinstance(value, functools.partial):
            self.marks.append("partial")
            for part in (value.func, value.args, value.keywords):
                self.visit(part)
        elif isinstance(value, weakref.ref):
            self.marks.append("ref")
        else:
            self._object(value)

    def _tensor(self, value: Tensor) -> None:
        # What a graph reads of a tensor on the device it reads anew each time. One on the CPU may have been copied.
        version = value._version if value.device.type == "cpu" and not value.is_inference() else 0
        place = (value.data_ptr(), tuple(value.shape), value.stride(), value.dtype, value.device, version)
        self.marks.append(place)
        self.seen.append(value)

    def _function(self, value: types.FunctionType) -> None:
        self.seen.append(value)
        self.visit(value.__defaults__)
        self.visit(value.__kwdefaults__)
        for cell in value.__closure__ or ():
            try:
                self.visit(cell.cell_contents)
            except ValueError:
                self.marks.append("empty")
        for name in _names(value.__code__):
            if name in value.__globals__:
                self.visit(name)
                self.visit(value.__globals__[name])

    def _object(self, value: Any) -> None:
        kind = type(value)
        attributes = getattr(value, "__dict__", None)
        slots = [slot for base in kind.__mro__ for slot in _listed(base.__dict__.get("__slots__", ()))]
        if attributes is None and not slots and not dataclasses.is_dataclass(value):
            raise Opaque
        self.marks.append(kind)
        if kind.__weakrefoffset__:  # of others, their attributes tell
            self.seen.append(value)
        self._named((attributes or {}).items())
        for slot in slots:
            if slot not in ("__weakref__", "__dict__") and hasattr(value, slot):
                self.visit(slot)
                self.visit(getattr(value, slot))


def _names(code: types.CodeType) -> Iterator[str]:
    """The global names that a function, and those inside it, may look up."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


def _listed(slots: Any) -> tuple[str, ...]:
    return (slots,) if isinstance(slots, str) else tuple(slots)
