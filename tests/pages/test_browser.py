"""Pages in a real browser: headless Chromium, where it and playwright are installed.

They are skipped elsewhere, unless the environment variable DRAWAHEAD_NEED_BROWSER is set: then that is a failure.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import drawahead as da
from drawahead import show
from tests.pages.reading import frame, pictures_chain, uniform_chain
from tests.pages.test_documents import EVIL

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
QUIET = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PATIENCE = 300_000.0  # milliseconds, on a busy machine
WORDS = ["the", EVIL, "fox", "<b>", "&lt;", "jumps", "]]>"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if not os.environ.get("DRAWAHEAD_NEED_BROWSER"):
        pytest.importorskip("playwright", reason="needs playwright: pip install playwright")
        if CHROMIUM is None:
            pytest.skip("needs Chromium: install the package chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET, timeout=PATIENCE)
        yield opened
        opened.close()


def _letters() -> tuple[Any, da.Result, show.View | None]:
    chain = uniform_chain()
    view = show.Texts(lambda sample: [WORDS[token] for token in sample.tolist()])
    return chain, da.sample(chain, 3, sampler=da.Coupled(window=4), seed=0), view


def _tiles() -> tuple[Any, da.Result, show.View | None]:
    target = da.tilings.dominoes("square", 6)
    return target, da.sample(target, 1, sampler=da.Separated(), seed=0), None


def _frames() -> tuple[Any, da.Result, show.View | None]:
    chain = pictures_chain()
    return chain, da.sample(chain, 6, sampler=da.Coupled(), seed=0), None


def _stopped() -> tuple[Any, da.Result, show.View | None]:
    class Once:
        def is_set(self) -> bool:
            return True

    chain = uniform_chain()
    return chain, da.sample(chain, 4, sampler=da.Block(), seed=0, stop=Once()), None


KINDS: dict[str, Callable[[], tuple[Any, da.Result, show.View | None]]] = {
    "letters": _letters,
    "tiles": _tiles,
    "frames": _frames,
    "stopped": _stopped,
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, da.Result]]:
    folder, out = tmp_path_factory.mktemp("pages"), {}
    for name, make in KINDS.items():
        target, result, view = make()
        path = folder / f"{name}.html"
        show.page(target, result, path, title=EVIL, view=view)
        out[name] = path, result
    return out


@contextmanager
def opened(browser: Browser, path: Path, width: int = 1100, dark: bool = False, clock: bool = False) -> Iterator[Page]:
    """The page, of which everything that goes wrong is a failure: messages, errors, dialogs, requests.

    With a clock, time passes there only when it is told to.
    """
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme="dark" if dark else "light", reduced_motion="reduce"
    )
    context.set_default_timeout(PATIENCE)
    page, wrong = context.new_page(), []
    page.on("console", lambda message: wrong.append(f"console: {message.text}"))
    page.on("pageerror", lambda error: wrong.append(f"error: {error}"))
    page.on("dialog", lambda dialog: (wrong.append(f"dialog: {dialog.message}"), dialog.dismiss()))
    page.on("request", lambda request: wrong.append(f"request: {request.url[:90]}"))
    if clock:
        page.clock.install(time=0)
    page.goto(path.as_uri())
    if clock:
        page.clock.pause_at(1000)
    try:
        yield page
    finally:
        context.close()
    inside = f"request: {path.as_uri()[:90]}"
    assert [what for what in wrong if what != inside and not what.startswith("request: data:")] == []
    assert inside in wrong


def round_of(page: Page) -> int:
    return int(page.locator("#film input").input_value())


def scrub(page: Page, value: int) -> None:
    page.locator("#film input").fill(str(value))


def until(page: Page, expression: str) -> None:
    """Wait until this holds. (Playwright's own waiting needs `eval`, which the page's policy forbids.)"""
    for _ in range(4000):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(25)
    raise AssertionError(f"never: {expression}")


def seen(page: Page, side: str) -> Any:
    """What a side of the film shows, as data."""
    return page.evaluate(
        """side => [...document.querySelector(`.side.${side} .pictures`).children].map((picture) => {
            if (picture.tagName === "CANVAS") {
                const copy = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
                copy.drawImage(picture, 0, 0);
                const all = copy.getImageData(0, 0, picture.width, picture.height).data;
                return [...all].filter((_, i) => i % 4 === 0);
            }
            if (picture.tagName === "P") return picture.textContent;
            return [...picture.querySelectorAll("rect:not(.ground)")].map(
                (rect) => getComputedStyle(rect).display !== "none");
        })""",
        side,
    )


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("name", list(KINDS))
def test_a_page_opens_without_a_word_and_asks_for_nothing(
    browser: Browser, made: dict[str, tuple[Path, da.Result]], name: str, dark: bool
) -> None:
    with opened(browser, made[name][0], width=320 if dark else 1100, dark=dark) as page:
        assert page.title() == EVIL
        assert page.locator("#speculation rect.main").first.is_visible() == (name != "stopped")
        assert page.locator("#film").is_visible() == (name != "stopped")
        wide = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
        assert wide[0] <= wide[1], "the page is wider than the window"
        assert contrast(page, "h1", "body") > 10
        assert min(contrast(page, one, "body") for one in (".lead", ".eyebrow b", "th", "figcaption, h2")) > 4.5
        lightness = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (numbers(lightness)[0] < 60) == dark


def test_letters_come_and_go(browser: Browser, made: dict[str, tuple[Path, da.Result]]) -> None:
    path, result = made["letters"]
    samples = [" ".join(WORDS[token] for token in sample.tolist()) for sample in result.samples]
    progress = result.report.progress[0]
    with opened(browser, path) as page:
        # It opens where drawahead has just finished.
        assert round_of(page) == len(progress) - 1 and seen(page, "drawahead") == [samples[0]]
        assert "finished in" in page.locator(".drawahead .status").inner_text()
        assert page.locator(".sequential .status").inner_text() == f"{len(progress) - 1} of 24 steps"
        for now in (0, 1, 3, 24):
            scrub(page, now)
            for side, there in (("sequential", now), ("drawahead", progress[min(now, len(progress) - 1)])):
                assert page.locator(f".{side} .letters i:not(.missing)").count() == there
        assert seen(page, "sequential") == seen(page, "drawahead") == [samples[0]]
        scrub(page, 0)
        assert set("".join(seen(page, "sequential"))) == {"\N{MIDDLE DOT}", " "}
        page.locator("#film-choice select").select_option("2")
        scrub(page, 24)
        assert seen(page, "sequential") == seen(page, "drawahead") == [samples[2]]


def test_playing_and_pausing(browser: Browser, made: dict[str, tuple[Path, da.Result]]) -> None:
    with opened(browser, made["letters"][0], clock=True) as page:
        play, poster = page.locator(".play"), round_of(page)
        play.click()
        assert play.get_attribute("aria-label") == "Pause"
        assert round_of(page) == 0 < poster  # from the beginning on
        page.clock.run_for(2000)
        play.click()
        held = round_of(page)
        page.clock.run_for(2000)
        assert round_of(page) == held and 2 < held < 24 and play.get_attribute("aria-label") == "Play"
        page.locator(".on").click()
        assert round_of(page) == held + 1
        page.locator(".back").click()
        page.locator(".back").click()
        assert round_of(page) == held - 1
        page.locator("#film input").focus()
        page.keyboard.press("End")
        assert round_of(page) == 24 and "one by one: finished" in str(
            page.locator("#film input").get_attribute("aria-valuetext")
        )
        page.keyboard.press("ArrowLeft")
        assert round_of(page) == 23
        page.locator(".speed").select_option("16")
        page.locator("#film input").focus()
        page.keyboard.press(" ")  # goes on, to the end, and stops there
        page.clock.run_for(2000)
        assert round_of(page) == 24 and play.get_attribute("aria-label") == "Play"


def test_dominoes_and_images_end_as_the_sample(browser: Browser, made: dict[str, tuple[Path, da.Result]]) -> None:
    with opened(browser, made["tiles"][0]) as page:
        scrub(page, 0)
        assert not any(seen(page, "sequential")[0] + seen(page, "drawahead")[0])
        scrub(page, 2)
        assert 0 < sum(seen(page, "sequential")[0]) <= 2
        scrub(page, 36)
        assert seen(page, "sequential") == seen(page, "drawahead") == [[True] * 18]
    path, result = made["frames"]
    film = show.film(pictures_chain(), result)
    last = [frame(reel.picture, len(reel.picture["at"]) - 1).flatten().tolist() for reel in film.reels]
    first = [frame(reel.picture, 0).flatten().tolist() for reel in film.reels]
    with opened(browser, path) as page:
        until(page, "document.querySelectorAll('#film canvas[data-frame]').length === 8")
        assert seen(page, "drawahead") == last != seen(page, "sequential")
        scrub(page, 0)
        assert seen(page, "drawahead") == first == seen(page, "sequential")
        scrub(page, 60)
        assert seen(page, "drawahead") == last == seen(page, "sequential")


def test_charts_tell_what_is_under_the_pointer_and_the_keys(
    browser: Browser, made: dict[str, tuple[Path, da.Result]]
) -> None:
    path, result = made["frames"]
    report = result.report
    with opened(browser, path) as page:
        tip = page.locator("#tip")
        assert not tip.is_visible()
        page.locator("#speculation rect").nth(1).hover()
        first, last = report.progress[0][1], report.progress[0][2]
        assert tip.inner_text().splitlines()[0] == "Round 2"
        assert tip.inner_text().splitlines()[1].endswith(f": {first + 1} to {last}")
        page.mouse.move(2, 2)
        assert not tip.is_visible()
        page.locator("#speculation select").select_option("3")
        chart = page.locator("#speculation svg")
        assert f"Sample 3: 60 steps in {report.sample_rounds[3]} rounds." == chart.get_attribute("aria-label")
        page.locator("#rounds svg").focus()
        page.keyboard.press("ArrowRight")
        assert tip.inner_text().splitlines()[3] == "no drafts to judge"
        page.keyboard.press("ArrowRight")
        assert tip.inner_text().splitlines() == [
            "Round 2",
            f"{report.widths[1]} queries",
            f"{report.committed[1]} steps committed",
            f"{report.kept[1]} of {report.drafts[1]} drafts kept: {100 * report.kept[1] / report.drafts[1]:.0f}%",
        ]
        page.keyboard.press("Escape")
        assert not tip.is_visible()
        page.locator("#spread svg").focus()
        page.keyboard.press("Home")
        low = min(report.sample_rounds)
        assert tip.inner_text().splitlines()[0] == f"{low} rounds"


def test_the_share_of_drafts_kept_is_drawn_below_the_rounds(
    browser: Browser, made: dict[str, tuple[Path, da.Result]], tmp_path: Path
) -> None:
    path, result = made["frames"]
    shares = [k / d for d, k in zip(result.report.drafts, result.report.kept, strict=True) if d]
    with opened(browser, path) as page:
        none, half, all_ = page.evaluate(
            "[...document.querySelectorAll('#rounds .rule')].slice(-3).map((line) => Number(line.getAttribute('y1')))"
        )
        heights = page.evaluate(
            "[...document.querySelectorAll('#rounds circle')].map((dot) => Number(dot.getAttribute('cy')))"
        )
        assert none - half == half - all_ > 20
        assert [(none - height) / (none - all_) for height in heights] == pytest.approx(shares)
        assert page.locator("#rounds .share").count() == 1 and page.locator("#rounds .below").is_visible()
    slow = da.sample(uniform_chain(), 2, sampler=da.Sequential(), seed=0).report
    slow.to_html(tmp_path / "slow.html")
    with opened(browser, tmp_path / "slow.html") as page:  # nothing was drafted: nothing is said of it
        assert page.locator("#rounds .light").first.is_visible()
        assert not page.locator("#rounds .share").count() and not page.locator("#rounds .below").is_visible()
        page.locator("#rounds svg").focus()
        page.keyboard.press("Home")
        assert page.locator("#tip").inner_text().splitlines() == ["Round 1", "2 queries", "2 steps committed"]


def test_it_prints_on_white_without_controls(browser: Browser, made: dict[str, tuple[Path, da.Result]]) -> None:
    with opened(browser, made["frames"][0], dark=True) as page:
        page.emulate_media(media="print")
        assert not page.locator(".controls").is_visible()
        assert numbers(page.evaluate("getComputedStyle(document.body).backgroundColor"))[:3] == [255, 255, 255]
        assert page.locator("#speculation svg").is_visible()


def numbers(colour: str) -> list[float]:
    return [float(part) for part in colour[colour.index("(") + 1 : -1].split(",")]


def contrast(page: Page, text: str, ground: str) -> float:
    """The contrast ratio of WCAG between the colour of one element and the background of another."""
    colours = page.evaluate(
        "([text, ground]) => [getComputedStyle(document.querySelector(text)).color, "
        "getComputedStyle(document.querySelector(ground)).backgroundColor]",
        [text, ground],
    )
    light, dark = sorted(map(_luminance, colours), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: str) -> float:
    channels = [value / 255 for value in numbers(colour)[:3]]
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    return sum(weight * value for weight, value in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
