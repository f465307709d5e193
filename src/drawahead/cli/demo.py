"""The first minute with drawahead: samples, the comparison, a picture."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from drawahead import plots
from drawahead.bench.budget import sample_within
from drawahead.cli import tables
from drawahead.cli.compare import compare
from drawahead.cli.progress import Watch
from drawahead.report import Report
from drawahead.sample import as_chain, sample
from drawahead.samplers import SAMPLERS, named
from drawahead.targets import Ising

SECONDS = 20.0  # the recursion has a heavy tail; the picture says so if it is cut


def run(folder: Path, console: Console, watch: Watch) -> None:
    """Print samples and the comparison on the 4x4 Ising model; write `demo.png` into `folder`."""
    plots.check()
    folder.mkdir(parents=True, exist_ok=True)
    oracle = Ising.grid(4, 4, coupling=0.4)
    sample(oracle, 16, seed=0)  # warm up, so that the seconds below are not those of starting
    drawn = sample(oracle, 1000, seed=0)
    console.print("[bold]Samples of the Ising model on a 4x4 grid[/bold] (coupling 0.4), drawn by Block\n")
    console.print(tables.picture(oracle, drawn.samples, console.width), highlight=False)
    console.print(f"\n{drawn.report}\n", highlight=False)
    rows = list(compare(as_chain(oracle), 1000, 0, watch))
    console.print(tables.comparison(rows, "Every sampler on it: 16 steps a sample", console.width))
    path = folder / "demo.png"
    plots.progress(_one_sample_each(watch), path, title="One sample of the 8x8 Ising model, round by round")
    console.print(f"wrote {path}: one sample of the 8x8 grid, round by round", highlight=False)


def _one_sample_each(watch: Watch) -> dict[str, Report]:
    """The same sample number drawn by every sampler, on a grid large enough to tell them apart."""
    oracle = Ising.grid(8, 8, coupling=0.4)
    return {
        name: sample_within(SECONDS, oracle, 1, sampler=named(name), seed=0, on_round=watch.sampling(name, 1))[0].report
        for name in SAMPLERS
    }
