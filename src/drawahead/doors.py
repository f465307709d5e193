"""Modules that list names of other rooms, and load each of them when it is first used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from drawahead.words import guess


def doors(module: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a module: `homes` names the room, below drawahead, of everything that it lists."""

    def found(name: str) -> Any:
        if name not in homes:
            near = guess(name, list(homes))
            rest = f"did you mean {near!r}?" if near else f"it has {', '.join(sorted(homes))}"
            raise AttributeError(f"{module} has no {name!r}; {rest}")
        return getattr(import_module(f"drawahead.{homes[name]}"), name)

    return found
