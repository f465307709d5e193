"""What a prompt and a notebook show: one line, a small box, and nothing that a sample or a name could break."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import pytest
import torch
from torch import Tensor

import drawahead as da
from drawahead import targets

DRAWN = da.sample(targets.Pairs(8), 9, sampler=da.Coupled(), seed=3)
PLAIN = targets.DataSet(torch.eye(4).view(1, 4, 4).double())
IMAGES = da.sample(da.GaussianChain(PLAIN, da.DDPM((0.1, 0.2))), 2, seed=0)
CHAIN = da.TokenChain(targets.Pairs(4), evidence=[1, -1, -1, -1], order=[0, 2, 1, 3])

SHOWN: dict[str, tuple[Any, list[str]]] = {
    "result": (DRAWN, ["9 samples", "(8,)", "exact", "seed 3", "Coupled"]),
    "images": (IMAGES, ["2 samples", "(4, 4)"]),
    "report": (DRAWN.report, ["rounds", "queries", "exact", "seed 3"]),
    "oracle": (targets.Pairs(8), ["Pairs", "8", "2"]),
    "fixed size": (targets.KDPP(torch.eye(4), 2), ["KDPP", "4"]),
    "target": (targets.Hypercube(3), ["Hypercube", "(3,)"]),
    "tokens": (CHAIN, ["TokenChain", "3", "Pairs"]),
    "vectors": (da.GaussianChain(targets.Hypercube(3)), ["GaussianChain", "512", "(3,)"]),
    "network": (da.networks.text(5), ["TextModel", "5"]),
}


class Tags(HTMLParser):
    """What a browser would make of it."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.feed(html)
        assert not self.open, f"{self.open} are not closed"

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.seen.append(tag)
        assert all(not name.startswith("on") for name, _ in attrs)
        if tag not in ("img", "rect", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag != "rect":
            assert self.open.pop() == tag


@pytest.mark.parametrize("name", SHOWN)
def test_a_repr_is_one_short_line(name: str) -> None:
    thing, words = SHOWN[name]
    shown = repr(thing)
    assert len(shown.splitlines()) == 1 and len(shown) < 300 and "tensor" not in shown and " object at " not in shown
    assert all(word in shown for word in words)


@pytest.mark.parametrize("name", SHOWN)
def test_notebooks_get_a_small_box(name: str) -> None:
    thing, words = SHOWN[name]
    html = thing._repr_html_()
    assert len(html) < 20_000 and all(word in html for word in words)
    tags = Tags(html)
    assert not {"script", "style", "link", "iframe"} & set(tags.seen)
    assert not re.search(r'(src|href)="(?!data:)', html)  # nothing is loaded
    assert not re.search(r"[^-]color:#", html)  # the theme's own colours


def test_samples_are_shown_as_they_are() -> None:
    html = DRAWN._repr_html_()
    lines = ["".join(map(str, row)) for row in DRAWN.samples.tolist()]
    assert all(line in html for line in lines[:6]) and "and 3 more" in html
    assert IMAGES._repr_html_().count("data:image/png") == 2
    rounds = Tags(html).seen.count("rect")
    assert rounds == 2 * DRAWN.report.rounds  # queries, and steps committed


def test_nothing_in_a_box_can_be_html() -> None:
    class Named(da.TokenOracle):
        """<script>alert(1)</script> & more."""

        length, vocab_size = 2, 2

        def rows(self, tokens: Tensor) -> Tensor:
            return torch.zeros(*tokens.shape, 2).log_softmax(-1)

    assert "<script" not in Named()._repr_html_() and "&lt;script&gt;" in Named()._repr_html_()
    report = da.Report.from_dict(DRAWN.report.to_dict() | {"sampler": "<b onload=x>"})
    assert "<b onload" not in report._repr_html_()


def test_what_is_not_ready_can_be_shown() -> None:
    class Unready(da.TokenOracle):
        def rows(self, tokens: Tensor) -> Tensor:
            raise NotImplementedError

    assert repr(Unready()) == "<Unready: ? positions, ? tokens>" and "Unready" in Unready()._repr_html_()
    assert repr(da.TokenChain.__new__(da.TokenChain)) == "<TokenChain>"


def test_runs_that_ended_early_say_so() -> None:
    class Now:
        def is_set(self) -> bool:
            return True

    result = da.sample(targets.Pairs(8), 2, seed=0, stop=Now())
    assert "0 samples" in repr(result) and "stopped early" in repr(result)
    assert "Stopped early" in result._repr_html_() and "no sample was finished" in result._repr_html_()


@pytest.mark.parametrize("schedule", [da.DDPM(), da.DDIM(eta=0.5)], ids=lambda s: type(s).__name__)
def test_long_tables_of_a_schedule_are_shown_by_their_ends(schedule: Any) -> None:
    assert len(repr(schedule)) < 200 and ", ..., " in repr(schedule)
    few = da.DDPM(betas=(0.1, 0.2), clip=1.0)
    assert repr(few).startswith("DDPM(betas=(0.1, 0.2), ") and "clip=1.0" in repr(few)
