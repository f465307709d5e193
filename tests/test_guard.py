"""The guard: captured rounds are used again only while nothing has changed that a CUDA graph could not see.

On a CPU captured rounds run as they are, so samples are right whether or not something is captured anew (and
tests/test_state.py checks that they are). What is looked at here is which batch a call is given: a graph would go on
doing what was done when it was captured.
"""

from __future__ import annotations

import contextlib
import copy
import ctypes
import functools
import gc
import io
import itertools
import random
import types
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import drawahead as da
from drawahead import Coupled, GaussianChain, Report
from drawahead.chains.base import Chain
from drawahead.rounds.captured.batch import CapturedBatch
from drawahead.rounds.captured.guard import Guard
from tests.changes import (
    KNOWN,
    NUMBER,
    REPLACED,
    WALK,
    Network,
    added,
    batches_used,
    drawn,
    module,
    put,
    scaled,
    spins,
)
from tests.gaussian.reference import Walk


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> list[CapturedBatch]:
    """The batches that captured runs were given."""
    return batches_used(monkeypatch)


def assert_captured_anew(chain: Chain, change: Callable[[], object], used: list[CapturedBatch]) -> None:
    """What was captured before the change is used again before it, and not after it. A change may make a chain."""
    drawn(chain, True)
    drawn(chain, True)
    before = list(used)
    changed = change()
    drawn(changed if isinstance(changed, Chain) else chain, True)
    assert all(used[-1] is not batch for batch in before), "a graph would go on drawing what it drew before"


# Things that functions read

SCALE = 1.0
Made = tuple[GaussianChain, Callable[[], object]]
"""A chain, and what changes it."""
Make = Callable[[pytest.MonkeyPatch], Made]


def walking(denoiser: Any) -> GaussianChain:
    return GaussianChain(denoiser, WALK, (3,), dtype=torch.float64)


def by(read: Callable[[], Any]) -> GaussianChain:
    """A chain whose denoiser multiplies by what it reads."""
    return walking(lambda x, k: read() * torch.tanh(x))


class Settings:
    """Settings as a class."""

    scale = 1.0


class Level(int):
    """A whole number of a kind of its own."""


class Table(dict[str, float]):
    """A dictionary that has attributes, too."""


class Names(list[str]):
    """A list that has attributes, too."""


class Slotted:
    __slots__ = ("scale",)


@dataclass
class Plain:
    scale: float = 1.0


def thing(make: Callable[[], Any], read: Callable[[Any], Any], change: Callable[[Any], object]) -> Make:
    """Something that is read, and stays the same object when it is changed."""

    def made(patch: pytest.MonkeyPatch) -> Made:
        it = make()
        return by(lambda: read(it)), lambda: change(it)

    return made


def attribute_of(make: Callable[[], Any]) -> Make:
    def begun() -> Any:
        holder = make()
        holder.scale = 1.0
        return holder

    return thing(begun, lambda holder: holder.scale, lambda holder: setattr(holder, "scale", 2.0))


def entry_of(holder: Any, key: Any) -> Make:
    return thing(lambda: copy.copy(holder), lambda held: held[key], lambda held: held.__setitem__(key, 2.0))


def another(first: Any, second: Any, read: Callable[[Any], Any] = lambda value: value) -> Make:
    """A variable that is given another value."""

    def made(patch: pytest.MonkeyPatch) -> Made:
        value = first

        def change() -> None:
            nonlocal value
            value = second

        return by(lambda: read(value)), change

    return made


def as_attribute(first: Any, second: Any, read: Callable[[Any], float]) -> Make:
    """An attribute that is given another value."""
    return thing(
        lambda: types.SimpleNamespace(value=first),
        lambda holder: read(holder.value),
        lambda holder: setattr(holder, "value", second),
    )


def one() -> Tensor:
    return torch.tensor(1.0, dtype=torch.float64)


