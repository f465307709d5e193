"""Methods beside each other: tables and sentences that follow from the numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from studies.rtk.figures import QUANTITIES
from studies.tables import listed, table

Row = dict[str, Any]
SURE = 4.0
"""A difference counts if it exceeds so many standard deviations of the same quantity between sets of exact samples."""


def find(data: dict[str, Any], d: int, method: str, grid: str, budget: int) -> Row | None:
    keys = ("d", "method", "grid", "budget")
    return next((row for row in data["rows"] if tuple(row[key] for key in keys) == (d, method, grid, budget)), None)


def compared(data: dict[str, Any], one: Row, other: Row, quantity: str) -> int:
    """1 if `one` is better than `other`, -1 if it is worse, 0 if no difference can be seen."""
    gain = one[quantity] - other[quantity]
    if quantity != "marginal accuracy":
        gain = -gain
    noise = SURE * data["floors"][str(one["d"])][quantity]["noise"]
    return int(gain > noise) - int(gain < -noise)


def findings(data: dict[str, Any]) -> Iterator[str]:
    """The comparison with DDPM in words, a point of a list each."""
    yield _beside(data, ("DDPM", "geometric"), "even")
    for method in ("RTK-ULD", "RTK-MALA"):
        for grid, ddpm in (("even", "even"), ("even", "geometric"), ("geometric", "geometric")):
            yield _beside(data, (method, grid), ddpm)
        yield _as_good_as_many(data, method)
    yield _first_at_the_floor(data)


def in_short(data: dict[str, Any]) -> str:
    """All comparisons with DDPM at equal calls, counted."""
    said = []
    for ddpm in ("even", "geometric"):
        for method in ("RTK-ULD", "RTK-MALA"):
            signs = [
                sign
                for d in map(int, data["samples"])
                for grid in ("even", "geometric")
                for sign in _verdicts(data, d, (method, grid), ("DDPM", ddpm)).values()
            ]
            counts = ", ".join(f"{word} in {signs.count(sign)}" for sign, word in _VERDICTS)
            said.append(f"beside DDPM in {ddpm} steps {method} is {counts} of {len(signs)} cases")
    return "; ".join(said)


def _beside(data: dict[str, Any], key: tuple[str, str], ddpm: str) -> str:
    verdicts = {d: _verdicts(data, d, key, ("DDPM", ddpm)) for d in map(int, data["samples"])}
    found = [sign for one in verdicts.values() for sign in one.values()]
    counts = [f"{word} in {found.count(sign)}" for sign, word in _VERDICTS]
    details = [
        f"d = {d}: {', '.join(f'{word} at {listed(at)}' for word, at in _grouped(one))}" for d, one in verdicts.items()
    ]
    who = f"DDPM in {key[1]} steps" if key[0] == "DDPM" else f"{key[0]} on {key[1]} segments"
    return (
        f"**{who}, beside DDPM in {ddpm} steps.** Of {len(found)} comparisons it is {', '.join(counts)}. "
        f"{'; '.join(details)} calls."
    )


_VERDICTS = ((1, "better"), (0, "no different"), (-1, "worse"))


def _verdicts(data: dict[str, Any], d: int, key: tuple[str, str], beside: tuple[str, str]) -> dict[int, int]:
    """By marginal accuracy, for each budget that both can spend."""
    found = {}
    for budget in data["budgets"]:
        one, other = find(data, d, *key, budget), find(data, d, *beside, budget)
        if one is not None and other is not None:
            found[budget] = compared(data, one, other, "marginal accuracy")
    return found


def _grouped(verdicts: dict[int, int]) -> Iterator[tuple[str, list[int]]]:
    for sign, word in _VERDICTS:
        at = [budget for budget, verdict in verdicts.items() if verdict == sign]
        if at:
            yield word, at


def _as_good_as_many(data: dict[str, Any], method: str) -> str:
    """The fewest calls at which RTK on even segments is no worse than DDPM with its smallest even steps."""
    said = []
    for d in map(int, data["samples"]):
        many = find(data, d, "DDPM", "even", data["most"])
        rows = [find(data, d, method, "even", budget) for budget in data["budgets"]]
        good = [row for row in rows if row and many and compared(data, row, many, "marginal accuracy") >= 0]
        said.append(f"{good[0]['calls']} calls for d = {d}" if good else f"more than any budget for d = {d}")
    return (
        f"**{method} as good as {data['most']} even steps of DDPM**, {1 / data['most']:g} T each: on even segments "
        f"it takes {listed(said)}."
    )


def _first_at_the_floor(data: dict[str, Any]) -> str:
    """Who makes samples that cannot be told from exact ones with the fewest calls."""
    said = []
    for d in data["samples"]:
        calls = {key: value for key, at in _reached(data).items() if (value := at[d]) is not None}
        least = min(calls.values(), default=None)
        who = listed([f"{method} ({grid})" for (method, grid), value in calls.items() if value == least])
        said.append(f"for d = {d} {who}, {least} calls" if calls else f"for d = {d} none")
    return f"**The first of all methods whose samples cannot be told from exact ones**: {'; '.join(said)}."


def _reached(data: dict[str, Any]) -> dict[tuple[str, str], dict[str, int | None]]:
    """The fewest calls with which each method and grid comes within the noise of the floor, for each d."""
    found: dict[tuple[str, str], dict[str, int | None]] = {}
    for row in data["rows"]:
        floor = data["floors"][str(row["d"])]["marginal accuracy"]
        at = found.setdefault((row["method"], row["grid"]), dict.fromkeys(data["samples"]))
        if at[str(row["d"])] is None and row["marginal accuracy"] >= floor["mean"] - SURE * floor["noise"]:
            at[str(row["d"])] = row["calls"]
    return found


def balance(data: dict[str, Any], grid: str, other_grid: str) -> tuple[int, int, int]:
    """How often RTK-ULD and RTK-MALA are better, no different and worse on one grid than on the other."""
    found = []
    for row in data["rows"]:
        if row["method"] in ("RTK-ULD", "RTK-MALA") and row["grid"] == grid:
            other = find(data, row["d"], row["method"], other_grid, row["budget"])
            if other is not None:
                found.append(compared(data, row, other, "marginal accuracy"))
    return found.count(1), found.count(0), found.count(-1)


def indistinguishable(data: dict[str, Any]) -> str:
    """The smallest budget at which each method reaches the floor."""
    lines = []
    for (method, grid), at in _reached(data).items():
        line = [f"{method}, {grid}"]
        for d, calls in at.items():
            own = [row for row in data["rows"] if (row["method"], row["grid"], str(row["d"])) == (method, grid, d)]
            line.append(f"more than {own[-1]['calls']}" if calls is None else str(calls))
        lines.append(line)
    return table(["calls", *(f"d = {d}" for d in data["samples"])], lines)


def signs(data: dict[str, Any], ddpm: str) -> str:
    lines = []
    for d in map(int, data["samples"]):
        for method in ("RTK-ULD", "RTK-MALA"):
            for grid in ("even", "geometric", "from L"):
                line = []
                for budget in data["budgets"]:
                    one, other = (find(data, d, *key, budget) for key in ((method, grid), ("DDPM", ddpm)))
                    signs = [compared(data, one, other, quantity) for quantity in QUANTITIES] if one and other else []
                    line.append(f"`{' '.join('-=+'[sign + 1] for sign in signs)}`" if signs else "")
                if any(line):
                    lines.append([f"d = {d}: {method}, {grid}", *line])
    return table([f"beside DDPM in {ddpm} steps, calls", *map(str, data["budgets"])], lines)
