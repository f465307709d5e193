"""What window samplers did, round by round: drafts, targets, and what became of each step."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from drawahead.samplers import Coupled
from drawahead.teaching.walks import LENGTH, LETTERS, Judged, Walk

OPEN = 4
"""Rounds that are unfolded when the page opens."""


def windows(each: Walk) -> str:
    return "".join(_round(each, number, judged) for number, judged in enumerate(each.rounds, 1))


def _round(each: Walk, number: int, judged: Judged) -> str:
    committed = min(judged.kept + 1, LENGTH - judged.start)
    if judged.width:
        verb = "agreed" if isinstance(each.sampler, Coupled) else "kept"
        summary = f"{judged.width} drafted, {judged.kept} {verb}, {committed} committed"
    else:
        summary = "no draft: one step drawn outright"
    state = "open" if number <= (OPEN if judged.width or number == 1 else 2) else ""
    steps = "".join(_step(each, judged, i) for i in range(judged.width + 1) if judged.start + i < LENGTH)
    return (
        f'<details class="round-card" {state}><summary>Round {number} <span>· {summary}</span></summary>'
        f'{_cells(each, judged, committed)}<div class="steps">{steps}</div></details>'
    )


def _cells(each: Walk, judged: Judged, committed: int) -> str:
    """The sequence where it lies: what was there, what this round committed, and what it had only drafted."""
    steps = {position: step for step, position in enumerate(each.order.tolist())}
    cells = []
    for position in range(LENGTH):
        step = steps[position]
        at = step - judged.start
        if at < 0:
            kind, letter = "there", LETTERS[int(each.sample[position])]
        elif at < committed:
            kind, letter = "fresh", LETTERS[int(each.sample[position])]
        elif at < judged.width:
            kind, letter = "drafted", LETTERS[int(judged.window.guess[0, at])]
        else:
            kind, letter = "missing", "·"
        cells.append(f'<li class="{kind}">{letter}<small>{step}</small></li>')
    return f'<ol class="cells" aria-label="the sequence after this round">{"".join(cells)}</ol>'


def _step(each: Walk, judged: Judged, i: int) -> str:
    """One step of a round: draft, target, and what became of it."""
    step = judged.start + i
    title = f"<b>Step {step}</b>, position {int(each.order[step])}"
    drawn = int(judged.values[i]) if i <= judged.kept else None
    if i == judged.width:
        said = "<p>not reached</p>" if drawn is None else _kept(f"drawn outright: {LETTERS[drawn]}")
        law = _bars(judged.law("target", i), "target", drawn)
        return f'<div class="step {"unread" if drawn is None else "kept"}">{title}<p>target</p>{law}{said}</div>'
    guess = int(judged.window.guess[0, i])
    laws = (
        f"<p>draft: <b>{LETTERS[guess]}</b></p>{_bars(judged.law('draft', i), 'draft', guess)}"
        f"<p>target</p>{_bars(judged.law('target', i), 'target', drawn if i == judged.kept else None)}"
    )
    kind = "kept" if i < judged.kept else "wrong" if i == judged.kept else "unread"
    return f'<div class="step {kind}">{title}{laws}{_VERDICTS[each.name](judged, i)}</div>'


def _stepwise(judged: Judged, i: int) -> str:
    guess = int(judged.window.guess[0, i])
    target, draft = judged.law("target", i)[guess], judged.law("draft", i)[guess]
    ratio, uniform = target / draft, float(judged.window.uniform[0, i])
    said = f"<p>min(1, {target:.3f} / {draft:.3f}) = {min(1.0, ratio):.3f}; u = {uniform:.3f}</p>"
    if i > judged.kept:
        return said + "<p>after a rejected step: dropped</p>"
    return said + (_kept("kept") if i < judged.kept else _corrected(judged, 1.0))


def _block(judged: Judged, i: int) -> str:
    weights, chances = block_walk(judged)
    uniform = float(judged.window.uniform[0, i])
    said = f"<p>p = {weights[i + 1]:.3f}, h = {chances[i + 1]:.3f}; u = {uniform:.3f}</p>"
    passes = uniform <= chances[i + 1]
    said += f"<p>u {'≤' if passes else '&gt;'} h: a stretch up to here {'passes' if passes else 'does not pass'}</p>"
    if i > judged.kept:
        return said + "<p>dropped</p>"
    return said + (_kept("kept") if i < judged.kept else _corrected(judged, weights[i]))


def block_walk(judged: Judged) -> tuple[list[float], list[float]]:
    """p_0 ... p_w, and the chances h_0 ... h_w to stop there at the latest, as `Block` has them."""
    window, width = judged.window, judged.width
    weights, chances = [1.0], []
    for i in range(width):
        guess = int(window.guess[0, i])
        weights.append(min(1.0, weights[-1] * judged.law("target", i)[guess] / judged.law("draft", i)[guess]))
    for i in range(width):
        rest = sum(_rest(judged, i, weights[i]))
        chances.append(rest / (rest + 1 - weights[i]) if rest else 0.0)
    return weights, [*chances, weights[-1]]


def _rest(judged: Judged, i: int, weight: float) -> list[float]:
    """(weight * target - draft)_+ of a step."""
    pairs = zip(judged.law("target", i), judged.law("draft", i), strict=True)
    return [max(0.0, weight * target - draft) for target, draft in pairs]


def _kept(word: str) -> str:
    return f'<p class="verdict">{word}</p>'


def _corrected(judged: Judged, weight: float) -> str:
    i = judged.kept
    rest, value = _rest(judged, i, weight), int(judged.values[i])
    total = sum(rest)
    name = "(target &minus; draft)&#8330;" if weight == 1 else f"({weight:.3f} &middot; target &minus; draft)&#8330;"
    bars = _bars([chance / total for chance in rest], "rest", value) if total else ""
    return f'<p>not kept; {name}</p>{bars}<p class="verdict">corrected: {LETTERS[value]}</p>'


def _coupled(judged: Judged, i: int) -> str:
    guess, value = int(judged.window.guess[0, i]), int(judged.values[i])
    noise = ", ".join(f"{entry:+.2f}" for entry in judged.window.noise[0, i].tolist())
    said = f"<p>noise ({noise}): draft gives {LETTERS[guess]}, target gives {LETTERS[value]}</p>"
    if i < judged.kept:
        return said + _kept("they agree")
    if i == judged.kept:
        return said + f'<p class="verdict">corrected: {LETTERS[value]}</p>'
    return said + "<p>after a correction: guessed again</p>"


def _picard(judged: Judged, i: int) -> str:
    target, draft = (judged.law(side, i) for side in ("target", "draft"))
    gap = sum(abs(a - b) for a, b in zip(target, draft, strict=True)) / 2
    value = LETTERS[int(judged.values[i])]
    said = f"<p>total variation {gap:.3f} {'≤' if gap <= 0.1 else '&gt;'} 0.1</p>"
    if i < judged.kept:
        return said + _kept(f"kept: {value}")
    return said + (f'<p class="verdict">refined: {value}</p>' if i == judged.kept else "<p>refined further</p>")


_VERDICTS: dict[str, Callable[[Judged, int], str]] = {
    "stepwise": _stepwise,
    "block": _block,
    "coupled": _coupled,
    "picard": _picard,
    "left-to-right": _coupled,
}


def _bars(chances: Sequence[float], kind: str, drawn: int | None) -> str:
    """A distribution on the letters."""
    shapes = []
    for i, (letter, chance) in enumerate(zip(LETTERS, chances, strict=True)):
        mark = " &#9666;" if i == drawn else ""
        length = 70 * min(1.0, chance)
        shapes.append(
            f'<text x="0" y="{13 * i + 9}">{letter}</text>'
            f'<rect class="{kind}" x="12" y="{13 * i + 1.5}" width="{max(0.5, length):.1f}" height="9"/>'
            f'<text class="value" x="{16 + length:.1f}" y="{13 * i + 9}">{chance:.2f}{mark}</text>'
        )
    label = ", ".join(f"{letter} {chance:.2f}" for letter, chance in zip(LETTERS, chances, strict=True))
    return f'<svg class="law" viewBox="0 0 122 39" role="img" aria-label="{label}">{"".join(shapes)}</svg>'
