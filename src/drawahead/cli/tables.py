"""How registries look on a terminal."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from drawahead.cli import lists
from drawahead.cli.shipped import SHIPPED
from drawahead.show.terminal import titled, yes_or_no

_VALUES = {"vectors": "vectors", "tiling": "partners", "counting": "in or out"}


def samplers() -> Table:
    """Every sampler and what it guarantees."""
    table = titled("samplers", "name")
    for heading in ("exact", "rounds for n steps", "what it does", "reference"):
        table.add_column(heading)
    for row in lists.samplers():
        table.add_row(row["name"], yes_or_no(row["exact"]), row["rounds"], row["summary"], row["reference"])
    return table


def shipped() -> Table:
    """Every network that comes with drawahead."""
    table = titled("shipped networks", "name")
    table.add_column("what it is")
    table.add_column("size", justify="right", no_wrap=True)
    table.add_column("options")
    for network in SHIPPED.values():
        table.add_row(network.name, network.summary, network.size, " ".join(f"--{name}" for name in network.options))
    return table


def targets() -> Table:
    """Every target with an exact oracle, and its usual size."""
    table = titled("targets with exact oracles", "name")
    table.add_column("what it is")
    for heading in ("size", "positions", "tokens"):
        table.add_column(heading, justify="right")
    for row in lists.targets():
        if row["kind"] == "network":
            continue
        tokens = row.get("tokens", _VALUES.get(row["kind"], ""))
        size = row["size"] or f"--{row['options'][0]}"
        table.add_row(row["name"], row["summary"], str(size), str(row.get("positions", "")), str(tokens))
    return table


def models() -> Table:
    """The shipped networks and the adapters, and what each needs."""
    table = titled("models", "name")
    for heading in ("what it is", "weights", "library"):
        table.add_column(heading)
    for row in lists.models():
        missing = Text(f"pip install 'drawahead[{row['extra']}]'", style="red")
        library = Text(f"{row['library']}, installed", style="green") if row["installed"] else missing
        table.add_row(row["name"], row["summary"], row["weights"], library)
    table.caption = "Shipped: drawahead sample text. Adapters, in Python: da.adapters.MaskedLM and so on."
    return table
