"""Whether a model is still the one whose rounds were captured.

A captured round reads a model's tensors where they lie, so weights that are changed in place are read as they are now.
All else is as it was when it was captured: which tensors those are, every number, flag and text, every function and
what it refers to. A fingerprint holds all of that, found by walking through the model's attributes. Plain values are
compared, objects and tensors must be the very same ones (and are only referred to weakly, so that a model can go).

Of functions, the walk follows what they may look up: variables they close over, globals, attributes of modules and
classes, by the names in their code. Functions of the libraries in `_LIBRARIES` are taken to be what they are. Where
something keeps numbers that no attribute shows (an open file, a random generator) there is no fingerprint, and rounds
are captured anew.

It is taken with every call, so it must be fast: what containers and modules hold is looked at a layer at a time, by
functions that go through all of it in C. Nothing is remembered of a model but how values of the same kinds are sorted.
"""

from __future__ import annotations

import enum
import functools
import logging
import operator
import sys
import threading
import types
import typing
import weakref
import zlib
from array import array
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, compress, count
from operator import attrgetter, itemgetter
from typing import Any, final

import numpy as np
import torch
from torch import Tensor

from drawahead.chains.base import Chain, Paths

_LIBRARIES = sys.stdlib_module_names | {"drawahead", "torch", "numpy", "triton", "transformers", "diffusers"}
_PLAIN = frozenset({bool, int, complex, str, bytes, type(None), type(...), range})
_VALUES = _PLAIN | {torch.dtype, torch.device, torch.Size, torch.layout, torch.memory_format}
_DESCRIPTORS = (types.MethodDescriptorType, types.WrapperDescriptorType, types.GetSetDescriptorType)
_FIXED = (*_DESCRIPTORS, types.MemberDescriptorType, types.ClassMethodDescriptorType, np.dtype, np.ufunc)
_SILENT = (logging.Logger, type(threading.Lock()), type(threading.RLock()), types.GenericAlias, types.UnionType)
"""What changes no answer."""
_TEXT = frozenset({str})
_LOOKS: tuple[Callable[[Tensor], Any], ...] = (
    Tensor.data_ptr,
    Tensor.stride,
    attrgetter("shape"),
    attrgetter("dtype"),
    attrgetter("device"),
)
_EMPTY = frozenset({dict, OrderedDict, list, tuple, set})
_BARE = frozenset({dict, list, tuple})
"""They have entries, and no attributes."""
_NUMBERS = (int, float, complex, str, bytes)
_ASKED = frozenset({"forward", "rows", "rows_at", "chain_rows", "path_rows", "conditioned", "denoiser"})
"""Methods by which models are asked; all else that matters is named in their code."""
_MADE = frozenset({"__init__", "__new__", "__post_init__"})
_UNREAD = _MADE | {"__doc__", "__module__", "__dict__", "__weakref__", "__annotations__", "__qualname__", "__slots__"}
_UNREAD |= {"__repr__", "__str__", "__reduce__", "__reduce_ex__", "__getstate__", "__setstate__", "__orig_bases__"}
_MOST = 200_000  # things looked at: beyond that a model is captured anew
_PLANS: dict[tuple[type, ...], tuple[Any, ...]] = {}
"""See `_plan`."""


class Opaque(Exception):
    """There is something that cannot be looked into."""


@final
class Fingerprint:
    """Equal to another one if nothing that it saw has changed."""

    def __init__(self, marks: list[Any], seen: list[Any], tensors: list[Tensor]) -> None:
        self._marks = marks
        self._seen = [*map(weakref.ref, seen)]  # without a callback, an object has one reference, which all share
        self._tensors = [*map(weakref.ref, tensors)]
        self._places = [*map(Tensor.data_ptr, tensors)]
        self.versions = [0 if tensor.is_inference() else tensor._version for tensor in tensors]
        """How often each tensor was written into."""
        self._watched: list[weakref.ref[Any]] = []
        self._gone: list[weakref.ref[Any]] = []

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Fingerprint) or len(self._seen) != len(other._seen) or self._marks != other._marks:
            return False
        return all(map(operator.is_, self._seen, other._seen)) and self.possible

    __hash__ = None  # type: ignore[assignment]

    @property
    def possible(self) -> bool:
        """Whether another one can still be equal: not if something that it saw is gone."""
        return not self._gone if self._watched else all(one() is not None for one in self._seen)

    def may_hold(self, settings: list[Any]) -> bool:
        """Whether another one may be equal, which is quick to say, and all memory that it saw is where it was."""
        if not self.possible or self._marks[0] != settings:
            return False
        tensors = [tensor for one in self._tensors if (tensor := one()) is not None]
        return self._places == [*map(Tensor.data_ptr, tensors)]

    def watch(self) -> None:
        """Be told when something goes, so that `possible` need not look."""
        seen = [one() for one in self._seen]
        if not self._watched and not any(one is None for one in seen):
            self._watched = [weakref.ref(one, self._gone.append) for one in seen]


