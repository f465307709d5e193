"""Samplers written down and read back: by their name, by their repr, and as the manifest of a job holds them."""

from __future__ import annotations

import ast
import json
from dataclasses import fields
from typing import Any, final

from drawahead import validate
from drawahead.errors import InputError
from drawahead.samplers.base import Sampler
from drawahead.samplers.base import as_sampler as as_sampler
from drawahead.samplers.block import Block
from drawahead.samplers.coupled import Auto, Coupled
from drawahead.samplers.picard import Picard
from drawahead.samplers.recursive import Recursive
from drawahead.samplers.separated import Separated
from drawahead.samplers.sequential import Sequential
from drawahead.samplers.stepwise import Stepwise
from drawahead.validate import short
from drawahead.values import dataclass
from drawahead.words import pick

SAMPLERS: dict[str, type[Sampler]] = {
    sampler.__name__.lower(): sampler for sampler in (Sequential, Recursive, Stepwise, Block, Coupled, Picard)
}
"""Every sampler by name, but for `Auto`, which chooses among them: tests, tables and the command line run over this."""
_OWN: tuple[type[Sampler], ...] = (*SAMPLERS.values(), Separated)
_KINDS: dict[str, Any] = {kind.__name__: kind for kind in _OWN}


def named(name: str, window: int | None = None) -> Sampler:
    """The sampler called `name`, in whatever case, with a window if it takes one."""
    known: dict[str, type[Sampler]] = {"auto": Auto, **SAMPLERS, "separated": Separated}
    kind = pick("sampler", name, known)
    if window is None:
        return kind()
    if kind is Auto:
        raise InputError("sampler 'auto' chooses its window itself: give a window with another, such as coupled")
    if "window" not in _settings(kind):
        raise InputError(f"sampler {name!r} takes no window")
    return kind(window=window)  # type: ignore[call-arg]


def from_repr(text: str) -> Sampler:
    """The sampler that a report names: its repr, read back. Nothing in it is executed."""
    try:
        sampler = _evaluated(ast.parse(text, mode="eval").body)
        if not isinstance(sampler, Sampler):
            raise TypeError("a plain value")
        return sampler
    except (SyntaxError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise InputError(f"{text!r} does not tell which sampler drew these samples: give sampler=") from None


@final
@dataclass(frozen=True)
class SamplerRecord:
    """The sampler of a job: chosen by `Auto` or named, one of drawahead's own or not."""

    text: str
    """Its repr: two samplers with the same text are taken for the same."""
    sampler: Sampler | None
    """The sampler itself; None if it was read from a manifest and is not one of drawahead's."""
    choice: str = ""
    """Why `Auto` chose it; empty if it was named."""
    probes: int = 0
    """Queries that `Auto` asked to choose it."""

    def to_dict(self) -> dict[str, Any]:
        kind = None if self.sampler is None else _to_dict(self.sampler)
        return {"text": self.text, "kind": kind, "choice": self.choice, "probes": self.probes}

    @staticmethod
    def from_dict(value: object) -> SamplerRecord:
        plain = validate.keys("the sampler", value, "text", "kind", "choice", "probes")
        text = validate.text("the text of the sampler", plain["text"])
        sampler = None if plain["kind"] is None else from_repr(text)
        written, own = (json.dumps(kind, sort_keys=True) for kind in (plain["kind"], sampler and _to_dict(sampler)))
        if written != own:
            raise InputError(f"the sampler is called {short(text)}, but its settings are others")
        choice = validate.text("the choice of the sampler", plain["choice"])
        return SamplerRecord(text, sampler, choice, validate.count("the probes of the sampler", plain["probes"]))


def _evaluated(node: ast.expr) -> Any:
    """A sampler, or a plain value."""
    if not isinstance(node, ast.Call):
        return ast.literal_eval(node)
    if not isinstance(node.func, ast.Name) or node.args:
        raise ValueError("not the repr of a sampler")
    return _KINDS[node.func.id](**{str(keyword.arg): _evaluated(keyword.value) for keyword in node.keywords})


def _to_dict(sampler: Sampler) -> dict[str, Any] | None:
    """Its name and settings; None if it is not one of drawahead's, or has settings that JSON does not hold."""
    if _KINDS.get(type(sampler).__name__) is not type(sampler):
        return None
    settings = {name: getattr(sampler, name) for name in _settings(type(sampler))}
    plain = {key: _to_dict(value) if isinstance(value, Sampler) else value for key, value in settings.items()}
    return {"name": type(sampler).__name__, "settings": plain}


def _settings(kind: Any) -> list[str]:
    return [field.name for field in fields(kind)]