def seen_as(other: Callable[[Tensor], Tensor]) -> Make:
    """A tensor that stays the same object and lies where it lay."""
    return thing(
        lambda: torch.ones(2, 2, dtype=torch.float64),
        lambda tensor: float(tensor.sum() > 0),
        lambda tensor: setattr(tensor, "data", other(tensor.data)),
    )


def function(change: Callable[[Any], object], module: str = __name__) -> Make:
    """A function that has a default of each kind, an attribute, and code of its own."""

    def made(patch: pytest.MonkeyPatch) -> Made:
        def read(scale: float = 1.0, *, factor: float = 1.0) -> Any:
            return scale * factor * vars(read)["weight"]

        vars(read)["weight"], read.__module__ = 1.0, module
        return by(read), lambda: change(read)

    return made


def called(read: Callable[[Any], Callable[[], Any]], make: Callable[[], Any], change: Callable[[Any], object]) -> Make:
    """Something that is read by a callable of its own."""

    def made(patch: pytest.MonkeyPatch) -> Made:
        held = make()
        return by(read(held)), lambda: change(held)

    return made


def far_inside() -> tuple[Any, list[float]]:
    last = [1.0]
    inside: Any = last
    for _ in range(3):
        inside = types.SimpleNamespace(held={"a": (inside, 1)})
    return inside, last


def settings_module() -> Any:
    settings: Any = types.ModuleType("settings")
    settings.scale = 1.0
    return settings


