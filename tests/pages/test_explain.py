"""The page that explains: its numbers are those of the runs, and its rules lead to what the samplers did."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest
import torch

import drawahead as da
from drawahead import teaching
from drawahead.cli.app import run
from drawahead.teaching.explain import CALLS, SEED, TOPICS, calls
from drawahead.teaching.walks import _MADE, LENGTH, LETTERS, NAMES, STICKY, Walk, walk
from drawahead.teaching.windows import block_walk

WINDOWS = ("sequential", "stepwise", "block", "coupled", "picard", "left-to-right")
SEEDS = (SEED, 1, 7)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_walk_is_a_run_that_anybody_can_make(name: str, seed: int) -> None:
    if name == "separated" and seed != SEED:
        return
    found = walk(name, seed)
    result = da.sample(found.chain, 1, sampler=_MADE[name](), seed=seed)
    assert torch.equal(found.sample, result.samples[0])
    counted = ("sampler", "rounds", "queries", "drafted", "accepted", "candidates", "exact")
    assert all(getattr(found.report, of) == getattr(result.report, of) for of in counted)


@pytest.mark.parametrize("name", WINDOWS)
@pytest.mark.parametrize("seed", SEEDS)
def test_rounds_lead_to_the_sample(name: str, seed: int) -> None:
    found = walk(name, seed)
    assert len(found.rounds) == found.report.rounds
    drawn = [value for judged in found.rounds for value in judged.values[: judged.kept + 1].tolist()]
    steps = [int(found.sample[position]) for position in found.order.tolist()]
    assert drawn[:LENGTH] == steps
    assert sum(judged.width for judged in found.rounds) == found.report.drafted
    laws = [judged.law("target", 0) for judged in found.rounds]
    assert all(math.isclose(sum(law), 1) for law in laws)
    if name == "left-to-right":
        assert found.order.tolist() == list(range(LENGTH)) and laws[0] == pytest.approx([0.7, 0.2, 0.1])
    else:
        first = found.chain.oracle.rows(torch.full((1, LENGTH), da.HIDDEN))[0, int(found.order[0])].exp()
        assert laws[0] == pytest.approx(first.tolist())


@pytest.mark.parametrize("seed", SEEDS)
def test_left_to_right_drafts_are_answers_about_earlier_steps(seed: int) -> None:
    """The target of a step is the row of the letter before it, and the first draft of each step is the last answer."""
    found = walk("left-to-right", seed)
    assert found.report.passes == found.report.rounds < LENGTH
    letters = [0, *found.sample.tolist()]
    for judged in found.rounds:
        for i in range(judged.kept + 1):
            if judged.start + i < LENGTH:
                assert judged.law("target", i) == pytest.approx(STICKY[letters[judged.start + i]])
    second = found.rounds[1]
    assert all(second.law("draft", i) == pytest.approx(STICKY[0]) for i in range(second.width))


@pytest.mark.parametrize("seed", range(20))
def test_the_rules_that_the_page_states_lead_to_what_was_kept(seed: int) -> None:
    for judged in walk("stepwise", seed).rounds:
        kept = 0
        while kept < judged.width:
            guess = int(judged.window.guess[0, kept])
            ratio = judged.law("target", kept)[guess] / judged.law("draft", kept)[guess]
            if float(judged.window.uniform[0, kept]) > ratio:
                break
            kept += 1
        assert kept == judged.kept
    for judged in walk("block", seed).rounds:
        _, chances = block_walk(judged)
        passing = [i for i in range(1, judged.width + 1) if float(judged.window.uniform[0, i - 1]) <= chances[i]]
        assert max(passing, default=0) == judged.kept
    for judged in (*walk("coupled", seed).rounds, *walk("left-to-right", seed).rounds):
        agree = [int(judged.window.guess[0, i]) == int(judged.values[i]) for i in range(judged.width)]
        assert judged.kept == (agree.index(False) if False in agree else judged.width)


@pytest.mark.parametrize("seed", [SEED, 3, 2])
def test_decisions_of_the_recursion(seed: int) -> None:
    found = walk("recursive", seed)
    for segment in found.segments:
        ratio = math.exp(segment.log_ratio)
        chance = max(0.0, 1 - 1 / ratio) if segment.candidate else min(1.0, ratio)
        assert segment.accepted == (segment.uniform < chance) and len(segment.values) == segment.size
    whole = [segment for segment in found.segments if not segment.whose]
    assert [segment.accepted for segment in whole].count(True) == 1 and whole[0].candidate == 0
    steps = [int(found.sample[position]) for position in found.order.tolist()]
    assert list(next(segment for segment in whole if segment.accepted).values) == steps
    assert max(segment.round for segment in found.segments) == found.report.rounds


def test_ratios_are_those_of_the_law() -> None:
    """mu of the first draft, by the chain rule; nu from the marginals, for all of it is drafted from one answer."""
    found = walk("recursive", SEED)
    oracle, first = found.chain.oracle, found.segments[0]
    tokens = torch.full((1, LENGTH), da.HIDDEN)
    start = oracle.rows(tokens)[0]
    log_ratio = 0.0
    for position, value in zip(found.order.tolist(), first.values, strict=True):
        log_ratio += float(oracle.rows(tokens)[0, position, value] - start[position, value])
        tokens[0, position] = value
    assert log_ratio == pytest.approx(first.log_ratio)


def section(page: str, name: str) -> str:
    return page[page.index(f'<section id="{name}">') :].partition("</section>")[0]


def shown_numbers(page: str, found: Walk) -> None:
    text = section(page, found.name)
    assert f"<b>{found.report.rounds} rounds</b> and {found.report.queries} queries" in text
    assert text.count("<details") == len(found.rounds)
    for judged in found.rounds:
        for i in range(judged.width):
            for side in ("draft", "target"):
                told = ", ".join(f"{a} {b:.2f}" for a, b in zip(LETTERS, judged.law(side, i), strict=True))
                assert f'aria-label="{told}"' in text


def test_the_page(tmp_path: Path) -> None:
    page = teaching.explain(path=tmp_path / "explain.html")
    assert (tmp_path / "explain.html").read_text() == page and len(page) < 400_000
    assert "<script" not in page and not re.search(r'(src|href)="(?!#)', page) and " style=" not in page
    for name in WINDOWS:
        shown_numbers(page, walk(name, SEED))
    for segment in walk("recursive", SEED).segments:
        assert f'="u =">{segment.uniform:.3f}</td>' in section(page, "recursive")
    settled = walk("separated", SEED).settled
    assert settled is not None and section(page, "separated").count("<figure") == len(settled.unique())
    assert all(f'href="#{name}"' in page and f'<section id="{name}">' in page for name in TOPICS)
    other = teaching.explain(["stepwise"], seed=1)
    assert 'id="stepwise"' in other and 'id="block"' not in other and "seed=1" in other
    shown_numbers(other, walk("stepwise", 1))


def test_a_second_call_of_a_runner_chooses_nothing() -> None:
    results = calls(SEED)
    first, second, third = (result.report for result in results)
    assert torch.equal(results[0].samples, results[1].samples)
    assert [result.report.num_samples for result in results] == list(CALLS)
    assert first.probes > 0 == second.probes and third.probes > 0
    assert (first.sampler, first.rounds, first.queries) == (second.sampler, second.rounds, second.queries)


def test_the_section_about_runners() -> None:
    page = teaching.explain(["Runner"])
    text = section(page, "runner")
    assert "<title>Drawing ahead: runner</title>" in page and text.count("<tr>") == 1 + len(CALLS)
    assert "The second call drew the same samples" in text and "<td>none</td>" in text
    assert "on the CPU, where no rounds are captured" in text
    assert not da.Runner(walk("coupled", SEED).chain).settle(CALLS[0]).captured
    assert "64 letters" in page and "domino" not in page
    assert "from left to right" in teaching.explain(["left_to_right"])


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["explain", "block"]) == 0 and capsys.readouterr().out == "wrote explain.html\n"
    assert (tmp_path / "explain.html").read_text() == teaching.explain(["block"])
    assert run(["explain", "Coupled", "--out", "a.html", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"page": "a.html", "samplers": ["coupled"], "seed": SEED}
    for words, told in (
        (["nothing"], "no topic 'nothing'; the topics are sequential"),
        (["blok"], "no topic 'blok'; did you mean 'block'?"),
        (["block", "--out", "a.pdf"], "must end in .html"),
        (["block", "--out", "no/a.html"], "there is no folder no"),
    ):
        assert run(["explain", *words]) == 1 and told in capsys.readouterr().err
