"""Pages from Markdown templates: `pages/NAME.md` holds the prose, Python gives the numbers, tables and figures.

`$name` or `${name}` stands for a value (and `$$` for a dollar). What stands between `{?` and `?}` is left out if one of
its values is None. A paragraph or a list with numbers in it is filled anew; everything else stays as it was written.

A template made of sections between `<!-- begin NAME -->` and `<!-- end NAME -->` is a part of a page that is otherwise
written by hand: its sections replace those of the same names.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from pathlib import Path
from string import Template

PAGES = Path(__file__).parent / "pages"
WIDTH = 120
Values = Mapping[str, str | None]

_SECTION = re.compile(r"(<!-- begin (\w+) -->\n)(.*?)(\n<!-- end \2 -->)", re.DOTALL)
_OPTIONAL = re.compile(r"(\n\n)?\{\?(.*?)\?\}", re.DOTALL)
_ITEM = re.compile(r"^(?=[*-] )", re.MULTILINE)
_MARK = re.compile(r" (?=[-+*>#] )")
_VERBATIM = ("|", "#", "!", "    ", "```", "<")


def render(name: str, values: Values, page: str = "") -> str:
    """The page of this template; `page` is what it is a part of, if it is one."""
    template = (PAGES / f"{name}.md").read_text()
    unused = sorted(set(values) - set(Template(template).get_identifiers()))
    if unused:
        raise ValueError(f"pages/{name}.md has no place for {', '.join(unused)}")
    sections = {match[2]: _rendered(match[3], values) for match in _SECTION.finditer(template)}
    if not sections:
        return _rendered(template, values) + "\n"
    lacking = sorted(set(sections) - {match[2] for match in _SECTION.finditer(page)})
    if lacking:
        raise ValueError(f"the page has no section {lacking[0]}: write <!-- begin {lacking[0]} --> where it begins")
    return _SECTION.sub(lambda found: f"{found[1]}{sections.get(found[2], found[3])}{found[4]}", page)


def filled(text: str) -> str:
    """A paragraph, or a list, in lines of at most `WIDTH` characters."""
    return "\n".join(_filled(item) for item in _ITEM.split(text) if item)


def _rendered(template: str, values: Values) -> str:
    def kept(match: re.Match[str]) -> str:
        return "" if _lacking(match[2], values) else f"{match[1] or ''}{match[2]}"

    blocks = re.split(r"(\n{2,})", _OPTIONAL.sub(kept, template).strip("\n"))
    return "".join(_block(block, values) for block in blocks)


def _lacking(text: str, values: Values) -> bool:
    return any(values[name] is None for name in Template(text).get_identifiers())


def _block(block: str, values: Values) -> str:
    names = Template(block).get_identifiers()
    if _lacking(block, values):
        raise ValueError(f"one of {', '.join(names)} is None: write {{? ?}} around what may be left out")
    text = Template(block).substitute(values)
    alone = names and block in (f"${names[0]}", f"${{{names[0]}}}")
    return text if not names or alone or block.startswith(_VERBATIM) else filled(text)


def _filled(item: str) -> str:
    indent = "  " if item.startswith(("* ", "- ")) else ""
    held = _MARK.sub("\0", " ".join(item.split()))  # at the beginning of a line a dash would make a list
    lines = textwrap.fill(held, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    return lines.replace("\0", " ")
