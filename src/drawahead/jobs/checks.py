"""Checks on values that were read from a file: whatever is not as it should be is an `InputError` that names it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from drawahead.errors import InputError, short


def parsed(text: bytes, what: str) -> Any:
    """The JSON value of a file. Numbers that JSON does not have, and keys given twice, are refused."""
    try:
        return json.loads(text, parse_constant=_refuse, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{what} is not readable: {error}") from None


def fields(value: object, what: str, *names: str) -> Mapping[str, Any]:
    """An object with exactly these keys."""
    if not isinstance(value, dict):
        raise InputError(f"{what} must be an object, not {short(value)}")
    wrong = sorted({*names} ^ {*value})
    if wrong:
        raise InputError(f"{what} must have the keys {', '.join(names)}: {wrong[0]!r} is missing or too much")
    return value


def count(value: object, what: str, least: int = 0, most: int = 2**63 - 1) -> int:
    """A whole number in a range."""
    if type(value) is not int or not least <= value <= most:
        raise InputError(f"{what} must be a whole number from {least} to {most}, not {short(value)}")
    return value


def text(value: object, what: str, most: int = 100_000) -> str:
    """A string of at most so many characters."""
    if not isinstance(value, str) or len(value) > most:
        raise InputError(f"{what} must be a text of at most {most} characters, not {short(value)}")
    return value


def plain(value: object, what: str) -> Any:
    """The value as JSON would give it back: tuples become lists; what JSON cannot hold is refused."""
    try:
        return json.loads(json.dumps(value, allow_nan=False), object_pairs_hook=_unique)
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(
            f"{what} must be plain numbers, texts, lists and dicts, for a manifest holds them: {error}"
        ) from None


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not a JSON number")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is given twice")
    return found
