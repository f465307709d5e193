"""Makes docs/figures/report.png, a page as Chromium shows it: python -m tests.pages.screenshot (a minute on a CPU)."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

import drawahead as da

FIGURE = Path(__file__).parents[2] / "docs" / "figures" / "report.png"


def main() -> None:
    chain = da.networks.fashion(steps=100)
    result = da.sample(chain, 8, sampler=da.Coupled(window=16), seed=0)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        page_file = Path(folder) / "report.html"
        da.show.page(chain, result, page_file, title="fashion")
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu", "--no-first-run"]
        )
        page = browser.new_page(viewport={"width": 980, "height": 1000})
        page.goto(page_file.as_uri())
        page.locator(".figures div", has_text="wall-clock").evaluate("tile => tile.remove()")  # this machine's seconds
        page.wait_for_timeout(500)  # the strips of the film are decoded
        end = page.locator("#rounds").bounding_box()
        assert end is not None
        page.screenshot(path=FIGURE, full_page=True, clip={"x": 0, "y": 0, "width": 980, "height": end["y"] - 24})
        browser.close()
    with Image.open(FIGURE) as shot:  # a page has few colours: a palette halves the file
        small = shot.convert("RGB").quantize(128, dither=Image.Dither.NONE)
    small.save(FIGURE, optimize=True)


if __name__ == "__main__":
    main()
