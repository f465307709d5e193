"""The page of licences names everything that pyproject.toml asks for, and the data of the shipped weights."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "licences.md").read_text()
ROWS = {
    name.lower(): (licence, wanted) for name, licence, wanted in re.findall(r"\| (\S+) \| \S+ \| (.+) \| (.+) \|", PAGE)
}


@pytest.fixture(scope="module")
def licences() -> ModuleType:
    spec = importlib.util.spec_from_file_location("licences", ROOT / "tools" / "licences.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["licences"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_every_dependency_is_on_the_page(licences: ModuleType) -> None:
    asked = licences.asked()
    assert {"core", "cli", "test", "all"} <= {*asked}
    for extra, requirements in asked.items():
        for requirement in requirements:
            if requirement.name == "drawahead":
                continue
            licence, wanted = ROWS[requirement.name.lower()]
            assert licence and "not installed" not in licence, requirement.name
            assert wanted == "core" or extra in wanted.split(", "), (requirement.name, extra)


def test_nothing_is_on_the_page_that_nobody_asks_for(licences: ModuleType) -> None:
    section = PAGE.split("## What comes with these")[0]
    named = {name.lower() for name in re.findall(r"(?m)^\| (\S+) \| \S+ \| .+ \|$", section)} - {"package"}
    assert named == {*licences.direct()}


def test_every_shipped_network_has_its_data_on_the_page(licences: ModuleType) -> None:
    weights = {path.stem for path in (ROOT / "models/drawahead_models").glob("*.safetensors")}
    assert weights == {name for name, _, _ in licences.cards()}
    flat = " ".join(PAGE.split())
    for name, _, data in licences.cards():
        assert f"**[{name}]" in flat and data in flat


def test_licences_are_read_from_metadata(licences: ModuleType) -> None:
    assert licences.licence(licences.distribution("pytest")) == "MIT"
    assert "torch" in licences.direct() and "sympy" in licences.indirect()
    assert licences._found("no-such-package").licence == "not installed here"
