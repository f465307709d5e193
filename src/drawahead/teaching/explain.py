"""A page that walks through one small run of each sampler, with the numbers of that run."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterator, Sequence
from html import escape
from pathlib import Path
from string import Template

import torch

from drawahead.chains import TokenChain
from drawahead.randomness import checked_seed
from drawahead.report import Report
from drawahead.runner import Runner
from drawahead.sample import Result
from drawahead.show.pages.document import part, still, write
from drawahead.show.pictures import Tiles
from drawahead.targets import MarkovChain, PlanarMatching
from drawahead.teaching.walks import BOARD, LENGTH, LETTERS, NAMES, STICKY, Segment, Walk, walk
from drawahead.teaching.windows import OPEN, windows
from drawahead.words import counted, pick

SEED = 4
"""The default seed: one with which every sampler has something to correct."""
STEPS = 64
"""Of the runner's sequence: long enough that speculation may pay, so that a sampler is to be chosen."""
CALLS = (4, 4, 2)
"""How many samples each call of the runner draws."""
TOPICS = (*NAMES, "runner")
"""What the page can be about."""


def explain(samplers: Sequence[str] | None = None, path: str | Path | None = None, *, seed: int = SEED) -> str:
    """Write the page about these samplers to `path`, if there is one, and return it.

    samplers: names of samplers, "left-to-right" (a model that answers only about the next token) or "runner" (what is
        held between calls); all of them by default.

    All draw the same small sequence; only `separated` draws a domino tiling, and the runner a longer sequence.
    """
    seed = checked_seed(seed)
    topics = [
        pick("topic", name, {each: each for each in TOPICS}) for name in (TOPICS if samplers is None else samplers)
    ]
    walks = {name: walk(name, seed) for name in topics if name in NAMES}
    page = still(
        part("explain.html", "drawahead.teaching"),
        part("page.css") + "\n" + part("explain.css", "drawahead.teaching"),
        title="Drawing ahead" if samplers is None else f"Drawing ahead: {', '.join(topics)}",
        steps=str(LENGTH),
        model=_model(list(walks.values())),
        contents=_contents(list(walks.values()), topics),
        sections="\n".join(_section(walks[name]) if name in walks else _runner(calls(seed)) for name in topics),
        about=_about(seed),
    )
    if path is not None:
        write(path, page)
    return page


def _prose(name: str, **fields: object) -> str:
    """One of the texts of the page, with these fields put in."""
    texts = re.split(r"<!-- (.+) -->", part("prose.html", "drawahead.teaching"))
    return Template(" ".join(texts[texts.index(name) + 1].split())).substitute(fields)


def _model(walks: Sequence[Walk]) -> str:
    letters = f"{', '.join(LETTERS[:-1])} or {LETTERS[-1]}"
    if not walks:
        return _prose("letters", steps=STEPS, letters=letters)
    if all(each.settled is not None for each in walks):
        return _prose("board", side=BOARD)
    in_order = all(each.name == "left-to-right" for each in walks)
    bars = _prose("bars", how="from left to right" if in_order else "in a random order")
    return f"{_prose('letters', steps=LENGTH, letters=letters)} {bars}"


def _contents(walks: Sequence[Walk], topics: Sequence[str]) -> str:
    if len(topics) < 2:
        return ""
    rows = ""
    for each in walks:
        report = each.report
        drafts = f"{report.accepted} of {report.drafted}" if report.drafted else "none"
        values = (report.rounds, report.queries, drafts, "yes" if each.sampler.guarantee.exact else "no")
        cells = "".join(f"<td>{value}</td>" for value in values)
        rows += f'<tr><th scope=row><a href="#{each.name}">{each.name}</a></th>{cells}</tr>'
    heads = "".join(f"<th scope=col>{name}</th>" for name in ("sampler", "rounds", "queries", "drafts kept", "exact"))
    table = f'<div class="decisions"><table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>'
    link = '<p>Then: <a href="#runner">what a runner holds</a> from one call to the next.</p>'
    return table + (link if "runner" in topics else "")


def _about(seed: int) -> str:
    import drawahead

    chosen = f"{_prose('chosen')} " if seed == SEED else ""
    return _prose("about", seed=seed, version=escape(drawahead.__version__), chosen=chosen)


def _section(each: Walk) -> str:
    guarantee = each.sampler.guarantee
    promise = f"{'exact' if guarantee.exact else 'not exact'} · rounds {guarantee.rounds} · {guarantee.reference}"
    report = each.report
    queries, rounds = f"{report.queries} queries", counted(report.rounds, "round")
    steps = each.chain.steps
    cost = f"This run: {steps} steps in <b>{rounds}</b> and {queries}; one by one takes {steps} of both."
    body = _BODIES[each.name](each)
    return (
        f'<section id="{each.name}"><h2>{each.name.capitalize()}<small>{escape(promise)}</small></h2>'
        f"<p>{_prose(each.name)}</p><p>{cost}</p>{body}</section>"
    )


# The recursion