def fingerprint(chain: Chain, settings: object, paths: Paths) -> Fingerprint | None:
    """Of a chain's model and settings, and of what a row of its paths is made of; None where that cannot be told."""
    walk = _Walk()
    try:
        walk.marks.append(settings_of(chain, settings, paths))
        walk.visit(type(chain))
        walk.named(chain.captured_parts().items())
        walk.finish()
    except (Opaque, RecursionError):
        return None
    return Fingerprint(walk.marks, walk.seen, walk.tensors)


def settings_of(chain: Chain, settings: object, paths: Paths) -> list[Any]:
    """What a fingerprint says of all but the model."""
    rows = [(name, tuple(tensor.shape), tensor.dtype) for name, tensor in paths.tensors().items()]
    return [repr(settings), *_torch_settings(chain.device), *rows]


def _torch_settings(device: torch.device) -> list[Any]:
    """What torch is told for all models."""
    cuda, kind = torch.backends.cuda, device.type
    return [
        torch.get_default_dtype(),
        torch.is_autocast_enabled(kind) and torch.get_autocast_dtype(kind),
        torch.get_float32_matmul_precision(),
        torch.are_deterministic_algorithms_enabled(),
        cuda.matmul.allow_fp16_reduced_precision_reduction,
        cuda.matmul.allow_bf16_reduced_precision_reduction,
        torch.backends.cudnn.allow_tf32,
        torch.backends.cudnn.enabled,
        torch.backends.cudnn.deterministic,
        torch.backends.cudnn.benchmark,  # which decides the kernels that answer
        (cuda.flash_sdp_enabled(), cuda.mem_efficient_sdp_enabled(), cuda.math_sdp_enabled()),
    ]


