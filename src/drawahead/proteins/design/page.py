"""The page of a design job: the designs of each structure, and how one of them was sampled."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from html import escape

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
from drawahead.show.films.film import film, filmable
from drawahead.show.films.reels import Film
from drawahead.show.pages.document import assembled, figure, row
from drawahead.show.summary import Figure, short

_SCRIPTS = ("draw.js", "pictures.js", "film.js", "design.js")
_LOGOS = 12  # structures whose logo is shown: a page with more would be slow
_COLUMNS = ("structure", "steps", "passes", "best score", "recovery")
_LONGEST = 600  # places of a logo


def page(job: DesignJob) -> str:
    """The page. For the film one sequence is drawn again, which takes a few passes."""
    options, paths = settings(job.folder)
    parts = job.parts
    if not parts:
        raise InputError("a page needs at least one structure that was designed")
    sequences = [each for part in parts.values() for each in part.designed]
    rounds = short(sum(each.rounds for each in sequences) / len(sequences))
    steps = short(sum(part.steps * len(part.designed) for part in parts.values()) / len(sequences))
    shown = [
        Figure(f"{len(parts):,}", "structure" + "s" * (len(parts) != 1)),
        Figure(f"{len(sequences):,}", "sequence" + "s" * (len(sequences) != 1), f"{steps} steps each, on average"),
        Figure(rounds, "passes per sequence", f"{steps} one by one"),
        Figure(f"{sum(each.recovery for each in sequences) / len(sequences):.0%}", "recovery"),
    ]
    logos = "".join(_logo(name, part) for name, part in list(parts.items())[:_LOGOS])
    return assembled(
        "design.html",
        _SCRIPTS,
        {},
        _film(next(iter(parts)), options, paths),
        title="Designed sequences",
        eyebrow=escape(", ".join(list(parts)[:5]) + (" ..." if len(parts) > 5 else "")),
        headline=escape(f"{steps} steps in {rounds} passes per sequence."),
        sentences="Exact: the sequences have the same distribution as when decoded one by one.",
        note=escape("; ".join(f"{name}: {why}" for name, why in job.failed.items())),
        figures="".join(map(figure, shown)),
        recovery=figures.recovery(parts),
        scores=figures.scores(parts),
        logos=f'<div class="logos">{logos}</div>',
        logos_note=escape(f"The first {_LOGOS} of {len(parts)} structures." if len(parts) > _LOGOS else ""),
        table=_table(parts),
        about="".join(row(name, value) for name, value in _about(options).items()),
    )


def _logo(name: str, part: Part) -> str:
    sequences = [each.sequence.replace("/", "")[:_LONGEST] for each in part.designed]
    picture = figures.logo(sequences, f"the logo of {name}")
    return f"<figure><figcaption>{escape(name)}</figcaption>{picture}</figure>"


def _table(parts: Mapping[str, Part]) -> str:
    rows = ["".join(f"<th scope=col>{name}</th>" for name in _COLUMNS)]
    for name, part in parts.items():
        best = min(each.score for each in part.designed)
        cells = [name, part.steps, short(part.mean("rounds")), f"{best:.3f}", f"{part.mean('recovery'):.0%}"]
        rows.append("".join(f"<td>{escape(str(cell))}</td>" for cell in cells))
    return "".join(f"<tr>{cells}</tr>" for cells in rows)


def _about(options: Options) -> dict[str, object]:
    import drawahead

    usual = Options().to_dict()
    own = {name: value for name, value in options.to_dict().items() if value != usual[name] or name in ("num", "seed")}
    versions = f"drawahead {drawahead.__version__}, torch {torch.__version__}, Python {platform.python_version()}"
    return {"model": options.model, **own, "page made with": versions}


def _film(name: str, options: Options, paths: Sequence[str]) -> Film | None:
    """How the first sequence of a structure was sampled; it is drawn again, on the CPU."""
    heat = options.temperature[0]
    weights = Weights.load(sources.find_weights(options))
    structure = read_structure(sources.find(paths)[0][name], ca_only=weights.ca_only)
    problem = build(name, structure, weights, options, read_tables(options)[0], "cpu")
    chain = problem.chain(sample_numbers(name, heat, 1), torch.tensor([heat]))
    result = sample(chain, 1, sampler=Coupled(), seed=options.seed)
    return film(chain, result, 1) if filmable(chain, result, None) else None
