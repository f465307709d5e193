"""Every sampler on one target: what each costs, and whether all have the same distribution."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, final

from rich.table import Table
from rich.text import Text
from torch import Tensor

from drawahead.chains import Chain
from drawahead.executors import Local
from drawahead.report import Report
from drawahead.rounds.run import Stop
from drawahead.sample import Result, sample
from drawahead.samplers import SAMPLERS, Recursive, Sequential, named
from drawahead.show.terminal import titled, yes_or_no
from drawahead.verification.statistics import same_law

Watch = Callable[[str, int], Callable[[Report], None] | None]
"""Shows a call of `sample`, by its label and its number of samples: returns the `on_round` of the call."""
DOUBT = 1e-3
"""A p-value below this is called a difference. Five checks then raise a false alarm once in 200 runs."""

# The recursion's candidates have a heavy tail: what it may use before it is cut short, and where it is not tried.
RECURSIVE_SAMPLES = 50
RECURSIVE_STEPS = 64
RECURSIVE_SECONDS = 60.0
_LEGEND = (
    "Same: a two-sample test against independent sequential draws; it can show a difference, never rule one out. "
    "Seconds: on this machine, which pays for every query; a network on an accelerator waits for rounds."
)


@final
class TimeLimit(Stop):
    """Stops `sample` between rounds so many seconds after its first check, so at least one round is made.

    Samples that finish early are not typical: no distribution should be tested on an incomplete result. `clock` returns
    seconds; real time by default.
    """

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds, self._clock, self._end = seconds, clock, math.inf

    def is_set(self) -> bool:
        if self._end == math.inf:
            self._end = self._clock() + self._seconds
            return False
        return self._clock() > self._end


@dataclass(frozen=True)
class Measured:
    """One sampler's line of the comparison."""

    sampler: str
    report: Report | None
    """None if the sampler was not run; `note` says why."""
    seconds_ratio: float | None = None
    """Seconds over those of the sequential sampler for as many samples, in the same run."""
    p_value: float | None = None
    """Of the test that these samples and independent sequential ones have the same distribution."""
    note: str = ""

    @property
    def verdict(self) -> str:
        """The check of the distribution in a word."""
        if self.p_value is None:
            return "skipped" if self.report is None else "stopped"
        return "agrees" if self.p_value >= DOUBT else "DIFFERS"

    @property
    def exact(self) -> bool:
        return named(self.sampler).guarantee.exact

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for json.dumps."""
        return {
            "sampler": self.sampler,
            "exact": self.exact,
            "seconds_ratio": self.seconds_ratio,
            "p_value": self.p_value,
            "verdict": self.verdict,
            "note": self.note,
            "report": None if self.report is None else self.report.to_dict(),
        }


def rows_of(
    chain: Chain, num_samples: int, seed: int, watch: Watch, max_batch_size: int | None = None, *, apart: bool = False
) -> Iterator[Measured]:
    """Run every sampler; rows come as they are ready. apart: `Separated`, too, for what falls apart into pieces."""
    where = Local(max_batch_size)
    # Warm up, so that the first sampler timed does not pay for it.
    sample(chain, min(num_samples, 16), seed=seed, executor=where)
    # Samplers share the noise of a seed (Coupled even draws the very same samples), so the law check needs another.
    on_round = watch("reference", num_samples)
    reference = sample(
        chain, num_samples, sampler=Sequential(), seed=seed + 1, executor=where, on_round=on_round
    ).samples
    sequential_seconds: dict[int, float] = {}
    for name in [*SAMPLERS, *(["separated"] if apart else [])]:
        if not chain.foresees and named(name).foresight:
            yield Measured(
                name,
                None,
                note="skipped: it needs the distributions of later steps, which left-to-right models do not have",
            )
        elif name != "recursive":
            on_round = watch(name, num_samples)
            result = sample(chain, num_samples, sampler=named(name), seed=seed, executor=where, on_round=on_round)
            base = sequential_seconds.setdefault(num_samples, result.report.seconds)
            yield _row(name, result, base, reference)
        elif chain.steps > RECURSIVE_STEPS:
            yield Measured(
                name, None, note=f"skipped: not tried here above {RECURSIVE_STEPS} steps, its run time has a heavy tail"
            )
        else:
            yield _recursive(chain, min(num_samples, RECURSIVE_SAMPLES), seed, reference, watch, where)


def table_of(rows: Sequence[Measured], title: str, width: int) -> Table:
    """The table of `drawahead compare`; it fits into 80 columns."""
    table = titled(title, "sampler", padding=1 if width >= 100 else 0)
    for heading in ("samples", "rounds/\nsample", "queries/\nsample", "accep-\ntance", "seconds", "time/\nseq."):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("same as\nsequential", no_wrap=True)
    table.add_column("exact", no_wrap=True)
    for row in rows:
        table.add_row(
            row.sampler + "*" * bool(row.note),
            *_costs(row),
            _law(row),
            yes_or_no(row.exact),
        )
    table.caption = "\n".join([*(f"* {row.sampler}: {row.note}" for row in rows if row.note), _LEGEND])
    return table


def _row(name: str, result: Result, sequential_seconds: float, reference: Tensor, note: str = "") -> Measured:
    report = result.report
    return Measured(name, report, report.seconds / sequential_seconds, same_law(result.samples, reference), note)


def _recursive(chain: Chain, num_samples: int, seed: int, reference: Tensor, watch: Watch, where: Local) -> Measured:
    base = sample(chain, num_samples, sampler=Sequential(), seed=seed, executor=where).report.seconds
    on_round, stop = watch("recursive", num_samples), TimeLimit(RECURSIVE_SECONDS)
    result = sample(chain, num_samples, sampler=Recursive(), seed=seed, executor=where, on_round=on_round, stop=stop)
    if result.complete:
        note = "fewer samples, for its run time has a heavy tail; the check of the distribution is weaker"
        return _row("recursive", result, base, reference, note)
    note = f"stopped after {RECURSIVE_SECONDS:.0f} s with {len(result.samples)} of {num_samples} samples"
    return Measured("recursive", result.report, note=note)


def _costs(row: Measured) -> list[str]:
    report = row.report
    if report is None:
        return ["-"] * 6
    ratio = "-" if row.seconds_ratio is None else f"{row.seconds_ratio:.{1 if row.seconds_ratio >= 10 else 2}f}x"
    accepted = f"{report.acceptance:.0%}" if report.drafted else "-"
    rounds, queries = f"{report.mean_rounds:.1f}", f"{report.queries_per_sample:.1f}"
    return [str(report.num_samples), rounds, queries, accepted, f"{report.seconds:.2f}", ratio]


def _law(row: Measured) -> Text:
    if row.p_value is None:
        return Text(row.verdict, style="dim")
    return Text(f"{row.verdict}, p {row.p_value:.2g}", style="red" if row.verdict == "DIFFERS" else "green")