class _Walk:
    def __init__(self) -> None:
        self.marks: list[Any] = []  # plain values, in the order they are met
        self.seen: list[Any] = []  # objects that must be the same ones
        self._numbers: dict[int, int] = {}  # of objects met before
        self._held: list[Any] = []  # temporary objects, so that no id is used twice
        self._names = dict.fromkeys(_ASKED)  # that some function may look up
        self._classes: list[type | types.ModuleType] = []  # met, of which attributes with such names count
        self._looked: set[tuple[Any, str]] = set()
        self._ways = dict(_BUILTIN)  # how things of a kind are entered
        self._dicts: list[dict[Any, Any]] = []  # met, and not entered so far
        self._sequences: list[Any] = []
        self.tensors: list[Tensor] = []

    def visit(self, value: Any) -> None:
        kind = type(value)
        if kind in _VALUES:
            self.marks += (value, kind)  # 1, 1.0 and True are equal
            return
        if kind is float:
            self.marks.append(value.hex())  # 0.0 and -0.0 are equal, and nan is not
            return
        if kind in _EMPTY and not value:
            self.marks.append(kind)
            return
        way = self._ways.get(kind)
        if way is None:
            way = self._ways[kind] = _way(kind)
        if way is _fixed:
            self.marks.append(id(value))  # they do not go
        elif way is not _silent:
            number = self._numbers.setdefault(id(value), len(self._held))
            if number < len(self._held):
                self.marks.append(("again", number))
                return
            if number > _MOST:
                raise Opaque
            self._held.append(value)
            way(self, value)

    def named(self, entries: Iterable[tuple[Any, Any]]) -> None:
        for name, entry in entries:
            self.marks.append(name)
            self.visit(entry)

    def finish(self) -> None:
        """Enter what was met, and the attributes of classes that functions may look up, until there are no new ones."""
        before = -1
        while before != len(self._looked):
            self._enter()
            before = len(self._looked)
            for owner in self._classes:  # which grows meanwhile
                for name, entry in list(vars(owner).items()):
                    special = name.startswith("__") and name not in _UNREAD and isinstance(owner, type)
                    if (special or name in self._names) and (owner, name) not in self._looked:
                        self._looked.add((owner, name))
                        self.named([(name, entry)])
        self._places(self.tensors)

    def _new(self, values: Sequence[Any]) -> Sequence[Any]:
        """Those that were not met before; as `visit`, for many."""
        met, first = len(self._numbers), len(self._held)
        numbers = [*map(self._numbers.setdefault, map(id, values), count(first))]
        self.marks.append(numbers)
        self._held += values
        if len(self._held) > _MOST:
            raise Opaque
        if len(self._numbers) - met == len(values):
            return values
        return [value for place, value in enumerate(values, first) if numbers[place - first] == place]

    def _enter(self) -> None:
        """What is in the containers met, and in those, and so on: all at once, which is faster than one by one."""
        while self._dicts or self._sequences:
            dicts, sequences, self._dicts, self._sequences = self._dicts, self._sequences, [], []
            values = tuple(chain.from_iterable([*map(dict.values, dicts), *sequences]))
            kinds = tuple(map(type, values))
            known, places, plain, floats, holders, tensors, modules, others = _PLANS.get(kinds) or _plan(kinds)
            full = [*compress(places, holders(values))]
            self.marks += ([*map(len, dicts)], [*map(len, sequences)], [*chain.from_iterable(dicts)])
            self.marks += (known, full, plain(values), array("d", floats(values)).tobytes())  # for floats, see `visit`
            self.tensors += tensors(values)
            if met := modules(values):
                self._modules(self._new(met))
            if full:
                self._containers(self._new([values[i] for i in full]))
            for value in others(values):
                self.visit(value)

    # What there is

    def _telling(self, value: Any) -> None:
        """What says itself which parts of it count."""
        self.visit(type(value))
        if type(value).__weakrefoffset__:
            self.seen.append(value)
        self.named(value.captured_parts().items())

    def _object(self, value: Any) -> None:
        """Its class and its attributes."""
        self._kind(type(value))
        if type(value).__weakrefoffset__:  # of others, their attributes tell
            self.seen.append(value)
        self._attributes(value)

    def _modules(self, values: Sequence[Any]) -> None:
        """As `_object` each."""
        kinds = [*map(type, values)]
        slots = [self._kind(kind) for kind in dict.fromkeys(kinds)]
        self.marks.append([*map(id, kinds)])
        self.seen += values
        self._dicts += map(vars, values)
        for value in values if any(slots) else ():
            self._in_slots(value)

    def _kind(self, kind: type) -> tuple[str, ...]:
        """The class of something that must show all it has. Its attributes in slots."""
        self.visit(kind)
        hides, slots = _layout_of(kind)
        if hides:
            raise Opaque
        return slots

    def _attributes(self, value: Any) -> None:
        if type(value) not in _BARE:
            self._dicts += [dict(vars(value))] if hasattr(value, "__dict__") else []
            self._in_slots(value)

    def _in_slots(self, value: Any) -> None:
        self.named((slot, getattr(value, slot)) for slot in _layout_of(type(value))[1] if hasattr(value, slot))

    def _tensor(self, value: Tensor) -> None:
        self.tensors.append(value)

    def _places(self, tensors: list[Tensor]) -> None:
        """Where tensors are: what a graph reads of them on the device it reads anew each time."""
        if not {torch.strided}.issuperset(map(attrgetter("layout"), tensors)):
            raise Opaque
        self.seen += tensors
        looks: list[list[Any]] = [[*map(look, tensors)] for look in _LOOKS]
        self.marks += looks
        if any(device.type == "cpu" for device in set(looks[-1])):  # a graph may have copied those
            for value in {id(value): value for value in tensors if value.is_cpu and value.numel()}.values():
                whole = value.detach().contiguous()
                flat = whole.as_strided((whole.numel(),), (1,))  # a single number may have any stride
                self.marks.append(_checksum(flat.view(torch.uint8).numpy()))

    def _array(self, value: np.ndarray[Any, Any]) -> None:
        if value.dtype.hasobject:
            raise Opaque
        self.marks += (value.shape, str(value.dtype), _checksum(np.ascontiguousarray(value)))

    def _scalar(self, value: np.generic) -> None:
        self.marks += (str(value.dtype), value.tobytes())

    def _enum(self, value: enum.Enum) -> None:
        self.marks += (type(value).__qualname__, value.name)

    def _number(self, value: Any) -> None:
        """Of a kind of its own."""
        self.visit(type(value))
        plain: Any = next(kind for kind in _NUMBERS if isinstance(value, kind))
        self.visit(plain(value))
        self._attributes(value)

    def _containers(self, values: Sequence[Any]) -> None:
        """Just met, of the kinds in `_EMPTY`."""
        dicts = [value for value in values if type(value) is dict]
        if named := _TEXT.issuperset(map(type, chain.from_iterable(dicts))):
            self._dicts += dicts
        for value in values if len(dicts) < len(values) or not named else ():
            kind = type(value)
            if kind is tuple or kind is list:
                self._sequences.append(value)
            elif kind is not dict or not named:
                _BUILTIN[kind](self, value)

    def _mapping(self, value: Any) -> None:
        self.marks.append(len(value))
        self.visit(type(value))
        for key, entry in value.items():
            if type(key) is str:
                self.marks.append(key)
            else:
                self.visit(key)
            self.visit(entry)
        if isinstance(value, defaultdict):
            self.visit(value.default_factory)
        self._attributes(value)

    def _sequence(self, value: Any) -> None:
        self.marks.append(len(value))
        self.visit(type(value))
        for entry in value:
            self.visit(entry)
        self._attributes(value)

    def _set(self, value: Any) -> None:
        if not all(type(entry) in _PLAIN for entry in value):
            raise Opaque
        self.marks += (type(value).__qualname__, frozenset(value))

    def _class(self, value: type) -> None:
        self.seen.append(value)
        own = [base for base in value.__mro__ if not _of_library(base)]
        self._classes += [base for base in own if base not in self._classes]
        for base in own:  # it may be made by a function
            self.named((name, vars(base)[name]) for name in sorted(_MADE) if name in vars(base))
        for base in value.__mro__:  # another method may have been put into a library's
            if base not in own and (forward := vars(base).get("forward")) is not None:
                self.visit(forward)

    def _module(self, value: types.ModuleType) -> None:
        self.marks.append(id(value))
        if not _of_library(value):
            self._classes.append(value)

    def _function(self, value: types.FunctionType) -> None:
        code, library = value.__code__, _of_library(value)
        self.seen += [value, code]
        for part in (value.__defaults__, value.__kwdefaults__, value.__dict__):
            if part:
                self.visit(part)
            else:
                self.marks.append(type(part))
        names = {} if library else dict.fromkeys(_names(code))
        self._names |= names
        for cell in value.__closure__ or ():
            try:
                self.visit(cell.cell_contents)
            except ValueError:
                self.marks.append("empty")
        for name in names:
            if name in value.__globals__:
                self.marks.append(name)
                self.visit(value.__globals__[name])

    def _method(self, value: types.MethodType) -> None:
        self.visit(value.__self__)
        self.visit(value.__func__)

    def _builtin(self, value: Any) -> None:
        """A function of a module, or a method of something built in."""
        owner = value.__self__
        self.marks.append(value.__qualname__)
        if owner is not None and not isinstance(owner, types.ModuleType):
            self.visit(owner)
        else:
            self.marks.append(id(value))

    def _partial(self, value: functools.partial[Any]) -> None:
        for part in (value.func, value.args, value.keywords):
            self.visit(part)
        self._attributes(value)

    def _wrapped(self, value: Any) -> None:
        """A property, or a method of a class, or a function that remembers its answers."""
        self.marks.append(type(value).__qualname__)
        for name in ("fget", "func", "__func__", "__wrapped__"):
            self.visit(getattr(value, name, None))

    def _reference(self, value: weakref.ref[Any]) -> None:
        self.visit(value())


