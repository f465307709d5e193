"""How samples, comparisons and registries look on a terminal."""

from __future__ import annotations

import math
import string
from collections.abc import Sequence

from rich import box
from rich.table import Table
from rich.text import Text
from torch import Tensor

from drawahead.chains import GaussianChain
from drawahead.cli.compare import Row
from drawahead.oracles import TokenOracle
from drawahead.samplers import SAMPLERS
from drawahead.targets import CHAINS, TARGETS, Ising

SHOWN = 6
"""Samples printed unless all are asked for."""
_LEGEND = (
    "Law: a two-sample test against independent sequential draws; it can show a difference, never rule one out. "
    "Seconds: of a formula on this machine, which pays for every query; a network on an accelerator waits for rounds."
)
_SPINS = ("·", "●")
_SHADES = " ░▒▓█"
_DIGITS = string.digits + string.ascii_lowercase


def line(tokens: Tensor, vocab_size: int) -> str:
    """A sequence as one line: a character a token where the vocabulary is small."""
    values = tokens.tolist()
    return "".join(_DIGITS[v] for v in values) if vocab_size <= len(_DIGITS) else " ".join(map(str, values))


def grids(samples: Tensor) -> str:
    """Samples of a square grid of spins, side by side."""
    side = math.isqrt(samples.shape[1])
    pictures = samples.view(-1, side, side).tolist()
    return "\n".join("     ".join(" ".join(_SPINS[v] for v in grid[row]) for grid in pictures) for row in range(side))


def shades(samples: Tensor) -> str:
    """Images (number, height, width) with values around -1 ... 1, side by side, in shades."""
    level = ((samples + 1) / 2 * (len(_SHADES) - 1)).round().clamp(0, len(_SHADES) - 1).long().tolist()
    return "\n".join(
        "   ".join("".join(_SHADES[v] * 2 for v in image[row]) for image in level) for row in range(len(level[0]))
    )


def picture(oracle: TokenOracle | GaussianChain, samples: Tensor, width: int) -> str:
    """The first few samples, in at most `width` columns."""
    if isinstance(oracle, GaussianChain) and len(oracle.shape) == 2:
        return shades(samples[: max(1, min(SHOWN, (width + 3) // (2 * oracle.shape[1] + 3)))])
    if isinstance(oracle, GaussianChain):
        return _some([vector(x) for x in samples[:SHOWN]], len(samples), width)
    if isinstance(oracle, Ising) and math.isqrt(oracle.length) ** 2 == oracle.length:
        each = 2 * math.isqrt(oracle.length) + 4
        return grids(samples[: max(1, min(SHOWN, (width + 5) // each))])
    return _some([line(tokens, oracle.vocab_size) for tokens in samples[:SHOWN]], len(samples), width)


def one_line(oracle: TokenOracle | GaussianChain, values: Tensor) -> str:
    """A whole sample as one line."""
    return vector(values) if isinstance(oracle, GaussianChain) else line(values, oracle.vocab_size)


def vector(x: Tensor) -> str:
    """A vector as one line."""
    return " ".join(f"{value:+.3f}" for value in x.flatten().tolist())


def _some(lines: Sequence[str], of: int, width: int) -> str:
    shown = [text if len(text) <= width else text[: width - 1] + "…" for text in lines]
    rest = of - len(shown)
    return "\n".join([*shown, f"… and {rest} more"] if rest > 0 else shown)


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
    for name, sampler in SAMPLERS.items():
        summary = (sampler.__doc__ or "").strip().split("\n\n")[0].replace("\n    ", " ")
        promise = sampler.guarantee
        table.add_row(name, _exact(promise.exact), promise.rounds, summary, promise.reference)
    return table


def targets() -> Table:
    """Every target and its usual size."""
    table = _table("targets", "name")
    table.add_column("what it is")
    for heading in ("size", "positions", "tokens"):
        table.add_column(heading, justify="right")
    for name, target in TARGETS.items():
        oracle = target.make(target.default_size)
        table.add_row(name, target.summary, str(target.default_size), str(oracle.length), str(oracle.vocab_size))
    for name, chain in CHAINS.items():
        table.add_row(name, chain.summary, str(chain.default_size), "", "vectors")
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
