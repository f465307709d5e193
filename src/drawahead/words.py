"""Words of messages: numbers with their nouns, what a misspelt name was meant to be, and text from outside."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import TypeVar

from drawahead.errors import InputError

Thing = TypeVar("Thing")


def counted(number: int, noun: str) -> str:
    """A number and its noun: "1 sample", "2 samples"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def printable(text: str) -> str:
    """Text from outside (a file, its name, a manifest, an error) as it is shown: on one line, and with all that a
    terminal might obey, or that nobody sees, written out, such as \\x1b."""
    return text if text.isprintable() else "".join(map(_shown, text))


def cell(text: str) -> str:
    """Text from outside as a cell of a table: printable, and not a formula, which a spreadsheet would work out."""
    shown = printable(text)
    return f"'{shown}" if shown.lstrip().startswith(("=", "+", "-", "@")) else shown


def meant(name: str, names: Iterable[str]) -> str:
    """The known name that `name` is: whatever its case, and with underscores or hyphens. Itself if there is none."""
    folded = {_folded(each): each for each in names}
    return folded.get(_folded(name), name)


def guess(name: str, names: Iterable[str]) -> str | None:
    """The known name that is closest to a misspelt one, if one is close."""
    folded = {_folded(each): each for each in names}
    near = get_close_matches(_folded(name), folded, 1)
    return folded[near[0]] if near else None


def pick(what: str, name: str, names: Mapping[str, Thing], more: str = "") -> Thing:
    """What is called `name`; or an InputError that suggests the nearest name, or, if none is near, lists them all.

    more: what else could be done, said after the list."""
    best = meant(name, names)
    if best in names:
        return names[best]
    near = guess(name, names)
    rest = f"did you mean {near!r}?" if near else f"the {what}s are {', '.join(names)}{more}"
    raise InputError(f"there is no {what} {name!r}; {rest}")


def _shown(letter: str) -> str:
    seen = letter.isprintable() or unicodedata.category(letter) == "Zs"  # a space of some width
    return letter if seen else letter.encode("unicode_escape").decode()


def _folded(name: str) -> str:
    return name.strip().lower().replace("_", "-")
