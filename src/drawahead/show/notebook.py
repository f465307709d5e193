"""What notebooks show of results, reports, targets and chains: a small box, readable in light and dark themes.

Notebooks have themes of their own, so colours are the text's, or seen on black and on white alike. Style is inline and
there is no script: nothing else survives everywhere a notebook is shown.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING

from torch import Tensor

from drawahead.oracles.denoisers import DenoisingTarget
from drawahead.oracles.tokens import HIDDEN, TokenOracle
from drawahead.report import Report
from drawahead.show import summary
from drawahead.show.views import Images, View, view_of_samples

if TYPE_CHECKING:
    from drawahead.chains import Chain
    from drawahead.sample import Result

_BOX = "font:14px/1.5 system-ui,sans-serif;max-width:46rem;padding:.7rem .9rem;border:1px solid #8886;border-radius:8px"
_SOFT = "opacity:.72;font-size:13px"
_CELL = "padding:.1rem 1.1rem .1rem 0;text-align:left;border:0;background:none"
_MONO = "font:12px/1.5 ui-monospace,monospace;margin:.25rem 0 0;overflow-wrap:anywhere;white-space:pre-wrap"
_MAIN, _OTHER = "#1a9c8c", "#8889"
_BARS, _LETTERS = 80, 160
SAMPLES = 6
"""How many samples are shown."""


def of_result(result: Result) -> str:
    """A result: its samples, and what they cost."""
    count = len(result.samples)
    title = f"{count:,} sample{'s' * (count != 1)} of shape {tuple(result.samples.shape[1:])}"
    warning = "" if result.complete else "Stopped early: these are not samples of the distribution."
    rest = f"… and {count - SAMPLES:,} more" if count > SAMPLES else ""
    shown = _samples(result.samples) if count and result.samples.dim() > 1 else ""
    return _box(title, _said(warning) + _report(result.report) + shown + _said(rest))


def of_report(report: Report) -> str:
    """A report: rounds and queries, and a bar for each round."""
    return _box(summary.headline(report), _report(report))


def of_oracle(oracle: TokenOracle | DenoisingTarget) -> str:
    """A target: what it is, and how large."""
    facts = _facts(
        oracle, {"length": "positions", "vocab_size": "tokens", "shape": "shape", "device": "device", "k": "items"}
    )
    return _box(type(oracle).__name__, _said(_first_words(oracle)) + _table(facts))


def of_chain(chain: Chain) -> str:
    """A chain: what it draws, and in how many steps."""
    facts: dict[str, object] = {"steps": chain.steps}
    oracle = getattr(chain, "oracle", None)
    if isinstance(oracle, TokenOracle):
        facts["model"] = f"{type(oracle).__name__}, {oracle.length:,} positions, {oracle.vocab_size:,} tokens"
    facts |= _facts(chain, {"shape": "shape", "device": "device"})
    schedule = getattr(chain, "schedule", None)
    if schedule is not None:
        facts["schedule"] = type(schedule).__name__
    order, evidence = getattr(chain, "order", None), getattr(chain, "evidence", None)
    if isinstance(oracle, TokenOracle):
        facts["order"] = "random" if order is None else order if isinstance(order, str) else "given"
    if isinstance(evidence, Tensor):
        facts["known positions"] = f"{int((evidence != HIDDEN).sum(-1).max()):,}"
    condition = getattr(chain, "condition", None)
    if condition:
        facts["condition"] = ", ".join(condition)
    return _box(type(chain).__name__, _table(facts))


def _box(title: str, body: str) -> str:
    return f'<div style="{_BOX}"><b>{escape(title)}</b>{body}</div>'


def _said(text: str) -> str:
    return f'<div style="{_SOFT}">{escape(text)}</div>' if text else ""


def _table(facts: Mapping[str, object]) -> str:
    names = "".join(
        f'<tr style="background:none"><td style="{_CELL};opacity:.72">{escape(name)}</td>'
        f'<td style="{_CELL}">{escape(str(value))}</td></tr>'
        for name, value in facts.items()
    )
    return f'<table style="border-collapse:collapse;margin:.35rem 0 0;font-size:13px;border:0">{names}</table>'


def _report(report: Report) -> str:
    if not report.sample_rounds:
        return _said("no sample was finished")
    facts = {"sampler": f"{report.sampler}, {'exact' if report.exact else 'NOT exact'}, seed {report.seed}"}
    facts |= {shown.name: f"{shown.value}, {shown.remark}" for shown in summary.figures(report)}
    return _table(facts) + _bars(report)


def _bars(report: Report) -> str:
    """Queries of each round, and on them the steps committed; of every so many rounds, where there are more."""
    rounds = summary.rounds(report, _BARS)
    count, asked, made = rounds["count"], rounds["queries"], rounds["committed"]
    if count < 2 or not max(asked):
        return ""
    high = max(*asked, *made)
    bars = "".join(
        f'<rect x="{6 * i}" y="{40 - height:.1f}" width="5" height="{height:.1f}" fill="{colour}"/>'
        for values, colour in ((asked, _OTHER), (made, _MAIN))
        for i, height in enumerate(40 * value / high for value in values)
    )
    label = f"queries (grey) and steps committed in each of {count:,} rounds"
    style = f"display:block;width:{min(100, 8 * len(asked))}%;max-width:30rem;height:40px;margin:.5rem 0 0"
    return (
        f'<svg viewBox="0 0 {6 * len(asked)} 40" role="img" aria-label="{label}" preserveAspectRatio="none" '
        f'style="{style}">{bars}</svg>'
        f'<div style="{_SOFT}">{label}</div>'
    )


def _samples(samples: Tensor) -> str:
    """The first ones: images as images, all others as a line each."""
    view = view_of_samples(samples)
    if isinstance(view, Images):
        size = (
            "height:72px;width:auto;margin:.4rem .4rem 0 0;image-rendering:pixelated;border-radius:4px;display:inline"
        )
        pictures = (view.picture(sample).html(f"sample {i}") for i, sample in enumerate(samples[:SAMPLES]))
        return "".join(html.replace('class="bitmap"', f'style="{size}"') for html in pictures)
    lines = (_line(view, sample.flatten()) for sample in samples[:SAMPLES])
    return f'<div style="{_MONO}">{escape(chr(10).join(lines))}</div>'


def _line(view: View, sample: Tensor) -> str:
    text = view.line(sample[:_LETTERS])
    cut = text[:_LETTERS]
    return cut + "…" if len(cut) < len(text) or len(sample) > _LETTERS else cut


def _facts(thing: object, names: Mapping[str, str]) -> dict[str, object]:
    """What it knows of itself; a class of the user's own may not know all yet."""
    return {told: value for name, told in names.items() if (value := getattr(thing, name, None)) is not None}


def _first_words(thing: object) -> str:
    """The first sentence of what its class says of itself."""
    return (inspect.getdoc(type(thing)) or "").partition("\n\n")[0].replace("\n", " ")
