"""Tables in Markdown."""

from __future__ import annotations

from collections.abc import Sequence


def table(heading: Sequence[str], rows: Sequence[Sequence[str]], *, right: bool = True) -> str:
    """A table; all columns but the first stand to the `right`."""
    lines = [heading, ["---", *["---:" if right else "---"] * (len(heading) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def listed(items: Sequence[object]) -> str:
    """a, b and c."""
    words = [str(item) for item in items]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
