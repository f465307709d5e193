"""What a runner holds from one call to the next, from three calls of one."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import final

import torch

from drawahead.chains import TokenChain
from drawahead.report import Report
from drawahead.runner import Runner
from drawahead.targets import MarkovChain
from drawahead.teaching.walks import STICKY

STEPS = 64
"""Long enough that speculation may pay, so that a sampler is to be chosen."""
CALLS = (4, 4, 2)
"""How many samples each call draws."""
_IDEA = (
    "A <b>runner</b> belongs to one chain and owns all that outlives a call: the sampler that was chosen for a number "
    "of samples, the rounds captured on a GPU, compiled code and worker processes. "
    "<code>drawahead.sample(chain)</code> uses the chain's own runner; <code>drawahead.Runner(chain)</code> makes one "
    "to keep and to close. The first call for a number of samples times a few rounds, on noise of its own, and chooses "
    "a sampler. Later calls skip that."
)
_WHERE = (
    "The model of this run is on the CPU, where no rounds are captured. On a GPU the first call also captures each "
    "width of round once, and later calls replay it after a check that the model has not changed."
)


@final
@dataclass(frozen=True)
class RunnerCalls:
    """RunnerCalls of one runner, with equal seeds."""

    reports: tuple[Report, ...]
    equal: bool
    """Whether the second call drew the samples of the first."""


def calls(seed: int) -> RunnerCalls:
    """Three calls: one, the same again, and one for another number of samples."""
    with Runner(TokenChain(MarkovChain(STEPS, STICKY))) as runner:
        results = [runner.sample(num_samples, seed=seed) for num_samples in CALLS]
    equal = torch.equal(results[0].samples, results[1].samples)
    return RunnerCalls(tuple(result.report for result in results), equal)


def runner_section(seed: int) -> str:
    """The section of the page about runners."""
    made = calls(seed)
    heads = ("call", "samples", "queries to choose", "sampler", "rounds", "queries", "milliseconds")
    head = "".join(f"<th scope=col>{name}</th>" for name in heads)
    rows = "".join(_row(number, report) for number, report in enumerate(made.reports, 1))
    same = "the same samples, because" if made.equal else "other samples, although"
    return (
        '<section id="runner"><h2>Runner<small>what a second call costs</small></h2>'
        f"<p>{_IDEA}</p><p>Three calls of one runner, for {STEPS} letters. The second call drew {same} chain, seed and "
        f"number of samples are equal. The third draws another number of samples, so a sampler is chosen again.</p>"
        f'<div class="decisions"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'
        f"<p>{_WHERE}</p></section>"
    )


def _row(number: int, report: Report) -> str:
    values = (report.num_samples, report.probes or "none", escape(report.sampler), report.rounds, report.queries)
    cells = "".join(f"<td>{value}</td>" for value in (*values, f"{1000 * report.seconds:.0f}"))
    return f"<tr><th scope=row>{number}</th>{cells}</tr>"