KEPT = Plain()
LIST, ALIKE = [1], [1]
TWICE = (lambda scale=1.0, *, factor=1.0: 2 * scale * factor).__code__
UNSEEN: dict[str, Make] = {
    "a closure variable": another(1.0, 2.0),
    "another tensor": another(one(), one()),
    "a tensor in place": thing(one, lambda it: it, lambda it: it.fill_(2.0)),  # on the CPU: a graph may have copied it
    "a tensor behind its version": thing(one, lambda it: it, lambda it: it.data.fill_(2.0)),
    "a global variable": lambda patch: (by(lambda: SCALE), lambda: patch.setitem(globals(), "SCALE", 2.0)),
    "a default argument": function(lambda read: setattr(read, "__defaults__", (2.0,))),
    "a keyword's default": function(lambda read: read.__kwdefaults__.update(factor=2.0)),
    "the code of a function": called(
        lambda scale: scale, lambda: lambda scale=1.0, *, factor=1.0: scale, lambda f: setattr(f, "__code__", TWICE)
    ),
    "an attribute of a function": function(lambda read: setattr(read, "weight", 2.0)),
    "a default of a library's function": function(lambda read: setattr(read, "__defaults__", (2.0,)), "torch.nn"),
    "an argument of a partial": called(
        lambda scales: functools.partial(lambda scales: scales[0], scales),
        lambda: [1.0],
        lambda scales: scales.__setitem__(0, 2.0),
    ),
    "what a bound method reads": called(
        lambda plain: types.MethodType(lambda self: self.scale, plain), Plain, lambda plain: setattr(plain, "scale", 2)
    ),
    "what a method of a dictionary reads": called(
        lambda table: functools.partial(table.get, "scale"), lambda: {"scale": 1.0}, lambda table: table.update(scale=2)
    ),
    "an attribute of a module": attribute_of(settings_module),
    "a module that is an attribute": called(  # it is met before the function that reads it
        lambda holder: types.MethodType(lambda self: self.settings.scale, holder),
        lambda: types.SimpleNamespace(settings=settings_module()),
        lambda holder: setattr(holder.settings, "scale", 2.0),
    ),
    "an attribute of a class": lambda patch: (
        by(lambda: Settings.scale),
        lambda: patch.setattr(Settings, "scale", 2.0),
    ),
    "an object behind a weak reference": thing(
        lambda: weakref.ref(KEPT), lambda ref: ref().scale, lambda ref: setattr(ref(), "scale", 1 + ref().scale)
    ),
    "an attribute": attribute_of(types.SimpleNamespace),
    "a slot": attribute_of(Slotted),
    "a field": attribute_of(Plain),
    "an attribute of a dictionary": attribute_of(Table),
    "an attribute of a list": attribute_of(Names),
    "an entry of a dictionary": entry_of({"scale": 1.0}, "scale"),
    "an entry under a number": entry_of({3: 1.0}, 3),
    "an entry of an ordered dictionary": entry_of(OrderedDict(scale=1.0), "scale"),
    "an entry of a list": entry_of([1.0], 0),
    "an entry of a queue": entry_of(deque([1.0]), 0),
    "an entry far inside": thing(far_inside, lambda it: it[1][0], lambda it: it[1].__setitem__(0, 2.0)),
    "a number of a kind of its own": another(Level(1), Level(2), float),
    "the kind of a number": another(1, 1.0, lambda value: 2.0 if isinstance(value, int) else 1.0),
    "the sign of nothing": another(0.0, -0.0, lambda value: 1.0 if str(value) == "0.0" else 2.0),
    "a text": another("one", "two", len),
    "a tuple": another((1.0, 2.0), (1.0, 3.0), sum),
    "the kind of an attribute": as_attribute(1, True, lambda value: 2.0 if value is True else 1.0),
    "a tuple of whole numbers": as_attribute((1, 2), (1, 3), sum),
    "a tuple inside another": as_attribute(((1,), 2), ((3,), 2), lambda value: float(value[0][0])),
    "the kind of an entry": as_attribute((1,), (True,), lambda value: 2.0 if value[0] is True else 1.0),
    "the kind of a tuple": as_attribute((1,), torch.Size([1]), lambda value: 1.0 if type(value) is tuple else 2.0),
    "a key": as_attribute({"a": 1}, {"b": 1}, lambda value: 1.0 if "a" in value else 2.0),
    "the kind of a key": as_attribute({"1": 1}, {1: 1}, lambda value: 1.0 if "1" in value else 2.0),
    "the order of entries": as_attribute({"a": 1, "b": 2}, {"b": 2, "a": 1}, lambda value: 1.0 * [*value].index("a")),
    "what is empty": as_attribute((), [], lambda value: 1.0 if value == () else 2.0),
    "a set": another({1, 2}, {1, 3}, sum),
    "a kind of container": another([], {}, lambda value: 1.0 if isinstance(value, list) else 2.0),
    "a function": another(lambda: 1.0, lambda: 2.0, lambda value: value()),
    "a builtin function": another(len, sum, lambda value: float(value([1, 2]))),
    "a class": another(Plain, Settings, lambda value: 1.0 if value is Plain else 2.0),
    "a small array": thing(lambda: np.ones(3), lambda it: float(it[0]), lambda it: it.fill(2.0)),
    "a large array": thing(lambda: np.ones(100_000), lambda it: float(it[0]), lambda it: it.fill(2.0)),
    # Things that are looked at many at a time
    "the sign of nothing among others": as_attribute(
        (1, 0.0), (1, -0.0), lambda value: 1.0 if str(value[1]) == "0.0" else 2.0
    ),
    "a float in a list": as_attribute([1, 1.0, 2.0], [1, 1.0, 3.0], sum),
    "a float for another kind": as_attribute([1.0, 2], [1, 2.0], lambda value: float(isinstance(value[0], int))),
    "where one list ends": as_attribute(([1], [2, 3]), ([1, 2], [3]), lambda value: float(len(value[0]))),
    "which list is empty": as_attribute(([], [1]), ([1], []), lambda value: float(len(value[0]))),
    "whether two lists are one": as_attribute([LIST, LIST], [LIST, [1]], lambda value: float(value[0] is value[1])),
    "which of two lists is the third": as_attribute(
        [LIST, ALIKE, LIST], [LIST, ALIKE, ALIKE], lambda value: float(value[0] is value[2])
    ),
    "the key of what is inside": as_attribute([{"a": 1}], [{"b": 1}], lambda value: float("a" in value[0])),
    "the kind of a key inside": as_attribute([{1: 1}], [{True: 1}], lambda value: float(next(iter(value[0])) is True)),
    "an ordered dictionary inside": as_attribute(
        [OrderedDict(a=1)], [{"a": 1}], lambda value: float(type(value[0]) is dict)
    ),
    "a set inside": as_attribute([{1, 2}], [{1, 3}], lambda value: float(sum(value[0]))),
    "the name of an attribute": thing(  # its value, and all others, are as they were
        lambda: types.SimpleNamespace(one=1),
        lambda holder: float(hasattr(holder, "one")),
        lambda holder: setattr(holder, "two", vars(holder).pop("one")),
    ),
    "which of two tensors comes first": thing(lambda: [one()[None], one()[None]], lambda it: it[0], list.reverse),
    "the strides of a tensor": seen_as(lambda tensor: tensor.t()),
    "the kind of a tensor's numbers": seen_as(lambda tensor: tensor.view(torch.int64)),
}


