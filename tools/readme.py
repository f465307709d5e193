"""The README as a package index shows it: links and images lead to the repository, at the tag of the version.

A metadata hook of hatchling (see pyproject.toml), run whenever the package is built. An index knows nothing of the
files beside the README, so relative links would be dead there. They are made absolute with the address `Repository` of
[project.urls]; as long as there is none, links become plain words and images are left out.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
_ELSEWHERE = r"(?![a-z]+:|#)"
_IMAGE = re.compile(rf"!\[([^\]]*)\]\({_ELSEWHERE}([^)\s]+)\)")
_LINK = re.compile(rf"(?<!!)\[((?:[^\[\]]|!\[[^\]]*\]\([^)]*\))*)\]\({_ELSEWHERE}([^)\s]+)\)")
_TAG = re.compile(rf'(<(?:img|source)\b[^>]*?\b(?:src|srcset)="){_ELSEWHERE}([^"]+)("[^>]*>)')


def for_index(text: str, repository: str | None, version: str) -> str:
    """This README, to be read where none of its files are."""
    base = repository.rstrip("/").removesuffix(".git") if repository else None

    def image(path: str) -> str:
        return f"{base}/raw/v{version}/{path}"

    def mended(part: str) -> str:
        if base is None:
            part = _LINK.sub(r"\1", _TAG.sub("", _IMAGE.sub("", part)))
            return re.sub(r"\n{3,}", "\n\n", part)
        part = _TAG.sub(lambda found: f"{found[1]}{image(found[2])}{found[3]}", part)
        part = _IMAGE.sub(lambda found: f"![{found[1]}]({image(found[2])})", part)
        return _LINK.sub(lambda found: f"[{found[1]}]({base}/blob/v{version}/{found[2]})", part)

    return "".join(part if odd % 2 else mended(part) for odd, part in enumerate(_FENCE.split(text)))


class ReadmeHook(MetadataHookInterface):
    """Sets the field `readme`."""

    def update(self, metadata: dict[str, Any]) -> None:
        root = Path(self.root)
        version = re.search(r'__version__ = "(.+)"', (root / "src/drawahead/__init__.py").read_text())
        if version is None:
            raise ValueError("src/drawahead/__init__.py has no line __version__")
        text = (root / "README.md").read_text(encoding="utf-8")
        text = for_index(text, metadata.get("urls", {}).get("Repository"), version[1])
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
