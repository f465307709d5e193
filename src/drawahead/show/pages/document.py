"""One HTML page that holds all it needs: it asks no server for anything, and runs no script but its own."""

from __future__ import annotations

import base64
import hashlib
import json
import platform
from collections.abc import Mapping, Sequence
from functools import cache
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import torch
from torch import Tensor

from drawahead import validate
from drawahead.errors import InputError
from drawahead.report import Report
from drawahead.show import summary
from drawahead.show.films.film import Film
from drawahead.show.pages.gallery import Gallery, as_gallery
from drawahead.validate import short

_SCRIPTS = ("draw.js", "charts.js", "pictures.js", "film.js", "page.js")


def document(
    report: Report,
    path: str | Path | None = None,
    *,
    title: str = "",
    samples: Gallery | Tensor | Sequence[str] | None = None,
    film: Film | None = None,
    about: Mapping[str, object] | None = None,
    note: str = "",
) -> str:
    """The page about a report; see `Report.to_html`."""
    shown = as_gallery(samples if samples is not None else Gallery((), 0), report)
    page = assembled(
        "page.html",
        _SCRIPTS,
        summary.charts(report),
        film,
        title=escape(title) or "drawahead",
        eyebrow=escape(title),
        headline=escape(summary.headline(report)),
        sentences=escape(" ".join(summary.sentences(report))),
        note=escape(note),
        figures="".join(map(figure, summary.figures(report))),
        samples=shown.html(),
        samples_note=shown.note,
        without_samples="" if shown.shown else "hidden",
        about="".join(
            row(name, value) for name, value in _configuration(report, {} if about is None else about).items()
        ),
    )
    if path is not None:
        write(path, page)
    return page


def assembled(template: str, scripts: Sequence[str], data: Mapping[str, Any], film: Film | None, **fields: str) -> str:
    """A page from one of the templates: these fields, which are HTML, the style, the scripts, their data and a film."""
    style, script = part("page.css"), "\n".join(map(part, scripts))
    page = Template(part(template)).substitute(
        policy=_policy(style, script),
        style=style,
        script=script,
        data=embedded({**data, "film": None if film is None else film.to_dict()}),
        film_section=Template(part("film.html")).substitute(without_film="" if film is not None else "hidden"),
        **fields,
    )
    return page.encode("utf-8", "replace").decode()  # half a character, as names of files may hold, is none


def still(template: str, style: str, **fields: str) -> str:
    """A page without scripts."""
    return Template(template).substitute(policy=_policy(style), style=style, **fields)


def write(path: str | Path, page: str) -> None:
    """Write a page to a file."""
    file = validate.path("path", path)
    try:
        file.write_text(page, encoding="utf-8")
    except (OSError, ValueError) as error:
        raise InputError(f"the page cannot be written to {short(str(file))}: {error}") from None


def embedded(data: Any) -> str:
    """JSON that may stand inside a script element: nothing in it can end the element or begin another."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))  # ASCII only
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _policy(style: str, script: str = "") -> str:
    """Only this style and this script, and only pictures inside the page; nothing is loaded from anywhere."""
    scripts = f"script-src '{_digest(script)}'; " if script else ""
    rest = "img-src data:; base-uri 'none'; form-action 'none'"
    return f"default-src 'none'; {scripts}style-src '{_digest(style)}'; {rest}"


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@cache
def part(name: str, house: str = "drawahead.show.pages") -> str:
    """A template, a style or a script, from the folder `parts` of a house."""
    return files(house).joinpath("parts", name).read_text(encoding="utf-8").strip()


def figure(shown: summary.Figure) -> str:
    """A number that a page shows large."""
    remark = f"<small>{escape(shown.remark)}</small>" if shown.remark else ""
    return f"<div><dt>{escape(shown.name)}</dt><dd>{escape(shown.value)} {remark}</dd></div>"


def _configuration(report: Report, about: Mapping[str, object]) -> dict[str, object]:
    import drawahead

    return {
        "sampler": report.sampler,
        **({"chosen because": report.choice} if report.choice else {}),
        "exact": "yes" if report.exact else "no",
        "seed": report.seed,
        "samples": report.num_samples,
        "steps per sample": report.steps,
        **({"queries to choose": report.probes} if report.probes else {}),
        **({"candidates": report.candidates} if report.candidates else {}),
        **about,
        "page made with": f"drawahead {drawahead.__version__}, torch {torch.__version__}, "
        f"Python {platform.python_version()}",
    }


def row(name: str, value: object) -> str:
    """A line of a table."""
    return f"<tr><th scope=row>{escape(str(name))}</th><td>{escape(str(value))}</td></tr>"