# Things that belong to the class of a model


class ByClass:
    """A denoiser whose scale belongs to its class."""

    scale = 1.0

    def __call__(self, x: Tensor, k: Tensor) -> Tensor:
        return self.scale * torch.tanh(x)


class ByGlobal:
    """A denoiser whose method reads a global variable."""

    def __call__(self, x: Tensor, k: Tensor) -> Tensor:
        return SCALE * torch.tanh(x)


class ByProperty:
    """A denoiser whose scale is worked out, and whose method has a default."""

    @property
    def scale(self) -> float:
        return 1.0

    def __call__(self, x: Tensor, k: Tensor, factor: float = 1.0) -> Tensor:
        return factor * self.scale * torch.tanh(x)


class GlobalModule(nn.Module):
    """A network whose `forward` reads a global variable."""

    def forward(self, x: Tensor, k: Tensor) -> Tensor:
        return SCALE * torch.tanh(x)


class Inheriting(ByClass):
    """A denoiser whose scale belongs to the class that its own inherits from."""


def doubled(self: Any, x: Tensor, k: Tensor | None = None) -> Tensor:
    return 2 * torch.tanh(x)


def of_a_class(kind: Callable[[], Any], owner: Any, name: str, value: Any = 2.0) -> Make:
    def change(patch: pytest.MonkeyPatch) -> None:
        patch.setitem(owner, name, value) if isinstance(owner, dict) else patch.setattr(owner, name, value)

    return lambda patch: (walking(kind()), lambda: change(patch))


OF_A_CLASS: dict[str, Make] = {
    "an attribute of its class": of_a_class(ByClass, ByClass, "scale"),
    "an attribute that its class inherits": of_a_class(Inheriting, ByClass, "scale"),
    "a method": of_a_class(ByClass, ByClass, "__call__", doubled),
    "a property": of_a_class(ByProperty, ByProperty, "scale"),
    "a default of a method": of_a_class(ByProperty, ByProperty.__call__, "__defaults__", (2.0,)),
    "a global variable that a method reads": of_a_class(ByGlobal, globals(), "SCALE"),
    "a global variable that forward reads": of_a_class(GlobalModule, globals(), "SCALE"),
    "forward": of_a_class(GlobalModule, GlobalModule, "forward", doubled),
    # of classes of libraries it is remembered how they are laid out, and not what they do
    "a method put into a class of torch": of_a_class(
        Network, nn.Linear, "forward", lambda self, x: 2 * nn.functional.linear(x, self.weight, self.bias)
    ),
}


# Networks and chains


class Renamed(Network):
    """Another class of networks that is made alike."""


class One(nn.Identity):
    """A layer."""


class Two(nn.Identity):
    """Another."""


def of_a_network(change: Callable[[Any], Any]) -> Make:
    """Some of its layers are alike, and looked at together."""

    def made(patch: pytest.MonkeyPatch) -> Made:
        chain: Any = module()
        last = chain.denoiser.last
        last.extra, last.more, last.third = One(), Two(), One()
        return chain, lambda: change(chain.denoiser)

    return made


