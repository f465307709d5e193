"""A study: what is measured is kept as data, and page and figures are made from the data alone."""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
import torch

import drawahead
from drawahead.errors import InputError
from drawahead.show import plots
from drawahead.show.progress import bar
from studies.template import PAGES, Values, render

DOCS = Path(__file__).parents[1] / "docs"
Data = dict[str, Any]
Watch = Callable[[str, int, int], None]
"""Called with what was measured last, how much is done, and how much there is."""


def out_option(parser: argparse.ArgumentParser) -> None:
    """Where to write: nowhere but into the pages of this checkout, unless it is said."""
    parser.add_argument("--out", type=Path, default=DOCS, help="the folder for what is written (docs)")


def shared_options() -> argparse.ArgumentParser:
    """What can be chosen for every study that has a page."""
    parser = argparse.ArgumentParser(add_help=False)
    out_option(parser)
    again = parser.add_mutually_exclusive_group()
    again.add_argument("--page", action="store_true", help="measure nothing: page and figures again, from the data")
    again.add_argument("--no-page", action="store_true", help="write the data alone")
    return parser


def _no_options(parser: argparse.ArgumentParser) -> None:
    pass


@dataclass(frozen=True)
class Study:
    """What a study measures, and what is made of it. Its data are `data/NAME.json`, plain values."""

    name: str
    measure: Callable[[argparse.Namespace, Watch], Any]
    """Data, by these options."""
    values: Callable[..., Values]
    """What the places of the template `pages/PAGE.md` stand for, from the data of all `sources`."""
    figures: Mapping[str, Callable[..., None]]
    """By the name of the file: what draws it, from the data of all `sources`, at a path."""
    page: str = ""
    """The name of the page, if it is not that of the study."""
    sources: tuple[str, ...] = ()
    """The names of all data that the page is made of, if they are more than its own."""
    options: Callable[[argparse.ArgumentParser], None] = _no_options
    """Adds what can be chosen when it is measured."""
    compact: bool = False
    """Data without line breaks."""
    may_lack: bool = False
    """Whether data may not have been measured yet: then they are None."""

    def run(self, arguments: argparse.Namespace) -> Iterator[Path]:
        """Measure and write. -> the paths, one by one."""
        if not arguments.no_page:
            plots.check()  # before minutes are spent
        if not arguments.page:
            yield self.record(arguments)
        if not arguments.no_page:
            yield from self.write(arguments.out)

    def record(self, arguments: argparse.Namespace) -> Path:
        """Measure, and write the data."""
        with bar() as show:
            data = self.measure(arguments, lambda label, done, of: show(done / of, [label, f"{done} of {of}"]))
        path = data_path(arguments.out, self.name)
        save(data, path, compact=self.compact)
        return path

    def write(self, out: Path) -> Iterator[Path]:
        """Page and figures, from the data in this folder."""
        data = self.data(out)
        page, base = (folder / f"{self.page_name}.md" for folder in (out, DOCS))
        part = "<!-- begin " in (PAGES / page.name).read_text()  # of a page written by hand
        page.write_text(self.render(data, (page if page.exists() else base).read_text() if part else ""))
        yield page
        (out / "figures").mkdir(exist_ok=True)
        for name, draw in self.figures.items():
            path = out / "figures" / f"{name}.png"
            draw(*data, path)
            yield path

    @property
    def page_name(self) -> str:
        """Of the page and of its template."""
        return self.page or self.name

    def data(self, out: Path) -> list[Any]:
        """What the page is made of."""
        paths = [data_path(out, source) for source in self.sources or (self.name,)]
        return [None if self.may_lack and not path.exists() else read(path) for path in paths]

    def render(self, data: list[Any], page: str = "") -> str:
        """The page, from its data; `page` is the one it is a part of, if it is one."""
        try:
            values = self.values(*data)
        except KeyError as error:
            raise InputError(f"the data of {self.name} lack {error}: measure that part first") from error
        return render(self.page_name, values, page)


def data_path(out: Path, name: str) -> Path:
    """Where data are kept."""
    return out / "data" / f"{name}.json"


def read(path: Path) -> Any:
    """Data that were recorded."""
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read as the data of a study ({error}): measure first") from None


def save(data: Any, path: Path, *, compact: bool = False) -> None:
    """Write data that `read` reads."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(data, separators=(",", ":")) if compact else json.dumps(data, indent=1)
    path.write_text(text + "\n")


class Stamp:
    """When, with what and by which options something is measured: every file of data says so."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        words = getattr(arguments, "words", "").split()
        self.options = " ".join(Path(word).name if Path(word).is_absolute() else word for word in words)
        self.began = time.perf_counter()

    def made(self) -> Data:
        """Versions, options, and the seconds since."""
        return {
            "versions": {
                "drawahead": drawahead.__version__,
                "torch": torch.__version__,
                "numpy": numpy.__version__,
                "python": platform.python_version(),
            },
            "options": self.options,
            "seconds": round(time.perf_counter() - self.began, 1),
        }


def origin(data: Data, name: str) -> dict[str, str]:
    """Where a page comes from: the command, the versions, the seconds."""
    options = data.get("options")
    return {
        "command": f"make bench STUDY={name}" + (f" OPTIONS='{options}'" if options else ""),
        "versions": ", ".join(f"{package} {version}" for package, version in data["versions"].items() if version),
        "seconds": f"{data['seconds']:.0f}",
    }


def quick_option(words: str) -> Callable[[argparse.ArgumentParser], None]:
    """`--quick`, with what it leaves out."""

    def add(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--quick", action="store_true", help=words)

    return add
