"""Packages that list names of modules, and load each module when one of its names is first used."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType, ModuleType
from typing import Any

from drawahead.words import guess


class Room(ModuleType):
    """A package with doors. A module does not take the place of a function that is called like it."""

    def __getattr__(self, name: str) -> Any:
        homes: Mapping[str, str] = vars(self)["_homes"]
        if name in homes:
            vars(self)[name] = value = getattr(import_module(f"drawahead.{homes[name]}"), name)
            return value
        module = vars(self)["_modules"].get(name, f"{self.__name__}.{name}")
        try:
            if not name.startswith("_"):
                return import_module(module)
        except ModuleNotFoundError as error:
            if error.name != module:
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


def doors(package: str, homes: Mapping[str, str], modules: Mapping[str, str] = MappingProxyType({})) -> None:
    """Open doors in a package: `homes` has the names of each module, which is named below drawahead; `modules` has
    shorter names of whole modules."""
    room = sys.modules[package]
    vars(room)["_homes"] = {name: home for home, names in homes.items() for name in names.split()}
    vars(room)["_modules"] = {name: f"drawahead.{module}" for name, module in modules.items()}
    room.__class__ = Room