def _recursion(each: Walk) -> str:
    cards = []
    for number, group in itertools.groupby(each.segments, key=lambda segment: segment.round):
        rows = "".join(_decision(segment) for segment in group)
        heads = ("what", "values", "&mu; / &nu;", "accept if u is below", "u", "")
        head = "".join(f"<th scope=col>{name}</th>" for name in heads)
        state = "open" if number <= 2 * OPEN else ""
        cards.append(
            f'<details class="round-card" {state}><summary>Round {number}</summary><div class="decisions stacked">'
            f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div></details>"
        )
    first = min((segment.round for segment in each.segments), default=1)
    opening = "Round 1 asks for the answer that everything is drafted from. " if first > 1 else ""
    note = f"<p>{opening}{_prose('recursion')}</p>"
    end = f"<p>The sample, in the order of positions: <code>{_letters(each.sample.tolist())}</code></p>"
    return note + "".join(cards) + end


def _decision(segment: Segment) -> str:
    steps = _span(segment.start, segment.size)
    inside = "".join(f", for candidate {index} of {_span(a, b - a)}" for index, a, b in reversed(segment.whose))
    ratio = math.exp(segment.log_ratio)
    if segment.candidate:
        what = f"candidate {segment.candidate} for {steps}{inside}"
        bound = max(0.0, 1 - 1 / ratio) if ratio else 0.0
        rule = f"max(0, 1 &minus; 1 / {ratio:.3f}) = {bound:.3f}"
    else:
        what = f"draft of {steps}{inside}"
        rule = f"min(1, {ratio:.3f}) = {min(1.0, ratio):.3f}"
    verdict = '<td class="yes">accepted</td>' if segment.accepted else "<td>rejected</td>"
    return (
        f'<tr><td>{what}</td><td data-name="values"><code>{_letters(segment.values)}</code></td>'
        f'<td data-name="&mu; / &nu; =">{ratio:.3f}</td><td>{rule}</td><td data-name="u =">{segment.uniform:.3f}</td>'
        f"{verdict}</tr>"
    )


def _span(start: int, size: int) -> str:
    return f"step {start}" if size == 1 else f"steps {start} to {start + size - 1}"


def _letters(values: Sequence[int]) -> str:
    return "".join(LETTERS[value] for value in values)


# Tilings that fall into pieces


def _boards(each: Walk) -> str:
    return f'<div class="boards">{"".join(_board(each))}</div>'


def _board(each: Walk) -> Iterator[str]:
    """The board after every round that settled something: that in dark, what was settled before in light."""
    matching = each.chain.oracle
    assert isinstance(matching, PlanarMatching) and each.settled is not None
    view = matching.view()
    whole, times = view.picture(each.sample), view.times(each.sample, each.settled)
    assert isinstance(whole, Tiles)
    squares = tuple((j, i, 1, 1, 2) for i, j in matching.nodes)
    for now in sorted(set(times)):
        settled = [(tile, time) for tile, time in zip(whole.tiles, times, strict=True) if time <= now]
        tiles = squares + tuple((*tile[:4], int(time < now)) for tile, time in settled)
        picture = Tiles(whole.box, tiles, ("#0b8a7c", "#9fcfc6", "#8882"))
        caption = f"<span>round {now}: {times.count(now)} dominoes</span> <span>{len(settled)} of {len(times)}</span>"
        yield f"<figure>{picture.html(f'the board after round {now}')}<figcaption>{caption}</figcaption></figure>"


_BODIES: dict[str, Callable[[Walk], str]] = {
    **dict.fromkeys(("sequential", "stepwise", "block", "coupled", "picard", "left-to-right"), windows),
    "recursive": _recursion,
    "separated": _boards,
}


# What a runner holds from one call to the next


def calls(seed: int) -> list[Result]:
    """Three calls of one runner: one, the same again, and one for another number of samples."""
    with Runner(TokenChain(MarkovChain(STEPS, STICKY))) as runner:
        return [runner.sample(num_samples, seed=seed) for num_samples in CALLS]


def _runner(results: Sequence[Result]) -> str:
    heads = ("call", "samples", "queries to choose", "sampler", "rounds", "queries", "milliseconds")
    head = "".join(f"<th scope=col>{name}</th>" for name in heads)
    rows = "".join(_call(number, result.report) for number, result in enumerate(results, 1))
    equal = torch.equal(results[0].samples, results[1].samples)
    same = "the same samples, because" if equal else "other samples, although"
    return (
        '<section id="runner"><h2>Runner<small>what a second call costs</small></h2>'
        f"<p>{_prose('runner')}</p><p>{_prose('runner calls', steps=STEPS, same=same)}</p>"
        f'<div class="decisions"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'
        f"<p>{_prose('runner on a cpu')}</p></section>"
    )


def _call(number: int, report: Report) -> str:
    values = (report.num_samples, report.probes or "none", escape(report.sampler), report.rounds, report.queries)
    cells = "".join(f"<td>{value}</td>" for value in (*values, f"{1000 * report.seconds:.0f}"))
    return f"<tr><th scope=row>{number}</th>{cells}</tr>"
