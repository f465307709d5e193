"""Docstrings as the reference shows them, an extension of griffe (see mkdocs.yml): paragraphs of the form

    name: what this argument is
    other: and this

become lists."""

from __future__ import annotations

import re
from typing import Any

import griffe

_ARGUMENT = re.compile(r"^([a-z_][a-z_0-9]*(?:, [a-z_][a-z_0-9]*)*):(?= )")


def listed(paragraph: str) -> str:
    """A paragraph that explains arguments, as a list; any other as it is."""
    lines = paragraph.splitlines()
    if not lines or not _ARGUMENT.match(lines[0]) or not all(_ARGUMENT.match(x) or x.startswith("    ") for x in lines):
        return paragraph
    joined = re.sub(r"\n {4,}", " ", paragraph)
    return "\n".join(_ARGUMENT.sub(r"- `\1`:", line) for line in joined.splitlines())


class Lists(griffe.Extension):
    """Makes lists of arguments."""

    def on_object(self, *, obj: Any, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = "\n\n".join(map(listed, obj.docstring.value.split("\n\n")))
