"""A page that walks through one small run of each sampler, with the numbers of that run."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from html import escape
from pathlib import Path

from drawahead.errors import InputError
from drawahead.randomness import checked_seed
from drawahead.show.pages.document import part, still, write
from drawahead.show.pictures import Tiles
from drawahead.targets import PlanarMatching
from drawahead.teaching.runners import STEPS, runner_section
from drawahead.teaching.walks import BOARD, LENGTH, LETTERS, NAMES, Segment, Walk, walk
from drawahead.teaching.windows import OPEN, windows
from drawahead.validate import short
from drawahead.words import counted, pick

SEED = 4
"""The default seed: one with which every sampler has something to correct."""
_CHOSEN = "This seed was picked from several, because every sampler has something to correct in it. "


TOPICS = (*NAMES, "runner")
"""What the page can be about."""


def explain(samplers: Sequence[str] | None = None, path: str | Path | None = None, *, seed: int = SEED) -> str:
    """Write the page about these samplers to `path`, if there is one, and return it.

    samplers: names of samplers, "left-to-right" (a model that answers only about the next token) or "runner" (what is
        held between calls); None for all of them.

    All draw the same small sequence; only `separated` draws a domino tiling, and the runner a longer sequence.
    """
    if samplers is not None and (isinstance(samplers, str) or not isinstance(samplers, Sequence) or not samplers):
        raise InputError(f"samplers must be a list of names such as {list(TOPICS[:2])}, not {short(samplers)}")
    seed = checked_seed(seed)
    topics = [_topic(name) for name in (TOPICS if samplers is None else samplers)]
    walks = {name: walk(name, seed) for name in topics if name in NAMES}
    page = still(
        part("explain.html", "drawahead.teaching"),
        part("page.css") + "\n" + part("explain.css", "drawahead.teaching"),
        title="Drawing ahead" if samplers is None else f"Drawing ahead: {', '.join(topics)}",
        steps=str(LENGTH),
        model=_model(list(walks.values())),
        contents=_contents(list(walks.values()), topics),
        sections="\n".join(_section(walks[name]) if name in walks else runner_section(seed) for name in topics),
        about=_about(seed),
    )
    if path is not None:
        write(path, page)
    return page


def _topic(name: str) -> str:
    if not isinstance(name, str):
        raise InputError(f"a topic to explain must be a name such as {TOPICS[0]!r}, not {short(name)}")
    return pick("topic", name, {each: each for each in TOPICS})


def _model(walks: Sequence[Walk]) -> str:
    letters = f"{LENGTH} letters {', '.join(LETTERS[:-1])} or {LETTERS[-1]} in a row, in which a letter is followed by "
    letters = f"Drawn here: {letters}the same one with probability 0.7."
    if not walks:
        return letters.replace(str(LENGTH), str(STEPS), 1)
    if all(each.settled is not None for each in walks):
        return f"Drawn here: a domino tiling of a {BOARD} &times; {BOARD} board."
    in_order = all(each.name == "left-to-right" for each in walks)
    return (
        f"{letters} Positions are drawn {'from left to right' if in_order else 'in a random order'}: the small number "
        "under a letter is the step that draws it. Bars show the distribution of one step: that of the <b>draft</b> in "
        "grey, that of the model, the <b>target</b>, in green. A triangle marks the letter that was drawn."
    )


def _contents(walks: Sequence[Walk], topics: Sequence[str]) -> str:
    if len(topics) < 2:
        return ""
    rows = "".join(
        f'<tr><th scope=row><a href="#{each.name}">{each.name}</a></th><td>{each.report.rounds}</td>'
        f"<td>{each.report.queries}</td><td>{_drafts(each)}</td>"
        f"<td>{'yes' if each.sampler.guarantee.exact else 'no'}</td></tr>"
        for each in walks
    )
    heads = "".join(f"<th scope=col>{name}</th>" for name in ("sampler", "rounds", "queries", "drafts kept", "exact"))
    table = f'<div class="decisions"><table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>'
    link = '<p>Then: <a href="#runner">what a runner holds</a> from one call to the next.</p>'
    return table + (link if "runner" in topics else "")


def _drafts(each: Walk) -> str:
    return f"{each.report.accepted} of {each.report.drafted}" if each.report.drafted else "none"


def _about(seed: int) -> str:
    import drawahead

    return (
        f"The runs were made when this page was, by <code>drawahead.sample(..., seed={seed})</code> of drawahead "
        f"{escape(drawahead.__version__)}, and written down by a copy of each sampler at the moment of its decisions. "
        f"{_CHOSEN if seed == SEED else ''}<code>drawahead explain --seed N</code> shows another run. One run of "
        "so few steps says nothing about which sampler is quicker. Methods: speculative sampling (arXiv 2211.17192), "
        "block verification (arXiv 2403.10444), parallel sampling via autospeculation (arXiv 2511.07869), parallel "
        "sampling via counting (STOC 2024), parallel sampling of diffusion models (arXiv 2305.16317)."
    )


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
        f"<p>{_IDEAS[each.name]}</p><p>{cost}</p>{body}</section>"
    )


_IDEAS = {
    "sequential": "One step per round: ask the model about the next step, draw it, go on. Nothing is drafted.",
    "stepwise": "<b>Draft</b> four steps from the last answer, as if none of them depended on the others. "
    "<b>Verify</b>: ask for the distribution of each, given the drafted steps before it. <b>Keep</b> a drafted value "
    "with probability min(1, target / draft), until one is not kept. <b>Correct</b> that one: draw it from what the "
    "target has more than the draft, (target &minus; draft)&#8330;, scaled to sum to one. If all are kept, the step "
    "after them is drawn outright.",
    "block": "As stepwise, but the drafted steps are judged together. A weight p runs along them: p becomes "
    "min(1, p &middot; target / draft), so a lucky step makes up for an unlucky one, and more are kept. Each stretch "
    "passes if its u is below its h, which is made so that the whole comes out right. <b>Keep</b> the longest that "
    "passes. <b>Correct</b> the step after it: draw it from (p &middot; target &minus; draft)&#8330;.",
    "recursive": "The algorithm of &ldquo;Parallel sampling via autospeculation&rdquo;. <b>Draft</b> the whole segment "
    "from one answer, with probability &nu;; <b>verify</b> it in one round, which tells its true probability &mu;; "
    "<b>keep</b> all of it with probability min(1, &mu; / &nu;). Otherwise <b>correct</b> all of it: draw candidates "
    "from the true distribution, each in two halves by the same recursion, and take the first that is accepted, with "
    "probability max(0, 1 &minus; &nu; / &mu;).",
    "coupled": "The noise of every step is fixed once. <b>Draft</b>: a step's newest answer and its noise give a "
    "guess. <b>Verify</b>: the distribution given the guesses before it, with the same noise, gives a value. "
    "<b>Keep</b> the leading steps at which both agree. The first that does not is <b>corrected</b> by its value, "
    "and all later guesses are drawn again, from the new answers and the old noise.",
    "picard": "As coupled, but a step counts as kept when draft and target are close: within a total variation of "
    "0.1. It goes on from values that were not verified to the end, so it is <b>not exact</b>.",
    "left-to-right": "A language model reads from left to right: one pass answers every letter it reads with the "
    "distribution of the next one, but it says nothing about letters further ahead. So there is nothing to draft "
    "those from, and a step that no answer is about yet takes the last answer as its <b>draft</b> (the "
    "<code>first_guess</code> of a <code>CausalChain</code>). From there on it is <i>coupled</i>: one pass over prompt "
    "and guesses <b>verifies</b> the window, guesses that the same noise confirms are <b>kept</b>, the first other one "
    "is <b>corrected</b>, and the answers of this pass become the next drafts. The prompt here is the letter A.",
    "separated": "For distributions that fall apart: given the squares along a <b>separator</b>, the two sides of a "
    "tiling are independent. Draw the separator first, by another sampler (here coupled), then both sides at once, "
    "each with a separator of its own. Shown are the rounds in which a separator, or the last "
    "of a side, was finished: what they settled in dark.",
}


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
    note = (
        f"<p>{opening}Values are in the order of steps. A segment of a single step needs no verification: there the "
        "draft is the target; a candidate is judged without a query, because its halves know &mu;.</p>"
    )
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
