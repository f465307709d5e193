"""Values: made once and never changed. What would change one is refused, and told how to make another."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from drawahead.errors import FrozenError

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(kind: type | None = None, /, **options: Any) -> Any:
        """`dataclasses.dataclass`, but that a frozen one says what to write instead of assigning to it."""

        def made(kind: type) -> type:
            kind = dataclasses.dataclass(**options)(kind)
            if options.get("frozen"):
                for method in ("__setattr__", "__delattr__"):
                    setattr(kind, method, _refusing(vars(kind)[method]))
            return kind

        return made if kind is None else made(kind)


def refusal(kind: str, remedy: str) -> FrozenError:
    """The error for whoever would change a value of this kind; `remedy` is the code that makes another."""
    return FrozenError(f"this {kind} cannot be changed: {remedy} makes another")


def _refusing(plain: Any) -> Any:
    def refuse(self: Any, name: str, *value: Any) -> None:
        try:
            plain(self, name, *value)
        except dataclasses.FrozenInstanceError:
            kind, settings = type(self).__name__, [field.name for field in dataclasses.fields(self) if field.init]
            change = f"{name}=..." if name in settings else "..."
            raise refusal(kind, f"dataclasses.replace({kind.lower()}, {change})") from None

    return refuse
