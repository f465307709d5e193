"""Modules that are loaded when they are first needed: those of packages that list names, and those of CUDA kernels."""

from __future__ import annotations

import ast
import functools
import sys
from collections.abc import Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

from drawahead.words import guess


class Room(ModuleType):
    """A package with doors. A module does not take the place of a function that is called like it."""

    def __getattr__(self, name: str) -> Any:
        homes: Mapping[str, str] = vars(self)["_homes"]
        home = homes.get(name, self.__name__)
        if home != self.__name__ and hasattr(import_module(home), name):
            vars(self)[name] = value = getattr(import_module(home), name)
            return value
        try:
            if not name.startswith("_"):
                return import_module(f"{home}.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"{home}.{name}":
                raise
        near = guess(name, self.__all__)
        rest = f"did you mean {near!r}?" if near else f"it has {', '.join(sorted(self.__all__))}"
        raise AttributeError(f"{self.__name__} has no {name!r}; {rest}")

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in vars(self)["_homes"] and isinstance(value, ModuleType)):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted(self.__all__)

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        """By its name, as plain modules are pickled where functions of a user travel to workers."""
        return import_module, (self.__name__,)


@functools.cache
def kernels(module: str, device: str) -> Any:
    """A module of CUDA kernels, for tensors on such a device; None on others, and where Triton is missing."""
    try:
        return import_module(module) if device == "cuda" else None
    except ImportError:
        return None


def doors(package: str) -> None:
    """Open doors in a package to all that its block `if TYPE_CHECKING:` imports, which type checkers read."""
    room = sys.modules[package]
    source = room.__spec__.loader.get_source(package)  # type: ignore[union-attr]
    block = next(node for node in ast.parse(source).body if isinstance(node, ast.If))
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    vars(room)["_homes"] = {alias.name: str(node.module) for node in imports for alias in node.names}
    room.__class__ = Room
