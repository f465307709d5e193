"""A picture of every target that the command line knows by name, with what its samples took."""

from __future__ import annotations

import argparse
import functools
import math
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from drawahead.cli import lookup
from drawahead.cli.registry import named
from drawahead.cli.subjects import Subject, TargetOptions
from drawahead.sample import sample
from drawahead.samplers import Coupled
from drawahead.show.painting import paint, tiled
from drawahead.show.views import Grids, Images, Tokens, TokenView, VectorView
from studies.study import Data, Stamp, Study, Watch, origin
from studies.template import filled

SEED = 0


@dataclass(frozen=True)
class Entry:
    """A picture of the gallery: a target, its options, and how many samples are shown."""

    name: str
    samples: int
    options: TargetOptions = field(default_factory=TargetOptions)
    window: int | None = None
    size: int = 200
    """In pixels, of one picture."""
    key: str = ""
    """The name of its figure, if the target has several."""
    note: str = ""
    """What this picture shows, if the target has several."""

    @property
    def figure(self) -> str:
        return f"gallery-{self.key or self.name}"

    @property
    def command(self) -> str:
        """The command that draws these samples."""
        words = [f"drawahead sample {self.name}"]
        for name, value in self.options.given.items():
            words += [f"--{name} {shlex.quote(str(one))}" for one in (value if isinstance(value, list) else [value])]
        words += [f"--num {self.samples}"]
        if named(self.name, self.options).sampler is None:
            words += ["--sampler coupled", *([f"--window {self.window}"] if self.window else [])]
        pictures = ".png" in named(self.name, self.options).view.formats
        return " ".join(words + [f"--out {self.key or self.name}.png"] * pictures)


ENTRIES = (
    Entry("text", 1, TargetOptions(size=200), size=620),
    Entry("fashion", 8, TargetOptions(steps=100), window=16, size=84),
    Entry("emoji", 4, TargetOptions(prompt=["red apple", "cactus", "honeybee", "blue heart"], steps=50), window=16),
    Entry("emoji-tokens", 4, TargetOptions(prompt=["red apple", "cactus", "honeybee", "blue heart"]), window=32),
    Entry("spanning-tree", 1, TargetOptions(graph="grid:24"), size=380, note="of a grid"),
    Entry(
        "spanning-tree",
        4,
        TargetOptions(graph="complete:12"),
        size=190,
        key="spanning-tree-2",
        note="of a complete graph",
    ),
    Entry("dpp", 3, TargetOptions(kernel="points:12"), note="of any size"),
    Entry("dpp", 3, TargetOptions(kernel="points:12", items=20), key="dpp-fixed", note="of 20 items"),
    Entry("matching", 1, TargetOptions(graph="grid:6x20"), size=500),
    Entry("dominoes", 1, TargetOptions(size=16), size=300),
    Entry("aztec", 1, TargetOptions(size=16), size=380),
    Entry("ising", 3, TargetOptions(size=12, coupling=0.2), key="ising-warm", note="with coupling 0.2"),
    Entry("ising", 3, TargetOptions(size=12, coupling=0.44), note="with coupling 0.44"),
    Entry("product", 12),
    Entry("pairs", 12),
    Entry("urns", 12),
    Entry("mixture", 12),
    Entry("markov", 12),
    Entry("tree", 12),
    Entry("table", 12),
    Entry("dense", 12),
    Entry("hard", 12),
    Entry("digits", 10, window=200, size=72),
    Entry("hypercube", 12),
    Entry("modes", 12),
    Entry("gaussian", 12),
)
_HEADINGS = {
    "network": "networks",
    "counting": "counted",
    "tiling": "counted",
    "tokens": "tokens",
    "vectors": "vectors",
}


def measure(arguments: argparse.Namespace, watch: Watch) -> Data:
    """Draw the samples of every picture."""
    stamp, drawn = Stamp(arguments), {}
    for done, entry in enumerate(ENTRIES):
        drawn[entry.figure] = _drawn(entry)
        watch(entry.figure, done + 1, len(ENTRIES))
    return stamp.made() | {"pictures": drawn}


def _drawn(entry: Entry) -> Data:
    subject = named(entry.name, entry.options)
    sampler = subject.sampler or Coupled(window=entry.window)
    result = sample(subject.chain, entry.samples, sampler=sampler, seed=SEED)
    report = result.report
    return {
        "target": entry.name,
        "steps": report.steps,
        "rounds": report.mean_rounds,
        "queries": report.queries_per_sample,
        "samples": [_plain(subject, values) for values in result.samples],
    }


def _plain(subject: Subject, values: Tensor) -> Any:
    """A sample as whole numbers: tokens as they are, other values in hundredths."""
    return (values if not values.is_floating_point() else (100 * values).round().int()).tolist()


def values(data: Data) -> dict[str, str]:
    """A section of the page for each kind of target."""
    about = {row["name"]: row for row in lookup.target_rows()}
    sections: dict[str, list[str]] = {heading: [] for heading in _HEADINGS.values()}
    for entry in ENTRIES:
        row = about[entry.name]
        sections[_HEADINGS[row["kind"]]].append(_entry(entry, row["summary"], data["pictures"][entry.figure]))
    return origin(data, "gallery") | {name: "\n\n".join(entries) for name, entries in sections.items()}


def _entry(entry: Entry, summary: str, drawn: Data) -> str:
    rounds, queries = (f"{drawn[name]:.1f}".removesuffix(".0") for name in ("rounds", "queries"))
    summary = summary[:1].upper() + summary[1:]
    cost = f"{drawn['steps']} steps in {rounds} rounds and {queries} queries per sample."
    note = f"; here {entry.note}" if entry.note else ""
    caption = filled(f"**{entry.name}.** {summary}{note}. {cost}")
    return f"{caption}\n\n```\n{entry.command}\n```\n\n![{summary}](figures/{entry.figure}.png)"


def draw(entry: Entry, data: Data, path: Path) -> None:
    """The picture of an entry, from its samples."""
    from PIL import Image

    subject = named(entry.name, entry.options)
    samples = [torch.tensor(values) for values in data["pictures"][entry.figure]["samples"]]
    if isinstance(subject.view, VectorView):
        sheet = _pixels(subject.view, torch.stack(samples) / 100, entry.size)
    elif isinstance(subject.view, Tokens):
        columns = len(samples[0])
        rows = Grids(columns, subject.view.vocab_size).picture(torch.cat(samples)).data()
        sheet = tiled([[paint(rows, min(640, 14 * columns))]])
    else:
        assert isinstance(subject.view, TokenView)
        sheet = tiled([[paint(subject.view.picture(values).data(), entry.size) for values in samples]])
    sheet.quantize(32, dither=Image.Dither.NONE).save(path, optimize=True)


def _pixels(view: VectorView, samples: Tensor, size: int) -> Any:
    """Images side by side; other vectors as rows of squares, one below the other."""
    from PIL import Image

    if isinstance(view, Images):
        images = [paint(view.picture(values).data(), size) for values in samples]
        columns = math.ceil(len(images) / 2)
        return tiled([images[i : i + columns] for i in (0, columns)], 8)
    table = view.pixels(samples.view(1, -1), samples.numel())[0].reshape(-1, 3)[: samples.numel()]
    rows = Image.fromarray(table.reshape(len(samples), -1, 3))
    return tiled([[rows.resize((640, 10 * rows.height), Image.Resampling.NEAREST)]])


def _figure(entry: Entry) -> Callable[..., None]:
    return functools.partial(draw, entry)


STUDY = Study("gallery", measure, values, {entry.figure: _figure(entry) for entry in ENTRIES}, compact=True)
