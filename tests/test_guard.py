"""The guard: captured rounds are used again only while nothing has changed that a CUDA graph could not see.

On a CPU captured rounds run as they are, so samples are right whether or not something is captured anew (and
tests/test_state.py checks that they are). What is looked at here is which batch a call is given: a graph would go on
doing what was done when it was captured.
"""

from __future__ import annotations

import contextlib
import copy
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
from drawahead.rounds.captured import CapturedBatch
from drawahead.rounds.guard import Guard
from tests.changes import (
    IN_PLACE,
    KNOWN,
    NUMBER,
    REPLACED,
    WALK,
    Network,
    added,
    batches_used,
    drawn,
    module,
    on,
    put,
    same,
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

    def __init__(self) -> None:
        self.scale = 1.0


@dataclass
class Plain:
    scale: float = 1.0


def closure_variable() -> Made:
    scale = 1.0

    def denoiser(x: Tensor, k: Tensor) -> Tensor:
        return scale * torch.tanh(x)

    def change() -> None:
        nonlocal scale
        scale = 2.0

    return walking(denoiser), change


def variable_of_an_inner_function() -> Made:
    scale = 1.0

    def inner() -> float:
        return scale

    def change() -> None:
        nonlocal scale
        scale = 2.0

    return by(lambda: inner()), change


def tensor_in_a_closure() -> Made:
    scale = torch.tensor(1.0, dtype=torch.float64)

    def change() -> None:
        nonlocal scale
        scale = torch.tensor(1.0, dtype=torch.float64)

    return by(lambda: scale), change


def tensor_in_place() -> Made:
    """On the CPU: a graph may have copied it."""
    scale = torch.tensor(1.0, dtype=torch.float64)
    return by(lambda: scale), lambda: scale.fill_(2.0)


def tensor_behind_its_version() -> Made:
    """What is changed through `.data`, as by some optimisers, leaves no trace but the number."""
    scale = torch.tensor(1.0, dtype=torch.float64)
    return by(lambda: scale), lambda: scale.data.fill_(2.0)


def global_variable() -> Made:
    return by(lambda: SCALE), lambda: globals().__setitem__("SCALE", 2.0)


def default_argument() -> Made:
    def denoiser(x: Tensor, k: Tensor, scale: float = 1.0) -> Tensor:
        return scale * torch.tanh(x)

    return walking(denoiser), lambda: setattr(denoiser, "__defaults__", (2.0,))


def keyword_default() -> Made:
    def denoiser(x: Tensor, k: Tensor, *, scale: float = 1.0) -> Tensor:
        return scale * torch.tanh(x)

    return walking(denoiser), lambda: denoiser.__kwdefaults__.update(scale=2.0)


def code_of_a_function() -> Made:
    def denoiser(x: Tensor, k: Tensor) -> Tensor:
        return torch.tanh(x)

    def other(x: Tensor, k: Tensor) -> Tensor:
        return 2 * torch.tanh(x)

    return walking(denoiser), lambda: setattr(denoiser, "__code__", other.__code__)


def attribute_of_a_function() -> Made:
    def read() -> Any:
        return vars(read)["scale"]

    vars(read)["scale"] = 1.0
    return by(read), lambda: setattr(read, "scale", 2.0)


def argument_of_a_partial() -> Made:
    scales = [1.0]
    return by(functools.partial(lambda scales: scales[0], scales)), lambda: scales.__setitem__(0, 2.0)


def bound_method() -> Made:
    plain = Plain()
    return by(types.MethodType(lambda self: self.scale, plain)), lambda: setattr(plain, "scale", 2.0)


def method_of_a_dictionary() -> Made:
    table = {"scale": 1.0}
    read = table.get
    return by(lambda: read("scale")), lambda: table.update(scale=2.0)


def attribute_of_a_module() -> Made:
    settings: Any = types.ModuleType("settings")
    settings.scale = 1.0
    return by(lambda: settings.scale), lambda: setattr(settings, "scale", 2.0)


def attribute_of_a_class() -> Made:
    return by(lambda: Settings.scale), lambda: setattr(Settings, "scale", 2.0)


def attribute_of(make: Callable[[], Any]) -> Callable[[], Made]:
    def made() -> Made:
        holder = make()
        holder.scale = 1.0
        return by(lambda: holder.scale), lambda: setattr(holder, "scale", 2.0)

    return made


def entry_of(holder: Any, key: Any) -> Callable[[], Made]:
    def made() -> Made:
        held = copy.copy(holder)
        return by(lambda: held[key]), lambda: held.__setitem__(key, 2.0)

    return made


def another(first: Any, second: Any, read: Callable[[Any], float]) -> Callable[[], Made]:
    """A variable that is given another value."""

    def made() -> Made:
        value = first

        def change() -> None:
            nonlocal value
            value = second

        return by(lambda: read(value)), change

    return made


def as_attribute(first: Any, second: Any, read: Callable[[Any], float]) -> Callable[[], Made]:
    """An attribute that is given another value."""

    def made() -> Made:
        holder = types.SimpleNamespace(value=first)
        return by(lambda: read(holder.value)), lambda: setattr(holder, "value", second)

    return made


def array(size: int) -> Callable[[], Made]:
    def made() -> Made:
        numbers = np.ones(size)
        return by(lambda: float(numbers[0])), lambda: numbers.fill(2.0)

    return made


def behind_a_weak_reference() -> Made:
    plain = Plain()
    reference = weakref.ref(plain)

    def read() -> float:
        found = reference()
        return 0.0 if found is None else found.scale

    return by(read), lambda: setattr(plain, "scale", 2.0)


LIST, ALIKE = [1], [1]


def module_as_attribute() -> Made:
    """It is met before the function that reads it."""
    settings: Any = types.ModuleType("settings")
    settings.scale = 1.0
    holder = types.SimpleNamespace(settings=settings)
    read = types.MethodType(lambda self: self.settings.scale, holder)
    return by(read), lambda: setattr(settings, "scale", 2.0)


def entry_far_inside() -> Made:
    last = [1.0]
    inside: Any = last
    for _ in range(3):
        inside = types.SimpleNamespace(held={"a": (inside, 1)})
    return by(lambda: inside and last[0]), lambda: last.__setitem__(0, 2.0)


def name_of_an_attribute() -> Made:
    """Its value, and all others, are as they were."""
    holder = types.SimpleNamespace(one=1)

    def change() -> None:
        holder.two = vars(holder).pop("one")

    return by(lambda: float(hasattr(holder, "one"))), change


def tensors_swapped() -> Made:
    held = [torch.ones(1, dtype=torch.float64) for _ in range(2)]
    return by(lambda: held[0]), held.reverse


def tensor_seen_as(other: Callable[[Tensor], Tensor]) -> Callable[[], Made]:
    """It stays the same object and lies where it lay."""

    def made() -> Made:
        tensor = torch.ones(2, 2, dtype=torch.float64)
        return by(lambda: float(tensor.sum() > 0)), lambda: setattr(tensor, "data", other(tensor.data))

    return made


def default_of_a_library() -> Made:
    """A function that says it is torch's."""

    def read(scale: float = 1.0) -> float:
        return scale

    read.__module__ = "torch.nn"
    return by(read), lambda: setattr(read, "__defaults__", (2.0,))


UNSEEN: dict[str, Callable[[], Made]] = {
    "a closure variable": closure_variable,
    "a variable of an inner function": variable_of_an_inner_function,
    "another tensor": tensor_in_a_closure,
    "a tensor in place": tensor_in_place,
    "a tensor behind its version": tensor_behind_its_version,
    "a global variable": global_variable,
    "a default argument": default_argument,
    "a keyword's default": keyword_default,
    "the code of a function": code_of_a_function,
    "an attribute of a function": attribute_of_a_function,
    "an argument of a partial": argument_of_a_partial,
    "what a bound method reads": bound_method,
    "what a method of a dictionary reads": method_of_a_dictionary,
    "an attribute of a module": attribute_of_a_module,
    "an attribute of a class": attribute_of_a_class,
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
    "a small array": array(3),
    "a large array": array(100_000),
    "an object behind a weak reference": behind_a_weak_reference,
    "a module that is an attribute": module_as_attribute,
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
    "an entry far inside": entry_far_inside,
    "the key of what is inside": as_attribute([{"a": 1}], [{"b": 1}], lambda value: float("a" in value[0])),
    "the kind of a key inside": as_attribute([{1: 1}], [{True: 1}], lambda value: float(next(iter(value[0])) is True)),
    "an ordered dictionary inside": as_attribute(
        [OrderedDict(a=1)], [{"a": 1}], lambda value: float(type(value[0]) is dict)
    ),
    "a set inside": as_attribute([{1, 2}], [{1, 3}], lambda value: float(sum(value[0]))),
    "the name of an attribute": name_of_an_attribute,
    "which of two tensors comes first": tensors_swapped,
    "the strides of a tensor": tensor_seen_as(lambda tensor: tensor.t()),
    "the kind of a tensor's numbers": tensor_seen_as(lambda tensor: tensor.view(torch.int64)),
    "a default of a library's function": default_of_a_library,
}


@pytest.mark.parametrize("name", UNSEEN)
def test_what_a_graph_cannot_see_is_captured_anew(
    name: str, used: list[CapturedBatch], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), "SCALE", 1.0)
    monkeypatch.setattr(Settings, "scale", 1.0)
    chain, change = UNSEEN[name]()
    assert_captured_anew(chain, change, used)


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


