"""The bill of materials that comes with the source distribution, `sbom.json`, in the format of CycloneDX.

A build hook of hatchling (see pyproject.toml). It holds what the lock files pin, with hashes, the licences that
docs/licences.md lists, and the shipped networks: the same bill wherever the package is built.
"""

from __future__ import annotations

import json
import re
import tempfile
import tomllib
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).resolve().parent.parent
LOCKS = ("constraints.txt", "constraints-cuda.txt")
_ENTRY = re.compile(r"(?m)^([\w.-]+)==(\S+)((?:.*\\\n)*.*)")


def bill() -> dict[str, Any]:
    """Drawahead, its networks, and every package that may come with it."""
    found = re.search(r'(?m)^__version__ = "(.+)"$', (ROOT / "src/drawahead/__init__.py").read_text())
    assert found is not None
    page = (ROOT / "docs/licences.md").read_text()
    listed = {name.lower(): stated for name, stated in re.findall(r"(?m)^\| (\S+) \| \S+ \| (.+) \| .+ \|$", page)}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    core = {re.split(r"[^\w.-]", text)[0] for text in project["dependencies"]}
    networks = sorted(path.stem for path in (ROOT / "models/drawahead_models").glob("*.md"))
    packages: dict[tuple[str, str], dict[str, Any]] = {}
    for lock in LOCKS:
        for name, version, rest in _ENTRY.findall((ROOT / lock).read_text()):
            packages[name, version] = {
                "type": "library",
                "name": name,
                "version": version,
                "purl": f"pkg:pypi/{name}@{version}",
                "scope": "required" if name in core else "optional",
                "hashes": [{"alg": "SHA-256", "content": one} for one in re.findall(r"sha256:(\w+)", rest)],
                "licenses": [{"license": {"name": listed.get(name, "see the package")}}],
            }
    itself = {"type": "library", "name": "drawahead", "version": found[1], "licenses": [{"license": {"id": "MIT"}}]}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": itself},
        "components": [*({"type": "machine-learning-model", "name": name} for name in networks), *packages.values()],
    }


class Bill(BuildHookInterface[Any]):
    """Puts the bill into the source distribution."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        self.folder = tempfile.TemporaryDirectory()
        path = Path(self.folder.name) / "sbom.json"
        path.write_text(json.dumps(bill(), indent=1) + "\n")
        build_data["force_include"][str(path)] = "sbom.json"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        self.folder.cleanup()
