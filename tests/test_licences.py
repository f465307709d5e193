"""The page of licences names everything that pyproject.toml asks for, and the data of the shipped weights."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools import licences

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "licences.md").read_text()
ROWS = {
    name.lower(): (licence, wanted) for name, licence, wanted in re.findall(r"\| (\S+) \| \S+ \| (.+) \| (.+) \|", PAGE)
}


def test_every_dependency_is_on_the_page() -> None:
    asked = licences.asked()
    assert {"core", "cli", "test", "all"} <= {*asked}
    for extra, requirements in asked.items():
        for requirement in requirements:
            if requirement.name == "drawahead":
                continue
            licence, wanted = ROWS[requirement.name.lower()]
            assert licence and "not installed" not in licence, requirement.name
            assert wanted == "core" or extra in wanted.split(", "), (requirement.name, extra)


def test_nothing_is_on_the_page_that_nobody_asks_for() -> None:
    section = PAGE.split("## What comes with these")[0]
    named = {name.lower() for name in re.findall(r"(?m)^\| (\S+) \| \S+ \| .+ \|$", section)} - {"package"}
    assert named == {*licences.direct()}


def test_every_shipped_network_has_its_data_on_the_page() -> None:
    weights = {path.stem for path in (ROOT / "models/drawahead_models").glob("*.safetensors")}
    assert weights == {name for name, _, _ in licences.cards()}
    flat = " ".join(PAGE.split())
    for name, _, data in licences.cards():
        assert f"**[{name}]" in flat and data in flat


LOCKED = re.findall(r"(?m)^([\w.-]+)==\S+((?:.*\\\n)*.*)", (ROOT / "constraints.txt").read_text())
ALLOWED = {
    *("MIT", "MIT-CMU", "MIT License", "BSD License", "3-Clause BSD License", "BSD-2-Clause", "BSD-3-Clause", "0BSD"),
    *("Apache Software License", "Apache-2.0", "Apache 2.0", "Apache 2.0 License", "ISC", "ISC License (ISCL)"),
    *("Apache-2.0 WITH LLVM-exception", "BSL-1.0", "CNRI-Python", "CC0-1.0", "Zlib", "PSF-2.0", "MPL-2.0"),
    *("Python Software Foundation License", "Mozilla Public License 2.0 (MPL 2.0)"),
}
"""Licences that ask for no more than a notice, or for the source of the package itself if that is changed."""


def allowed(stated: str) -> bool:
    parts = re.split(r" AND | OR |, ", stated)
    return bool(parts) and all(part.strip("() ") in ALLOWED or part in ALLOWED for part in parts)


def test_what_the_lock_installs_may_be_used() -> None:
    """Of every package that is installed here."""
    names = sorted({name for name, _ in LOCKED})
    here = {name: licences.licence(licences.distribution(name)) for name in names if licences.is_installed(name)}
    assert len(here) > 90 and not {name: stated for name, stated in here.items() if not allowed(stated)}


@pytest.mark.parametrize(
    "stated", ["GPL-3.0", "MIT AND AGPL-3.0-only", "Other/Proprietary License", "", "see the package"]
)
def test_others_may_not(stated: str) -> None:
    assert not allowed(stated)


def test_the_lock_is_whole() -> None:
    """Every package that drawahead asks for, and all that these need here, with hashes."""
    assert all("--hash=sha256:" in rest for _, rest in LOCKED)
    needed = {*licences.direct(), *licences.indirect()}
    of_cuda = {name for name in needed if name.startswith(("nvidia-", "cuda-", "triton"))}
    absent = {name for name in needed if not licences.is_installed(name)}  # for another platform, or not installed yet
    ours = {"drawahead-models"}  # built here, or its own release
    assert len(LOCKED) > 100 and needed - of_cuda - absent - ours <= {name for name, _ in LOCKED}


def test_licences_are_read_from_metadata() -> None:
    assert licences.licence(licences.distribution("pytest")) == "MIT"
    assert "torch" in licences.direct() and "sympy" in licences.indirect()
    assert licences._found("no-such-package").licence == "not installed here"
