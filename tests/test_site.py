"""Links, anchors and images of all pages lead somewhere: in the repository, on the site, and on a package index."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import pytest

import drawahead as da
from tests.pages.test_browser import browser  # noqa: F401
from tools import readme

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ROOT = Path(__file__).parent.parent
PAGES = [*ROOT.glob("*.md"), *sorted((ROOT / "docs").glob("*.md")), *ROOT.glob("models/drawahead_models/*.md")]
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)|\b(?:src|srcset)=\"([^\"]+)\"")
TITLE = re.compile(r"^#{1,6} (.+?)\s*#*$", re.MULTILINE)


# In the repository


def anchors(text: str) -> set[str]:
    """The anchors of the titles, as forges make them."""
    found: set[str] = set()
    seen: Counter[str] = Counter()
    for title in TITLE.findall(FENCE.sub("", text)):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)|[`*]", r"\1", title)
        slug = re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")
        found.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
        seen[slug] += 1
    return found


def dead(text: str, page: Path) -> list[str]:
    """The links of a page that lead nowhere."""
    found = []
    for link in (a or b for a, b in LINK.findall(FENCE.sub("", text))):
        path, _, anchor = link.partition("#")
        file = (page.parent / path).resolve() if path else page
        if re.match(r"[a-z]+:", link):
            continue
        inside = file.is_relative_to(ROOT.resolve()) and file.exists()
        there = text if file == page else file.read_text() if inside and file.suffix == ".md" else ""
        if not inside or (anchor and anchor not in anchors(there)):
            found.append(link)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_anchors_and_images_lead_somewhere(page: Path) -> None:
    assert dead(page.read_text(), page) == []


def test_dead_links_are_found() -> None:
    text = (
        "# A title, `one`\n[a](docs/no.md) [b](#a-title-one) [c](#none) ![d](docs/figures/no.png) [e](docs/faq.md#no)\n"
    )
    text += "```\n[code](no.md)\n```\n[f](docs/faq.md) [g](https://example.org)\n"
    assert dead(text, ROOT / "README.md") == ["docs/no.md", "#none", "docs/figures/no.png", "docs/faq.md#no"]


# On the site


class Page(HTMLParser):
    """What a page links to, what it loads, and its anchors."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.anchors: set[str] = set()
        self.feed(file.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        self.loads += [given["href"]] if tag == "link" and given.get("rel") in ("stylesheet", "icon") else []
        self.loads += [given["src"]] if "src" in given else []


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built without a warning."""
    for library in ("material", "mkdocstrings_handlers.python"):
        pytest.importorskip(library, reason="needs mkdocs-material and mkdocstrings: pip install 'drawahead[docs]'")
    folder = tmp_path_factory.mktemp("site")
    done = built(ROOT / "mkdocs.yml", folder)
    assert done.returncode == 0 and "WARNING -" not in done.stderr, done.stderr
    return folder


def built(config: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", config, "--site-dir", folder]
    return subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT)


def test_everything_a_page_links_to_or_loads_is_on_the_site(site: Path) -> None:
    pages = {file: Page(file) for file in site.rglob("*.html") if file.name != "404.html"}
    assert len(pages) > len(PAGES) - 2 and (site / "search" / "search_index.json").stat().st_size > 10**5
    for file, page in pages.items():
        for link in (*page.links, *page.loads):
            parts = urlsplit(link)
            if parts.scheme in ("http", "https"):
                assert link not in page.loads, f"{file.name} loads {link} from elsewhere"
                continue
            there = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            there = there / "index.html" if there.is_dir() else there
            assert there.is_file(), (file.name, link)
            assert not parts.fragment or parts.fragment in pages[there].anchors, (file.name, link)


def test_the_reference_has_every_public_name(site: Path) -> None:
    anchors = Page(site / "api.html").anchors
    for room in (da, *(thing for name in da.__all__ if isinstance(thing := getattr(da, name), ModuleType))):
        for name in room.__all__:
            thing = getattr(room, name)
            homes = {room.__name__, getattr(thing, "__module__", "")}  # a function may be called like its module
            assert isinstance(thing, ModuleType) or {f"{home}.{name}" for home in homes} & anchors, name


def test_the_site_is_not_built_with_a_dead_link(site: Path, tmp_path: Path) -> None:
    for name in ("docs", "tools"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("figures", "data"))
    (tmp_path / "docs" / "api.md").write_text("# Without the reference, which takes long\n")
    for name in ("README.md", "LICENSE", "mkdocs.yml"):
        shutil.copy(ROOT / name, tmp_path / name)
    with open(tmp_path / "docs" / "faq.md", "a") as page:
        page.write("\nSee [this](jobs.md#no-such-title).\n")
    done = built(tmp_path / "mkdocs.yml", tmp_path / "site")
    assert done.returncode != 0 and "no-such-title" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("width", [375, 1200])
def test_no_page_is_wider_than_the_window(site: Path, browser: Browser, width: int) -> None:  # noqa: F811
    page = browser.new_page(viewport={"width": width, "height": 800})
    for file in sorted(site.rglob("*.html")):
        page.goto(file.as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= width, file.name
    page.close()


# On a package index

README = """# Name
![picture](docs/figures/a.png) <img alt="b" src="docs/b.gif" width="3"> [![badge](docs/c.svg)](docs/c.md)
[jobs](docs/jobs.md#more), [here](#name), [there](https://example.org)
```
[code](docs/x.md)
```
"""


def test_the_readme_of_a_package_index_links_to_the_repository() -> None:
    pytest.importorskip("hatchling", reason="needs hatchling, which builds the package")
    text = readme.for_index(README, "https://forge.example/who/what.git/", "1.2.3")
    raw, blob = (f"https://forge.example/who/what/{kind}/v1.2.3/docs" for kind in ("raw", "blob"))
    assert text == README.replace("(docs/figures", f"({raw}/figures").replace('"docs/b', f'"{raw}/b').replace(
        "(docs/c.svg)](docs/c.md)", f"({raw}/c.svg)]({blob}/c.md)"
    ).replace("(docs/jobs", f"({blob}/jobs")


def test_without_a_repository_the_readme_of_a_package_index_has_no_dead_links() -> None:
    pytest.importorskip("hatchling", reason="needs hatchling, which builds the package")
    make = readme.for_index
    text = make(README, None, "1.2.3")
    assert "jobs, [here](#name), [there](https://example.org)" in text and "[code](docs/x.md)" in text
    assert "picture" not in text and "<img" not in text
    outside = FENCE.sub("", make((ROOT / "README.md").read_text(), None, "1.2.3"))
    assert all(re.match(r"[a-z]+:|#", a or b) for a, b in LINK.findall(outside))
