"""What the documentation site adds to docs/: the README as its first page, and the files outside that pages link to.

A hook of mkdocs (see mkdocs.yml). Pages link to each other as files of the repository do, `../LICENSE` from a page and
`docs/jobs.md` from the README, so that they also work there; on the site those links lead to the copies.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PLACES = {"README.md": "index.md", "LICENSE": "licence.md"}
"""Where the copy of a file is, if not under its own name. The cards of the weights come into a folder of their own."""
CSS = """
.md-typeset h1, .md-typeset h2, .md-typeset h3 { color: var(--md-default-fg-color); font-weight: 600; }
/* Figures are drawn on white. */
[data-md-color-scheme="slate"] .md-typeset img { background: #fff; border-radius: 4px; padding: 4px; }
/* On a narrow screen a long name breaks instead of pushing the page aside; tables and code blocks scroll. */
.md-typeset p code, .md-typeset li code, .md-typeset h1, .md-typeset h2, .md-typeset h3 { overflow-wrap: anywhere; }
.md-typeset table:not([class]) code { white-space: nowrap; }
.md-typeset table:not([class]) th { min-width: 0; }
.md-typeset .highlight .go { color: var(--md-code-fg-color); }
@media (max-width: 44.9375em) {
  .md-typeset table:not([class]) { font-size: 0.6rem; }
  .md-typeset table:not([class]) :is(th, td) { padding: 0.5em 0.6em; }
}
"""
_LINK = re.compile(r"(?<=\]\()([^)#\s]+)(?=[)#])")
_FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)


def outside() -> dict[str, str]:
    """The files that are copied to the site: by their path in the repository, their path there."""
    named = {file.name: file.name.lower() for file in ROOT.glob("*.md")} | PLACES
    cards = (ROOT / "models/drawahead_models").glob("*.md")
    return named | {card.relative_to(ROOT).as_posix(): f"cards/{card.name}" for card in cards}


def relinked(text: str, source: str) -> str:
    """The text of this file of the repository, with links as they are between its page and others of the site."""
    copies = outside()
    here = posixpath.dirname(_place(source, copies))

    def link(match: re.Match[str]) -> str:
        if ":" in match[1]:
            return match[1]
        file = posixpath.normpath(posixpath.join(posixpath.dirname(source), match[1]))
        return posixpath.relpath(_place(file, copies), here or ".")

    parts = _FENCE.split(text)  # every second one is code
    return "".join(part if odd % 2 else _LINK.sub(link, part) for odd, part in enumerate(parts))


def _place(file: str, copies: dict[str, str]) -> str:
    """The path on the site; of a file that is not on it, its own, which the build then complains about."""
    return copies.get(file) or file.removeprefix("docs/")


def on_config(config: Any) -> Any:
    """List the other pages beside the README, such as the changelog, in the last section."""
    section = next(iter(config.nav[-1].values()))
    others = (place for file, place in outside().items() if "/" not in file and file not in PLACES)
    section += [{Path(place).stem.capitalize(): place} for place in sorted(others)]
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the copies, and the style sheet."""
    from mkdocs.structure.files import File

    for source, place in outside().items():
        text = (ROOT / source).read_text()
        text = text if source.endswith(".md") else f"# Licence\n\n```text\n{text}```\n"
        files.append(File.generated(config, place, content=relinked(text, source)))
    files.append(File.generated(config, "site.css", content=CSS))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Mend the links of a page that is not a copy."""
    return markdown if page.file.generated_by else relinked(markdown, f"docs/{page.file.src_uri}")
