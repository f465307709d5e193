"""The page of a design job: what was drawn for each structure, and how one design came about."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from html import escape
from pathlib import Path

import torch

from drawahead.errors import InputError
from drawahead.proteins.design import figures, sources
from drawahead.proteins.design.folder import Part
from drawahead.proteins.design.job import DesignJob, settings
from drawahead.proteins.design.options import Options
from drawahead.proteins.design.problem import build, sample_numbers
from drawahead.proteins.design.tables import read_tables
from drawahead.proteins.mpnn.model import Weights
from drawahead.proteins.structures.files import read_structure
from drawahead.sample import sample
from drawahead.samplers import Coupled
from drawahead.show.films.film import Film, film, filmable
from drawahead.show.pages.document import assembled, figure, row
from drawahead.show.summary import Figure, short

_SCRIPTS = ("draw.js", "pictures.js", "film.js", "design.js")
_LOGOS = 12  # structures whose logo is shown: a page with more would be slow
_LONGEST = 600  # places of a logo


def page(job: DesignJob) -> str:
    """The page; the film draws one sequence again, which takes a few passes."""
    asked, _ = settings(job.folder)
    parts = job.parts
    if not parts:
        raise InputError("a page needs at least one structure that was designed")
    sequences = [each for part in parts.values() for each in part.designed]
    rounds = sum(each.rounds for each in sequences) / len(sequences)
    steps = sum(part.steps * len(part.designed) for part in parts.values()) / len(sequences)
    shown = [
        Figure(f"{len(parts):,}", f"structure{'s' * (len(parts) != 1)}"),
        Figure(
            f"{len(sequences):,}", f"sequence{'s' * (len(sequences) != 1)}", f"{short(steps)} steps each, on average"
        ),
        Figure(short(rounds), "passes per sequence", f"{short(steps)} one by one"),
        Figure(f"{sum(each.recovery for each in sequences) / len(sequences):.0%}", "recovery"),
    ]
    named = list(parts.items())[:_LOGOS]
    return assembled(
        "design.html",
        _SCRIPTS,
        {},
        _film(job, asked),
        title="Designed sequences",
        eyebrow=escape(", ".join(list(parts)[:5]) + (" ..." if len(parts) > 5 else "")),
        headline=escape(f"{short(steps)} steps in {short(rounds)} passes per sequence."),
        sentences="Exact: the sequences have the same distribution as when decoded one by one.",
        note=escape("; ".join(f"{name}: {why}" for name, why in job.failed.items())),
        figures="".join(map(figure, shown)),
        recovery=figures.recovery(parts),
        scores=figures.scores(parts),
        logos='<div class="logos">' + "".join(_logo(name, part) for name, part in named) + "</div>",
        logos_note=escape(f"The first {_LOGOS} of {len(parts)} structures." if len(parts) > _LOGOS else ""),
        table=_table(parts),
        about="".join(row(name, value) for name, value in _about(asked).items()),
    )


def _logo(name: str, part: Part) -> str:
    sequences = [each.sequence.replace("/", "")[:_LONGEST] for each in part.designed]
    picture = figures.logo(sequences, f"the logo of {name}")
    return f"<figure><figcaption>{escape(name)}</figcaption>{picture}</figure>"


def _table(parts: Mapping[str, Part]) -> str:
    head = "".join(f"<th scope=col>{name}</th>" for name in ("structure", "steps", "passes", "best score", "recovery"))
    rows = []
    for name, part in parts.items():
        found = part.designed
        cells = [name, part.steps, short(sum(each.rounds for each in found) / len(found))]
        cells += [
            f"{min(each.score for each in found):.3f}",
            f"{sum(each.recovery for each in found) / len(found):.0%}",
        ]
        rows.append("".join(f"<td>{escape(str(cell))}</td>" for cell in cells))
    return f"<tr>{head}</tr>" + "".join(f"<tr>{cells}</tr>" for cells in rows)


def _about(asked: Options) -> dict[str, object]:
    import drawahead

    usual = Options().to_dict()
    given = {name: value for name, value in asked.to_dict().items() if value != usual[name] or name in ("num", "seed")}
    versions = f"drawahead {drawahead.__version__}, torch {torch.__version__}, Python {platform.python_version()}"
    return {"model": asked.model, **given, "page made with": versions}


def _film(job: DesignJob, asked: Options) -> Film | None:
    """How the first sequence of the first structure came about; it is drawn again, on the CPU."""
    name, heat = next(iter(job.parts)), asked.temperature[0]
    found, _ = sources.find([Path(path) for path in settings(job.folder)[1]])
    weights = Weights.load(sources.find_weights(asked))
    tables, _ = read_tables(asked)
    structure = read_structure(found[name], ca_only=weights.ca_only)
    problem = build(name, structure, weights, asked, tables, "cpu")
    chain = problem.chain(sample_numbers(name, heat, 1), torch.tensor([heat]))
    result = sample(chain, 1, sampler=Coupled(), seed=asked.seed)
    return film(chain, result, 1) if filmable(chain, result, None) else None