_ENTER: list[tuple[Any, Callable[[_Walk, Any], None]]] = [
    (Tensor, _Walk._tensor),
    (torch.nn.Module, _Walk._object),
    (np.ndarray, _Walk._array),
    (np.generic, _Walk._scalar),
    (enum.Enum, _Walk._enum),
    (_NUMBERS, _Walk._number),
    ((dict, types.MappingProxyType), _Walk._mapping),
    ((list, tuple, deque), _Walk._sequence),
    ((set, frozenset), _Walk._set),
    (type, _Walk._class),
    (types.ModuleType, _Walk._module),
    (types.FunctionType, _Walk._function),
    (types.MethodType, _Walk._method),
    ((types.BuiltinFunctionType, types.MethodWrapperType), _Walk._builtin),
    (functools.partial, _Walk._partial),
    ((property, staticmethod, classmethod, functools.cached_property), _Walk._wrapped),
    (type(functools.lru_cache(len)), _Walk._wrapped),
    (weakref.ref, _Walk._reference),
]


def _fixed(walk: _Walk, value: Any) -> None:
    """What is there as long as Python is: `visit` marks it by its place."""


def _silent(walk: _Walk, value: Any) -> None:
    """What changes no answer: `visit` passes it by."""


def _way(kind: type) -> Callable[[_Walk, Any], None]:
    """How things of a kind are entered."""
    if issubclass(kind, _FIXED):
        return _fixed
    if issubclass(kind, _SILENT):
        return _silent
    if not issubclass(kind, torch.nn.Module | type) and hasattr(kind, "captured_parts"):
        return _Walk._telling
    return next((enter for kinds, enter in _ENTER if issubclass(kind, kinds)), _Walk._object)


