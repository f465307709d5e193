"""What is exported is there, sorted, and needs nothing but torch and numpy."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import drawahead
from drawahead.doors import Room

MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(drawahead.__path__, "drawahead.")
    if not module.name.endswith(
        ("__main__", "_cuda")
    )  # CUDA kernels need Triton, which comes with CUDA builds of torch
)

BLOCKED = ("typer", "rich", "matplotlib", "scipy", "click", "pandas", "tqdm", "ray", "diffusers", "transformers")

SCRIPT = f"""
import sys
from collections.abc import Iterator

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {BLOCKED!r}:
            raise ImportError(name + " is blocked")

sys.meta_path.insert(0, Blocker())
import drawahead as da
assert not set(sys.modules) & set({BLOCKED!r})
for sampler in da.samplers.SAMPLERS.values():
    if sampler.guarantee.exact:
        assert da.sample(da.targets.Ising.grid(2, 2), 3, sampler=sampler(), seed=0).samples.shape == (3, 4)
import drawahead.verification.statistics
"""


def order(name: str) -> tuple[int, str]:
    """Constants, then classes, then the rest: how ruff (RUF022) sorts."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2), name


def test_exports() -> None:
    for name in ["drawahead", *MODULES]:
        module = importlib.import_module(name)
        exported = getattr(module, "__all__", [])
        assert list(exported) == sorted(set(exported), key=order), name
        assert all(hasattr(module, attribute) for attribute in exported), name


ROOMS = [name for name in MODULES if isinstance(importlib.import_module(name), Room)]


@pytest.mark.parametrize("name", ROOMS)
def test_doors_open(name: str) -> None:
    room = importlib.import_module(name)
    homes = vars(room)["_homes"]
    assert sorted(homes) == sorted(room.__all__) == dir(room)
    for one, home in homes.items():
        part = getattr(room, one)
        assert part is getattr(importlib.import_module(home), one) or part.__name__ == f"{home}.{one}"
    with pytest.raises(AttributeError, match=f"{name} has no 'nothing_such'"):
        _ = room.nothing_such


def test_the_names_other_work_relies_on() -> None:
    names = """
    HIDDEN AnswerError Block Categorical Chain CountingOracle Coupled DrawaheadError FunctionOracle InputError
    Local Recursive Rejection Report Result Sampler SamplingError Sequential Stepwise TokenChain TokenOracle
    rejection sample samplers speculative_rejection targets
    """
    assert set(drawahead.__all__) >= {*names.split()}
    assert all(not name.startswith("_") for name in drawahead.__all__)


def test_the_core_needs_only_torch_and_numpy() -> None:
    package = str(Path(drawahead.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env={"PYTHONPATH": package}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


TWICE = {
    "chain": "rtk and ardiffusion make one each, of what they draw",
    "sample": "da.sample draws from chains, rtk and ardiffusion from what they have",
    "named": "samplers and targets are found by their names",
    "page": "of samples, and of designs",
}
"""Exported functions that share a name, and why."""


def classes() -> Iterator[tuple[str, str]]:
    """Every class of the package, by name and place."""
    for path in Path(drawahead.__file__).parent.rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                yield node.name, str(path)


def exported_functions() -> Iterator[tuple[str, str]]:
    for module in map(importlib.import_module, MODULES):
        for name in getattr(module, "__all__", []):
            if inspect.isfunction(thing := getattr(module, name)):
                yield name, thing.__module__


def test_a_name_means_one_thing() -> None:
    """All classes, and the functions that are exported: others are called by the name of their module, too."""
    homes: dict[str, set[str]] = {}
    for name, place in [*classes(), *exported_functions()]:
        homes.setdefault(name, set()).add(place)
    assert {name for name, places in homes.items() if len(places) > 1} == TWICE.keys()
