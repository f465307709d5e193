"""Samplers as a manifest holds them."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, final

from drawahead import samplers, validate
from drawahead.errors import InputError
from drawahead.samplers import Sampler, Separated
from drawahead.validate import short

_OWN: tuple[type[Sampler], ...] = (*samplers.SAMPLERS.values(), Separated)
_KINDS = {kind.__name__: kind for kind in _OWN}


@final
@dataclass(frozen=True)
class Written:
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
        return {
            "text": self.text,
            "kind": None if self.sampler is None else _to_dict(self.sampler),
            "choice": self.choice,
            "probes": self.probes,
        }

    @staticmethod
    def from_dict(value: object) -> Written:
        found = validate.keys("the sampler", value, "text", "kind", "choice", "probes")
        sampler = None if found["kind"] is None else _from_dict(found["kind"])
        text = validate.text("the text of the sampler", found["text"])
        if sampler is not None and text != repr(sampler):
            raise InputError(f"the sampler is called {short(text)}, but its settings are those of {sampler!r}")
        choice = validate.text("the choice of the sampler", found["choice"])
        return Written(text, sampler, choice, validate.count("the probes of the sampler", found["probes"]))


def _to_dict(sampler: Sampler) -> dict[str, Any] | None:
    """Its name and settings; None if it is not one of drawahead's, or has settings that JSON does not hold."""
    if _KINDS.get(type(sampler).__name__) is not type(sampler):
        return None
    settings = {name: getattr(sampler, name) for name in _settings(type(sampler))}
    plain = {key: _to_dict(value) if isinstance(value, Sampler) else value for key, value in settings.items()}
    return {"name": type(sampler).__name__, "settings": plain}


def _from_dict(value: object, nested: bool = False) -> Sampler:
    found = validate.keys("the kind of the sampler", value, "name", "settings")
    kind = _KINDS.get(validate.text("the name of the sampler", found["name"]))
    if kind is None:
        raise InputError(f"there is no sampler {short(found['name'])}")
    settings = validate.keys(f"the settings of {kind.__name__}", found["settings"], *_settings(kind))
    usual = kind()
    made = {}
    for key, setting in settings.items():
        if isinstance(getattr(usual, key), Sampler) and not nested:
            made[key] = _from_dict(setting, nested=True)
        elif _fits(setting, getattr(usual, key)):
            made[key] = setting
        else:
            raise InputError(f"{key} of {kind.__name__} cannot be {short(setting)}")
    try:
        return kind(**made)
    except (TypeError, ValueError) as error:
        raise InputError(f"the settings of {kind.__name__} are wrong: {error}") from None


def _settings(kind: Any) -> list[str]:
    return [field.name for field in fields(kind)]


def _fits(setting: object, usual: object) -> bool:
    """Whether a setting has the type of the usual one; what is None by default may be a number."""
    if isinstance(usual, bool) or setting is None:
        return type(setting) is type(usual)
    return type(setting) in (int, float)