def of_a_chain(change: Callable[[Any], Any]) -> Make:
    def made(patch: pytest.MonkeyPatch) -> Made:
        chain = module()
        return chain, lambda: change(chain)

    return made


OF_A_NETWORK: dict[str, Make] = {f"parts of a network, {f.__name__}": of_a_network(f) for f in REPLACED} | {
    "another class": of_a_network(lambda network: setattr(network, "__class__", Renamed)),
    "another class of a layer": of_a_network(
        lambda network: setattr(network.last, "__class__", type("Other", (nn.Linear,), {}))
    ),
    "a method of a layer": of_a_network(lambda network: setattr(network.last, "forward", lambda x: x[..., :3])),
    "whether two layers are one": of_a_network(lambda network: setattr(network.last, "extra", network.last.more)),
    "which layer is of which class": of_a_network(lambda network: setattr(network.last.third, "__class__", Two)),
    "training": of_a_network(lambda network: network.train() and None),
    "training of a part": of_a_network(lambda network: network.drop.train() and None),
    "dropout": of_a_network(lambda network: setattr(network.drop, "p", 0.3)),
    "a buffer": of_a_network(lambda network: network.register_buffer("extra", torch.ones(1))),
    "weights elsewhere": of_a_network(lambda network: network.float().double() and None),
    "denoiser": of_a_chain(put("denoiser", Network())),
    "dtype": of_a_chain(lambda chain: chain.replace(dtype=torch.float32, denoiser=lambda x, k: x)),
    "record": of_a_chain(put("record", (2,))),
    "known entries": of_a_chain(put("known", KNOWN)),
    "schedule": of_a_chain(put("schedule", Walk((0.3,) * 6))),
}
CHANGED = UNSEEN | OF_A_CLASS | OF_A_NETWORK


@pytest.mark.parametrize("name", CHANGED)
def test_what_a_graph_cannot_see_is_captured_anew(
    name: str, used: list[CapturedBatch], monkeypatch: pytest.MonkeyPatch
) -> None:
    chain, change = CHANGED[name](monkeypatch)
    assert_captured_anew(chain, change, used)


def test_a_single_number_of_any_stride(used: list[CapturedBatch]) -> None:
    """One entry cut out of a wider table on the CPU: its neighbours say nothing, and it is looked at."""
    table = torch.tensor([[0.1, 0.2, 0.3]])
    shift = table[:, 1]
    assert shift.stride() != (1,)
    chain = GaussianChain(lambda x, k: x / 10 + shift, WALK, (2,))
    drawn(chain, True)
    table[0, 0] = 5.0
    drawn(chain, True)
    assert used[0] is used[1]
    assert_captured_anew(chain, lambda: table[:, 1].mul_(2), used)


def test_nan_is_as_it_was(used: list[CapturedBatch]) -> None:
    """It is not equal to itself."""
    nan, holder = float("nan"), types.SimpleNamespace(values=[float("nan"), 1.0])
    chain = by(lambda: float(nan != holder.values[0]))
    drawn(chain, True)
    drawn(chain, True)
    assert used[0] is used[1]


def test_another_copy_of_a_model_is_captured_anew(used: list[CapturedBatch]) -> None:
    """Its weights lie elsewhere. And the one that was copied goes on with its own."""
    chain = module()
    drawn(chain, True)
    drawn(walking(copy.deepcopy(chain.denoiser)), True)
    drawn(chain.replace(denoiser=copy.deepcopy(chain.denoiser)), True)
    drawn(chain, True)
    assert len({id(batch) for batch in used[:3]}) == 3 and used[3] is used[0]


def test_a_part_in_the_place_of_another_is_not_taken_for_it(used: list[CapturedBatch]) -> None:
    """A new layer may lie where an old one has just been: where it lies is not all that is compared."""
    chain: Any = module()
    weight = chain.denoiser.last.weight
    for _ in range(6):
        chain.denoiser.last = None
        chain.denoiser.last = nn.Linear(8, 3).double()
        chain.denoiser.last.weight = weight
        drawn(chain, True)
    assert len({id(batch.paths) for batch in used}) == 6