_BUILTIN = {kind: _way(kind) for kind in (type, types.FunctionType, property, *_EMPTY)}  # which nobody can patch


def _plan(kinds: tuple[type, ...]) -> tuple[Any, ...]:
    """For many values of these kinds: the kinds; where containers are; and what takes the plain ones, floats,
    containers, tensors, modules, and all others. Remembered, if that keeps no class of a user alive."""
    groups: list[list[int]] = [[], [], [], [], [], []]
    group_of = {kind: groups[_group(kind)] for kind in set(kinds)}
    for i, kind in enumerate(kinds):
        group_of[kind].append(i)
    known = {kind: kind if _of_library(kind) else None for kind in group_of}
    plan = tuple(map(known.get, kinds)), groups[2], *map(_taking, groups)
    if None not in known.values() and len(kinds) < _MOST // 10:
        if len(_PLANS) >= 256:
            _PLANS.clear()
        _PLANS[kinds] = plan
    return plan


def _group(kind: type) -> int:
    tensor, module = _way(kind) is _Walk._tensor, issubclass(kind, torch.nn.Module)
    return (kind in _VALUES, kind is float, kind in _EMPTY, tensor, module, True).index(True)


def _taking(places: list[int]) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
    """What takes the entries in these places, as a tuple even if it is one."""
    return itemgetter(*places) if len(places) > 1 else lambda values: tuple(values[i] for i in places)


def _of_library(value: Any) -> bool:
    """Whether a class, a function or a module belongs to a library."""
    name = value.__name__ if isinstance(value, types.ModuleType) else value.__module__
    return isinstance(name, str) and _names_library(name)


@functools.lru_cache(1024)
def _names_library(name: str) -> bool:
    return name.partition(".")[0] in _LIBRARIES


def _hides(kind: type) -> bool:
    """Whether objects of a class have room for more than their attributes: as what is written in C has."""
    if kind.__base__ is None or kind in (BaseException, Exception, typing.Generic):
        return False
    room = kind.__basicsize__ - kind.__base__.__basicsize__
    shown = len(_slots(kind)) + sum(name in vars(kind) for name in ("__dict__", "__weakref__"))
    return bool(kind.__itemsize__) or room > 8 * shown


def _layout(kind: type) -> tuple[bool, tuple[str, ...]]:
    """Whether objects of a class hide something, and their attributes in slots."""
    slots = (slot for base in kind.__mro__ for slot in _slots(base) if slot not in ("__weakref__", "__dict__"))
    return any(map(_hides, kind.__mro__)), tuple(slots)


_library_layout = functools.lru_cache(_layout)  # of a class that is there, it does not change


def _layout_of(kind: type) -> tuple[bool, tuple[str, ...]]:
    return (_library_layout if _of_library(kind) else _layout)(kind)


def _slots(kind: type) -> tuple[str, ...]:
    slots = vars(kind).get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


def _checksum(numbers: np.ndarray[Any, Any]) -> int:
    return zlib.crc32(numbers.data.cast("B")) if numbers.size else 0


def _names(code: types.CodeType) -> Iterable[str]:
    """What a function, and those inside it, may look up: names, and texts that may be names."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)
        elif isinstance(constant, str) and constant.isidentifier():
            yield constant