def doubled(self: Any, x: Tensor, k: Tensor) -> Tensor:
    return 2 * torch.tanh(x)


Patch = Callable[[pytest.MonkeyPatch], None]
OF_A_CLASS: dict[str, tuple[type, Patch]] = {
    "an attribute of it": (ByClass, lambda patch: patch.setattr(ByClass, "scale", 2.0)),
    "an attribute that it inherits": (Inheriting, lambda patch: patch.setattr(ByClass, "scale", 2.0)),
    "a method": (ByClass, lambda patch: patch.setattr(ByClass, "__call__", doubled)),
    "a property": (ByProperty, lambda patch: patch.setattr(ByProperty, "scale", 2.0)),
    "a default of a method": (ByProperty, lambda patch: patch.setattr(ByProperty.__call__, "__defaults__", (2.0,))),
    "a global variable that a method reads": (ByGlobal, lambda patch: patch.setitem(globals(), "SCALE", 2.0)),
    "a global variable that forward reads": (GlobalModule, lambda patch: patch.setitem(globals(), "SCALE", 2.0)),
    "forward": (GlobalModule, lambda patch: patch.setattr(GlobalModule, "forward", doubled)),
}


@pytest.mark.parametrize("name", OF_A_CLASS)
def test_what_belongs_to_a_class_is_captured_anew(
    name: str, used: list[CapturedBatch], monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, change = OF_A_CLASS[name]
    assert_captured_anew(walking(kind()), lambda: change(monkeypatch), used)


# Networks and chains


@pytest.mark.parametrize("change", REPLACED, ids=lambda change: change.__name__)
def test_another_part_of_a_network_is_captured_anew(
    change: Callable[[Network], Network], used: list[CapturedBatch]
) -> None:
    chain = module()
    assert_captured_anew(chain, lambda: change(chain.denoiser), used)  # type: ignore[arg-type]


class Renamed(Network):
    """Another class of networks that is made alike."""


def hooked(network: Any) -> None:
    network.last.register_forward_hook(lambda module, given, answer: 2 * answer)


class One(nn.Identity):
    """A layer."""


class Two(nn.Identity):
    """Another."""


def tied(network: Any) -> None:
    """What the second of two layers had is the first one's."""
    network.last.extra = network.last.more


PARTS: dict[str, Callable[[Any], object]] = {
    "a hook": hooked,
    "another class": lambda network: setattr(network, "__class__", Renamed),
    "another class of a layer": lambda network: setattr(network.last, "__class__", type("Other", (nn.Linear,), {})),
    "a method of a layer": lambda network: setattr(network.last, "forward", lambda x: x[..., :3]),
    "whether two layers are one": tied,
    "which layer is of which class": lambda network: setattr(network.last.third, "__class__", Two),
}


@pytest.mark.parametrize("name", PARTS)
def test_modules_that_are_looked_at_together_are_told_apart(name: str, used: list[CapturedBatch]) -> None:
    chain: Any = module()
    last = chain.denoiser.last
    last.extra, last.more, last.third = One(), Two(), One()
    assert_captured_anew(chain, lambda: PARTS[name](chain.denoiser), used)


def test_a_method_put_into_a_class_of_torch_is_captured_anew(
    used: list[CapturedBatch], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of classes of libraries it is remembered how they are laid out, and not what they do."""
    forward = nn.Linear.forward

    def doubled(self: nn.Linear, x: Tensor) -> Tensor:
        return 2 * forward(self, x)

    assert_captured_anew(module(), lambda: monkeypatch.setattr(nn.Linear, "forward", doubled), used)


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


@pytest.mark.parametrize("change", IN_PLACE, ids=lambda change: change.__name__)
def test_weights_in_place_are_read_where_they_lie(change: Callable[[Network], Network]) -> None:
    """Whether they are captured anew or not."""
    chain = module()
    drawn(chain, True)
    change(chain.denoiser)  # type: ignore[arg-type]
    assert same(drawn(chain, True), drawn(module(change), True))


SETTINGS: dict[str, Callable[[Any], object]] = {
    "denoiser": put("denoiser", Network()),
    "dtype": lambda chain: chain.replace(dtype=torch.float32, denoiser=lambda x, k: x),
    "record": put("record", (2,)),
    "known entries": put("known", KNOWN),
    "schedule": put("schedule", Walk((0.3,) * 6)),
    "training": on("denoiser", lambda network: network.train()),
    "training of a part": on("denoiser.drop", lambda part: part.train()),
    "dropout": put("denoiser.drop.p", 0.3),
    "a buffer": on("denoiser", lambda network: network.register_buffer("extra", torch.ones(1))),
    "weights elsewhere": on("denoiser", lambda network: network.float().double()),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_another_setting_is_captured_anew(name: str, used: list[CapturedBatch]) -> None:
    chain = module()
    assert_captured_anew(chain, lambda: SETTINGS[name](chain), used)


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
