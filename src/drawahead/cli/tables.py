"""How comparisons and registries look on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.table import Table
from rich.text import Text

from drawahead.cli import lists
from drawahead.cli.compare import Row
from drawahead.cli.shipped import SHIPPED
from drawahead.samplers import SAMPLERS

_LEGEND = (
    "Law: a two-sample test against independent sequential draws; it can show a difference, never rule one out. "
    "Seconds: of a formula on this machine, which pays for every query; a network on an accelerator waits for rounds."
)


def comparison(rows: Sequence[Row], title: str, width: int) -> Table:
    """The table of `drawahead compare`; it fits into 80 columns."""
    table = _table(title, "sampler", padding=1 if width >= 100 else 0)
    for heading in ("samples", "rounds/\nsample", "queries/\nsample", "accep-\ntance", "seconds", "time/\nseq."):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("law vs\nsequential", no_wrap=True)
    table.add_column("exact", no_wrap=True)
    for row in rows:
        table.add_row(
            row.sampler + "*" * bool(row.note), *_costs(row), _law(row), _exact(SAMPLERS[row.sampler].guarantee.exact)
        )
    table.caption = "\n".join([*(f"* {row.sampler}: {row.note}" for row in rows if row.note), _LEGEND])
    return table


def samplers() -> Table:
    """Every sampler and what it guarantees."""
    table = _table("samplers", "name")
    for heading in ("exact", "rounds for n steps", "what it does", "reference"):
        table.add_column(heading)
    for row in lists.samplers():
        table.add_row(row["name"], _exact(row["exact"]), row["rounds"], row["summary"], row["reference"])
    return table


def shipped() -> Table:
    """Every network that comes with drawahead."""
    table = _table("shipped networks", "name")
    table.add_column("what it is")
    table.add_column("size", justify="right", no_wrap=True)
    table.add_column("options")
    for network in SHIPPED.values():
        table.add_row(network.name, network.summary, network.size, " ".join(f"--{name}" for name in network.options))
    return table


def targets() -> Table:
    """Every target with an exact oracle, and its usual size."""
    table = _table("targets with exact oracles", "name")
    table.add_column("what it is")
    for heading in ("size", "positions", "tokens"):
        table.add_column(heading, justify="right")
    for row in lists.targets():
        if row["kind"] != "network":
            tokens = row.get("tokens", {"vectors": "vectors", "tiling": "partners"}.get(row["kind"], ""))
            table.add_row(row["name"], row["summary"], str(row["size"]), str(row.get("positions", "")), str(tokens))
    return table


def models() -> Table:
    """The shipped networks and the adapters, and what each needs."""
    table = _table("models", "name")
    for heading in ("what it is", "weights", "library"):
        table.add_column(heading)
    for row in lists.models():
        missing = Text(f"pip install 'drawahead[{row['extra']}]'", style="red")
        library = Text(f"{row['library']}, installed", style="green") if row["installed"] else missing
        table.add_row(row["name"], row["summary"], row["weights"], library)
    table.caption = "Shipped: drawahead sample text. Adapters, in Python: da.adapters.MaskedLM and so on."
    return table


def _table(title: str, first: str, padding: int = 1) -> Table:
    table = Table(title=title, title_justify="left", caption_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    table.padding, table.show_edge = (0, padding, 0, 0), False
    table.add_column(first, style="bold", no_wrap=True)
    return table


def _costs(row: Row) -> list[str]:
    report = row.report
    if report is None:
        return ["-"] * 6
    ratio = "-" if row.seconds_ratio is None else f"{row.seconds_ratio:.{1 if row.seconds_ratio >= 10 else 2}f}x"
    accepted = f"{report.acceptance:.0%}" if report.drafted else "-"
    rounds, queries = f"{report.mean_rounds:.1f}", f"{report.queries_per_sample:.1f}"
    return [str(report.num_samples), rounds, queries, accepted, f"{report.seconds:.2f}", ratio]


def _law(row: Row) -> Text:
    if row.p_value is None:
        return Text(row.verdict, style="dim")
    return Text(f"{row.verdict}, p {row.p_value:.2g}", style="red" if row.verdict == "DIFFERS" else "green")


def _exact(exact: bool) -> Text:
    return Text("yes", style="green") if exact else Text("no", style="red")
