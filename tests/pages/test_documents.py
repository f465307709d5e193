"""What is in a page: the numbers of its report, its samples, and nothing that samples or names put there."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
import torch

import drawahead as da
from drawahead import show
from drawahead.show.pages.document import embedded
from drawahead.show.pictures import data_uri
from drawahead.show.summary import BARS, short
from tests.pages.reading import Read, pictures_chain, pixels, uniform_chain

EVIL = "</script><img src=x onerror=alert(1)><script>alert(2)</script><!--\u2028&amp;\"'"


def test_the_numbers_are_those_of_the_report() -> None:
    result = da.sample(da.targets.Ising.grid(4, 4), 50, sampler=da.Coupled(), seed=0)
    report = result.report
    data = Read(report.to_html()).data
    assert {trace["number"]: tuple(trace["committed"]) for trace in data["traced"]} == report.progress
    assert data["rounds"]["queries"] == list(report.widths) and data["rounds"]["committed"] == list(report.committed)
    assert data["rounds"]["drafts"] == list(report.drafts) and data["rounds"]["kept"] == list(report.kept)
    spread = data["spread"]
    counted = {spread["low"] + i: count for i, count in enumerate(spread["counts"]) if count}
    assert counted == {taken: report.sample_rounds.count(taken) for taken in set(report.sample_rounds)}
    rounds, queries = data["compared"]
    assert (rounds["sequential"], rounds["drawahead"]) == (16, report.mean_rounds)
    assert (queries["sequential"], queries["drawahead"]) == (16, report.queries_per_sample)
    assert data["film"] is None


def test_the_headline_says_it_in_words() -> None:
    result = da.sample(uniform_chain(), 2, sampler=da.Coupled(), seed=0)
    page = Read(result.report.to_html(title="tokens"))
    assert page.text("h1") == ["24 steps in 2 rounds per sample, 12 times fewer."]
    assert page.text("title") == ["tokens"]
    lead = " ".join(page.text("p"))
    assert (
        "Exact: the samples have the same distribution" in lead
        and "24 queries per sample, no more than one by one" in lead
    )
    slow = Read(da.sample(uniform_chain(), 1, sampler=da.Sequential(), seed=0).report.to_html())
    assert slow.text("h1") == ["24 steps in 24 rounds per sample: as many as one by one."]
    other = da.sample(pictures_chain(), 1, sampler=da.Picard(), seed=0)
    assert "Not exact: these samples have another distribution." in " ".join(Read(other.report.to_html()).text("p"))


def test_many_rounds_share_bars() -> None:
    result = da.sample(uniform_chain(600, 2), 1, sampler=da.Sequential(), seed=0)
    data = Read(result.report.to_html()).data
    (trace,) = data["traced"]
    assert trace["every"] == 3 and trace["rounds"] == 600 and len(trace["committed"]) <= BARS + 1
    assert trace["committed"] == [*range(0, 600, 3), 600]
    assert data["rounds"]["every"] == 3 and data["rounds"]["queries"] == [1.0] * 200
    assert data["rounds"]["drafts"] == data["rounds"]["kept"] == [0.0] * 200
    report = da.sample(uniform_chain(600, 2), 1, sampler=da.Coupled(window=1), seed=0).report
    rounds = Read(report.to_html()).data["rounds"]
    assert rounds["every"] == 2 and rounds["drafts"] == rounds["kept"] == [0.5, *[1.0] * 149, 0.0]


def test_nothing_that_is_shown_can_run() -> None:
    words = ["the", EVIL, "fox", "<!--", "&lt;", "\N{SNOWMAN}", "]]>"]
    chain = uniform_chain()
    result = da.sample(chain, 3, sampler=da.Coupled(), seed=0)
    view = show.Texts(lambda sample: [words[token] for token in sample.tolist()])
    text = show.page(chain, result, title=EVIL, view=view, about={EVIL: EVIL}, note=EVIL)
    page = Read(text)
    assert text.count("</script") == 2 and len(page.all("script")) == 2 and not page.all("img")
    assert page.text("title") == [EVIL] and page.text("th").count(EVIL) == page.text("td").count(EVIL) == 1
    assert page.text("p").count(EVIL) == 1
    shown = [words[token] for token in result.samples[0].tolist()]
    assert page.data["film"]["reels"][0]["picture"]["letters"] == shown
    assert " ".join(shown) in page.text("p")
    plain = Read(result.report.to_html(samples=[EVIL] * 3))
    assert plain.text("p").count(EVIL) == 3 and len(plain.all("script")) == 2
    assert json.loads(embedded({EVIL: [EVIL]})) == {EVIL: [EVIL]} and "<" not in embedded(EVIL)


def test_a_page_runs_its_own_script_alone_and_loads_nothing() -> None:
    text = show.page(uniform_chain(), da.sample(uniform_chain(), 1, sampler=da.Coupled(), seed=0))
    page = Read(text)
    policy = next(meta["content"] for meta in page.all("meta") if "http-equiv" in meta)
    assert policy is not None and policy.startswith("default-src 'none'; ")
    for kind, content in (("script", page.text("script")[1]), ("style", page.text("style")[0])):
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert set(re.findall(r"https?://[^\s\"'<]*", text)) == {"http://www.w3.org/2000/svg"}
    assert not [attributes for _, attributes in page.tags if {"href", "style"} & set(attributes)]
    assert not [name for _, attributes in page.tags for name in attributes if name.startswith("on")]
    parts = files("drawahead.show.pages").joinpath("parts")
    script = "".join(part.read_text() for part in parts.iterdir() if part.name.endswith(".js"))
    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval|Function\(|fetch|XMLHttp", script)


def test_pictures_are_those_of_the_samples(tmp_path: Path) -> None:
    chain = pictures_chain()
    result = da.sample(chain, 3, sampler=da.Coupled(), seed=0)
    path = tmp_path / "page.html"
    text = show.page(chain, result, path, samples=2, films=0)
    assert path.read_text(encoding="utf-8") == text
    page = Read(text)
    images = page.all("img")
    assert len(images) == 2 and "The first 2 of 3." in page.text("p") and page.data["film"] is None
    for attributes, sample in zip(images, result.samples, strict=False):
        levels = ((sample + 1) * 127.5).round().clamp(0, 255).numpy().astype(np.uint8)
        assert np.array_equal(pixels(str(attributes["src"])), levels)
    same = Read(result.report.to_html(samples=result.samples))
    assert [image["src"] for image in same.all("img")[:2]] == [image["src"] for image in images]


def test_large_and_coloured_images_are_made_smaller() -> None:
    image = torch.stack([torch.full((300, 200), value) for value in (-1.0, 0.0, 1.0)])
    shown = show.Images().picture(image).pixels
    assert shown.shape == (75, 50, 3) and shown[0, 0].tolist() == [0, 128, 255]
    assert np.array_equal(pixels(data_uri(shown)), shown)


def test_a_page_of_pure_noise_is_not_too_large() -> None:
    """Nothing is harder to compress; a page may have 3 MB."""

    def noise(x: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        return torch.sin(1e6 * x.double())

    chain = da.GaussianChain(noise, da.DDPM(timesteps=da.schedules.spaced(60, of=1000)), (3, 38, 38))
    result = da.sample(chain, 4, sampler=da.Sequential(), seed=0)
    samples = torch.rand(36, 3, 96, 96, generator=torch.Generator().manual_seed(0)) * 2 - 1
    film = show.film(chain, result)
    text = result.report.to_html(samples=samples, film=film)
    assert len(film.reels) == 4 and text.count("<figure") == 36 and 2.5e6 < len(text) < 3e6


def test_dominoes_and_grids_are_drawn() -> None:
    target = da.tilings.dominoes("aztec", 3)
    page = Read(show.page(target, da.sample(target, 1, sampler=da.Separated(), seed=0)))
    assert len(page.all("rect")) == 12 and {"-3 -3 6 6"} <= {svg.get("viewbox") for svg in page.all("svg")}
    wide = da.targets.Ising.grid(2, 5)
    assert "0 0 5 2" in {svg.get("viewbox") for svg in Read(show.page(wide, da.sample(wide, 1, seed=0))).all("svg")}


def test_stopped_empty_and_known_results() -> None:
    stop = threading.Event()
    chain = uniform_chain()
    part = da.sample(chain, 9, sampler=da.Coupled(), seed=0, max_live=2, stop=stop, on_round=lambda report: stop.set())
    page = Read(show.page(chain, part))
    assert page.text("h1") == ["No sample was finished."] and "stopped before all" in " ".join(page.text("p"))
    assert page.data["compared"] == [] and page.data["film"] is None and page.data["traced"]
    known = da.TokenChain(chain.oracle, evidence=[1] * 24)
    page = Read(show.page(known, da.sample(known, 2, seed=0)))
    assert page.text("h1") == ["There was nothing to draw: every position was known."]
    assert page.data["traced"] == [] and page.data["film"] is None


def test_samples_that_are_none_are_refused() -> None:
    report = da.sample(uniform_chain(), 2, seed=0).report
    for samples in ("text", np.zeros((2, 3)), torch.zeros(3)):
        with pytest.raises(da.InputError, match="samples must be a"):
            report.to_html(samples=samples)  # type: ignore[arg-type]


def test_numbers_as_people_write_them() -> None:
    told = {17.25: "17.2", 3.0: "3", 1.237: "1.24", 1340.2: "1,340", float("nan"): "?"}
    assert {value: short(value) for value in told} == told


def test_the_figure(tmp_path: Path) -> None:
    matplotlib_figure = pytest.importorskip("matplotlib.figure")
    result = da.sample(da.targets.Ising.grid(3, 3), 20, sampler=da.Block(), seed=0)
    figure = result.report.plot(tmp_path / "report.png")
    assert isinstance(figure, matplotlib_figure.Figure) and (tmp_path / "report.png").stat().st_size > 5000
    bars = figure.axes[0].patches
    assert [bar.get_width() for bar in bars] == np.diff(result.report.progress[0]).tolist()
    drawn, drafts = figure.axes[2].lines[0].get_ydata(), np.array(result.report.drafts)
    assert np.array_equal(np.isnan(drawn), drafts == 0) and np.isnan(drawn[0])
    assert np.allclose((drawn * drafts)[drafts > 0], np.array(result.report.kept)[drafts > 0])
    assert len(da.sample(uniform_chain(), 2, sampler=da.Sequential(), seed=0).report.plot().axes) == 3  # no drafts
    stop = threading.Event()
    stop.set()
    da.sample(uniform_chain(), 1, stop=stop).report.plot()  # nothing at all
