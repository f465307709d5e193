"""What the sections of docs/causal.md say."""

from __future__ import annotations

from typing import Any

from studies.study import Data
from studies.tables import table

BATCHES = (1, 4, 16)


def values(data: Data) -> dict[str, str | None]:
    """The tables; None where a part was not measured yet."""
    return {
        "shipped": _shipped(data.get("shipped")),
        "guesses": _guesses(data.get("guesses")),
        "shapes": _shapes(data.get("shapes")),
        "jacobi": _jacobi(data.get("jacobi")),
        **_law(data["law"]),
    }


def _shipped(data: Data | None) -> str | None:
    if data is None:
        return None
    rows = []
    for compiled in (False, True):
        for batch in BATCHES:
            own = [row for row in data["rows"] if row["batch"] == batch and row["compiled"] == compiled]
            if not own:
                continue
            single = next(row for row in own if row["sampler"].startswith("Sequential("))
            best = min((row for row in own if row["window"]), key=lambda row: float(row["seconds"]))
            chosen = [row for row in own if row["window"] is None and row is not single]  # by `Auto`
            rows.append(
                [
                    f"{batch}{', compiled' if compiled else ''}",
                    f"{1e3 * single['seconds']:.0f}",
                    f"{1e3 * best['seconds']:.0f}",
                    f"{best['window']}",
                    f"{best['mean_rounds']:.0f}",
                    f"{data['steps'] / best['mean_rounds']:.1f}",
                    f"**{single['seconds'] / best['seconds']:.1f}**",
                    f"{1e3 * chosen[0]['seconds']:.0f}" if chosen else "",
                ]
            )
    heading = [
        "samples",
        "one by one, ms",
        "ahead, ms",
        "window",
        "rounds",
        "times fewer",
        "times faster",
        "`Auto`, ms",
    ]
    return table(heading, rows)


def _guesses(data: Data | None) -> str | None:
    if data is None:
        return None
    windows = [*next(iter(data["rounds"].values()))]
    rows = [[name, *(f"{found[window]:.0f}" for window in windows)] for name, found in data["rounds"].items()]
    return table(["first guess", *(f"window {window}" for window in windows)], rows)


def _shapes(data: Data | None) -> str | None:
    if data is None:
        return None
    rows = []
    for name, found in data["shapes"].items():
        costs: dict[str, Any] = found["milliseconds"]
        one = costs["1"]
        rows.append([name, *(f"{ms:.2f}" for ms in costs.values()), f"{costs['32'] / one:.2f}"])
    windows = [*next(iter(data["shapes"].values()))["milliseconds"]]
    heading = ["parameters", *(f"{window} token{'s' * (window != '1')}, ms" for window in windows), "32 beside 1"]
    return table(heading, rows)


def _jacobi(data: Data | None) -> str | None:
    if data is None:
        return None
    rows = [
        [window, f"{found['resampled']:.0f}", f"{found['coupled']:.0f}"] for window, found in data["rounds"].items()
    ]
    return table(["window", "noise drawn anew", "noise fixed once (`Coupled`)"], rows)


def _law(data: Data) -> dict[str, str | None]:
    p = {name: f"p = {value:.2g}" if value > 1e-12 else "p < 1e-12" for name, value in data["p"].items()}
    return {
        "draws": f"{data['draws']:,}",
        "outcomes": str(data["colours"] ** data["length"]),
        "p_resampled": p["resampled"],
        "p_kept": p["kept"],
        "p_coupled": p["coupled"],
    }