def test_methods_of_builtins_that_come_and_go_are_not_taken_for_each_other(used: list[CapturedBatch]) -> None:
    """Python makes them where one was before."""
    tensors = [torch.full((3,), float(i), dtype=torch.float64) for i in range(6)]
    multiplied = tensors[0].mul

    def denoiser(x: Tensor, k: Tensor) -> Tensor:
        return multiplied(x)

    chain = walking(denoiser)
    for tensor in tensors:
        multiplied = tensor.mul
        drawn(chain, True)
    assert len({id(batch.paths) for batch in used}) == len(tensors)


def test_a_change_in_the_middle_of_a_call_is_not_kept(used: list[CapturedBatch]) -> None:
    """What was captured partly before and partly after it is of no use to anyone."""
    chain: Any = module()

    def change(report: Report) -> None:
        if report.rounds == 1:
            chain.denoiser.scale = 0.5

    da.sample(chain, NUMBER, sampler=Coupled(3), seed=1, graphs=True, on_round=change)
    for scale in (0.5, 1.0):
        chain.denoiser.scale = scale
        drawn(chain, True)
        assert used[-1] is not used[0]


def test_what_nobody_reads_may_change(used: list[CapturedBatch], monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: a model that this one does not know of, a global that it does not name."""
    chain, other = module(), Network(1)
    drawn(chain, True)
    added(scaled(other))
    monkeypatch.setitem(globals(), "SCALE", 2.0)
    monkeypatch.setattr(Settings, "scale", 2.0)
    drawn(chain, True)
    assert used[0] is used[1]


def test_a_library_that_a_model_holds_is_not_walked_through(used: list[CapturedBatch]) -> None:
    library = Plain()
    library.torch, library.numpy = torch, np  # type: ignore[attr-defined]
    chain = by(lambda: float(library.torch.ones(())))  # type: ignore[attr-defined]
    guard = Guard({"model": chain.denoiser})
    guard.go_on()
    assert len(guard.marks) < 2000
    for _ in range(2):
        drawn(chain, True)
    assert used[0] is used[1]


# What cannot be looked into


def generated() -> Iterator[float]:
    while True:
        yield 1.0


OPAQUE: dict[str, tuple[Callable[[], Any], Callable[[Any], float]]] = {
    "a generator": (generated, next),
    "an iterator": (lambda: itertools.repeat(1.0), next),
    "an open file": (lambda: io.TextIOWrapper(io.BytesIO(b"1.0\n" * 9_999)), lambda file: float(file.readline())),
    "an open file of bytes": (lambda: io.BytesIO(b"1\n" * 9_999), lambda file: float(file.readline())),
    "a random generator": (lambda: random.Random(0), lambda source: source.random()),
    "one of torch": (torch.Generator, lambda source: float(torch.rand(1, generator=source))),
    "one of numpy": (lambda: np.random.default_rng(0), lambda source: float(source.random())),
    "memory": (lambda: memoryview(bytearray(b"\x01")), lambda view: float(view[0])),
    "objects in a set": (lambda: {Plain, Settings}, lambda kinds: float(len(kinds))),
}


@pytest.mark.parametrize("name", OPAQUE)
def test_what_cannot_be_looked_into_is_captured_once(name: str, used: list[CapturedBatch]) -> None:
    """Whether it answers otherwise later is for the canary to find: see tests/test_canary.py."""
    make, read = OPAQUE[name]
    held = make()
    chain = by(lambda: read(held))
    for _ in range(3):
        drawn(chain, True)
    assert len({id(batch) for batch in used}) == 1


def raising(*arguments: Any) -> Any:
    raise RuntimeError("ask me not")


class Strange:
    __getattr__ = __len__ = __iter__ = captured_parts = raising
    func = __dict__ = property(raising)


STRANGE: dict[str, Callable[[], Any]] = {
    "dates": lambda: np.array(["2026-01-01"], "M8[D]"),
    "a date": lambda: np.datetime64("2026-01-01"),
    "a span": lambda: np.timedelta64(1, "s"),
    "records with dates": lambda: np.zeros(2, [("when", "M8[s]"), ("count", "i4")]),
    "a loader of libraries": lambda: ctypes.cdll,
    "an object whose attributes raise": Strange,
    "a list without a length": lambda: type("Odd", (list,), {"__len__": raising})(),
    "a number without a repr": lambda: type("Odd", (int,), {"__repr__": raising})(),
    "a class whose class raises": lambda: type("Kind", (type,), {"__getattr__": raising})("Odd", (), {})(),
    "a sparse tensor": lambda: torch.eye(3).to_sparse(),
    "a proxy of what is gone": lambda: weakref.proxy(Plain()),
}


@pytest.mark.parametrize("name", STRANGE)
def test_nothing_that_a_model_holds_makes_the_guard_fail(name: str, used: list[CapturedBatch]) -> None:
    held = STRANGE[name]()
    chain = by(lambda: 1.0 if held is not None else 0.0)
    for _ in range(3):
        drawn(chain, True)
    assert len({id(batch) for batch in used}) == 1


def test_another_date_is_captured_anew(used: list[CapturedBatch]) -> None:
    dates = np.array(["2026-01-01", "2026-01-02"], "M8[D]")

    def later() -> None:
        dates[0] = np.datetime64("2026-01-02")

    assert_captured_anew(by(lambda: float(dates[0] == dates[1])), later, used)


def test_an_opaque_model_is_not_held() -> None:
    source = generated()
    chain = by(lambda: next(source))
    reference = weakref.ref(chain)
    drawn(chain, True)
    del chain
    gc.collect()
    assert reference() is None


# What torch is told for all models

HOOKS: list[Any] = []
MODES = contextlib.ExitStack()


class Doubling(torch.overrides.TorchFunctionMode):
    """What every function of torch answers, changed."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


TORCH: dict[str, Callable[[], object]] = {
    "a hook for all modules": lambda: HOOKS.append(nn.modules.module.register_module_forward_hook(lambda *given: None)),
    "a mode of torch": lambda: MODES.enter_context(Doubling()),
    "autocast": lambda: torch.set_autocast_enabled("cpu", True),
    "default dtype": lambda: torch.set_default_dtype(torch.float64),
    "precision of products": lambda: torch.set_float32_matmul_precision("medium"),
    "choice of kernels": lambda: setattr(torch.backends.cudnn, "benchmark", not torch.backends.cudnn.benchmark),
}


@pytest.fixture
def _torch_put_back() -> Iterator[None]:
    dtype, precision = torch.get_default_dtype(), torch.get_float32_matmul_precision()
    chosen = torch.backends.cudnn.benchmark
    yield
    MODES.close()
    while HOOKS:
        HOOKS.pop().remove()
    torch.backends.cudnn.benchmark = chosen
    torch.set_autocast_enabled("cpu", False)
    torch.set_default_dtype(dtype)
    torch.set_float32_matmul_precision(precision)


@pytest.mark.usefixtures("_torch_put_back")
@pytest.mark.parametrize("name", TORCH)
def test_what_torch_is_told_for_all_models_is_captured_anew(name: str, used: list[CapturedBatch]) -> None:
    weight = torch.randn(3, 3, generator=torch.Generator().manual_seed(0))
    chain = walking(lambda x, k: torch.tensor(0.3) * (x.float() @ weight).double())
    assert_captured_anew(chain, TORCH[name], used)


@pytest.mark.parametrize("make", [spins, module], ids=lambda make: make.__name__)
def test_with_nothing_changed_five_calls_have_one_batch(make: Callable[[], Chain], used: list[CapturedBatch]) -> None:
    """A control of all the above."""
    chain = make()
    for seed in range(5):
        drawn(chain, True, seed=seed)
    assert len({id(batch) for batch in used}) == 1
