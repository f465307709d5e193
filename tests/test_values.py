"""What is made once cannot be changed, and whoever tries is told what to write instead."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pickle
from typing import Any

import pytest
import torch

import drawahead as da
from tests.test_exports import MODULES


def public_values() -> list[type]:
    """Every frozen dataclass that some package or module exports."""
    modules = [importlib.import_module(name) for name in ["drawahead", *MODULES]]
    exported = {getattr(module, name) for module in modules for name in getattr(module, "__all__", [])
                if inspect.isclass(getattr(module, name))}  # fmt: skip
    return sorted((kind for kind in exported if dataclasses.is_dataclass(kind)), key=str)


VALUES = public_values()


@pytest.mark.parametrize("kind", VALUES, ids=lambda kind: f"{kind.__module__}.{kind.__name__}")
def test_assigning_to_a_value_says_what_to_write(kind: type[Any]) -> None:
    value = object.__new__(kind)
    field = next((field.name for field in dataclasses.fields(kind) if field.init), None)
    remedy = (
        rf"this {kind.__name__} cannot be changed: dataclasses.replace\({kind.__name__.lower()}, %s\) makes another"
    )
    for attribute, written in [(field, f"{field}=...")] * bool(field) + [("nothing_such", "...")]:
        with pytest.raises(da.InputError, match=remedy % written):
            setattr(value, attribute, 1)
        with pytest.raises(dataclasses.FrozenInstanceError, match=remedy % written):
            delattr(value, attribute)


def test_chains_plans_schedules_samplers_are_among_them() -> None:
    names = {kind.__name__ for kind in VALUES}
    assert names >= {kind.__name__ for kind in da.samplers.SAMPLERS.values()} | {"Plan", "StackedPlan", "DDPM", "Churn"}
    assert all(vars(kind)["__dataclass_params__"].frozen for kind in VALUES)


def test_chains_and_their_conditions() -> None:
    chain = da.GaussianChain(lambda x, time, label: x, da.DDPM(), (2,), condition={"label": torch.zeros(1)})
    with pytest.raises(da.InputError, match=r"this GaussianChain cannot be changed: chain.replace\(condition=...\)"):
        chain.condition = None  # type: ignore[misc, assignment]
    with pytest.raises(da.InputError, match=r"this condition cannot be changed: chain.replace\(condition=...\)"):
        chain.condition["label"] = torch.ones(1)


def test_values_are_copied_pickled_and_replaced() -> None:
    sampler = da.Coupled(window=8)
    again = pickle.loads(pickle.dumps(dataclasses.replace(sampler, window=4)))
    assert again == da.Coupled(window=4) and hash(again) == hash(da.Coupled(window=4)) and sampler.window == 8
