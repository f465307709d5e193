"""Other people's samplers beside drawahead's, on their own protocols, and solvers at equal milliseconds.

    python -m studies rivals --no-page --parts trees laws tolerances      # a CPU, about ten minutes
    python -m studies rivals --no-page --parts image --device cuda        # one GPU, three and a half minutes
    make bench STUDY=compare OPTIONS=--page           # the page: docs/compare.md

`trees` is the Gaussian mixture of arXiv 2609.17691, by its three rules and by drawahead; `laws` whether those rules
keep the law, and whether they are found out without their corrections; `tolerances` how tight Picard and parareal
iterations must be to pass a two-sample test; `image` the shipped network: milliseconds against distance.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from studies.rivals import protocol, tight
from studies.rivals.image import image
from studies.speed.place import Place
from studies.study import DOCS, Data, Stamp, data_path, out_option, read, save

NAME = "rivals"


def options(parser: argparse.ArgumentParser) -> None:
    """What to measure."""
    out_option(parser)
    parser.add_argument("--parts", nargs="*", choices=PARTS, help="measure these alone; the image needs --device cuda")
    parser.add_argument("--device", default="cpu", help="for the image: cuda, or cpu with tiny stand-ins")
    parser.add_argument("--limit", type=float, default=200.0, help="seconds for the image; what is left out comes last")
    parser.add_argument("--samples", type=Path, help="a folder for the images themselves")
    parser.add_argument("--quick", action="store_true", help="few samples")


def run(arguments: argparse.Namespace) -> Any:
    """Part by part, saved as they come; others stay as they were recorded. -> the path."""
    path = data_path(arguments.out, NAME)
    known = next((file for file in (path, data_path(DOCS, NAME)) if file.exists()), None)
    results: Data = {} if known is None else read(known)
    wanted = arguments.parts or [name for name in PARTS if name != "image" or arguments.device != "cpu"]
    for name in wanted:
        stamp = Stamp(arguments)

        def keep(rows: Any, name: str = name, stamp: Stamp = stamp) -> None:
            results[name] = {"rows": rows, "made": stamp.made()}
            save(results, path)

        PARTS[name](arguments, keep)
    yield path


def _trees(arguments: argparse.Namespace, keep: Callable[[Any], None]) -> None:
    keep(protocol.trees(2, protocol.CHURNS[-1:]) if arguments.quick else protocol.trees(100))


def _laws(arguments: argparse.Namespace, keep: Callable[[Any], None]) -> None:
    keep(protocol.laws(500 if arguments.quick else 20_000))


def _tolerances(arguments: argparse.Namespace, keep: Callable[[Any], None]) -> None:
    tight.tolerances(*((20, keep, 1) if arguments.quick else (2_000, keep)))


def _image(arguments: argparse.Namespace, keep: Callable[[Any], None]) -> None:
    place = Place(arguments.device)
    image(place, lambda rows: keep({"gpu": place.name(), "ways": rows}), arguments.limit, arguments.samples)


PARTS: dict[str, Callable[[argparse.Namespace, Callable[[Any], None]], None]] = {
    "trees": _trees,
    "laws": _laws,
    "tolerances": _tolerances,
    "image": _image,
}
