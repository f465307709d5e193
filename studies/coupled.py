"""The figures of docs/coupled.md: why refining guesses is exact, drawn from real runs."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from drawahead.chains import GaussianChain
from drawahead.oracles.denoisers import Denoiser
from drawahead.sample import sample
from drawahead.samplers import Block, Coupled, Sampler, Stepwise
from drawahead.schedules import DDPM, StochasticLocalization, linear_betas
from drawahead.show import plots
from drawahead.targets import Hypercube
from studies.study import out_option

BLUE, ORANGE, GREEN, GREY = "#0072B2", "#E69F00", "#009E73", "#999999"


def options(parser: argparse.ArgumentParser) -> None:
    """Only where to write: the page around the figures is written by hand."""
    out_option(parser)


def run(arguments: argparse.Namespace) -> Iterator[Path]:
    """Draw the three figures into `figures`. -> their paths, one by one."""
    plots.check()
    folder: Path = arguments.out / "figures"
    folder.mkdir(parents=True, exist_ok=True)
    for name, draw in {"mirror": _mirror, "guesses": _guesses, "committed": _committed}.items():
        path = folder / f"coupled-{name}.png"
        draw(path)
        yield path


def _mirror(path: Path) -> None:
    """One step: what is kept of the draft, and where the rest goes."""
    delta = 1.2
    z = np.linspace(-3.6, 4.8, 600)
    draft, target = (np.exp(-((z - m) ** 2) / 2) / np.sqrt(2 * np.pi) for m in (0.0, delta))
    with plots.canvas(path, 8.6, 3.0) as figure:
        left, right = figure.subplots(1, 2, sharey=True)
        left.fill_between(z, np.minimum(draft, target), color=GREY, alpha=0.35, linewidth=0)
        left.fill_between(z, np.minimum(draft, target), draft, color=ORANGE, alpha=0.5, linewidth=0)
        for values, colour, label in ((draft, ORANGE, "draft"), (target, BLUE, "target")):
            left.plot(z, values, color=colour, linewidth=2)
            at = 0.0 if label == "draft" else delta
            side = -0.35 if label == "draft" else 0.35
            left.text(at + side, 0.405, label, color=colour, ha="right" if side < 0 else "left")
        left.text(delta / 2, 0.12, "kept", ha="center", color="#444444")
        left.annotate("too much draft:\nmirrored", (-0.9, 0.22), (-3.5, 0.33), color=ORANGE, va="center")
        left.set(title="The guess is kept where both laws agree", xlabel="step, in standard deviations", yticks=[])
        right.fill_between(z, np.minimum(draft, target), color=GREY, alpha=0.35, linewidth=0)
        right.fill_between(z, np.minimum(draft, target), target, color=BLUE, alpha=0.5, linewidth=0)
        right.plot(z, target, color=BLUE, linewidth=2)
        right.axvline(delta / 2, color="#444444", linewidth=1, linestyle=(0, (4, 3)))
        right.annotate("", (2.1, 0.2), (-0.9, 0.2), arrowprops={"arrowstyle": "->", "color": "#444444"})
        right.text(3.2, 0.33, "lands exactly\nwhere target\nwas missing", color=BLUE, va="center", ha="center")
        right.set(title="Together they fill the target", xlabel="step, in standard deviations", yticks=[])
        for axes in (left, right):
            axes.grid(visible=False)
            axes.set_ylim(0, 0.46)


def _guesses(path: Path) -> None:
    """The guessed paths of one sample, round by round, from the states the sampler really asked about."""
    steps = 120
    asked: list[tuple[Tensor, Tensor]] = []
    target, schedule = Hypercube(8), DDPM(betas=linear_betas(steps, 1e-3, 0.12))
    denoiser = _recording(target.denoiser(schedule), asked)
    chain = GaussianChain(denoiser, schedule, target.shape, dtype=torch.float64, record=range(1, steps))
    result = sample(chain, 1, sampler=Coupled(window=steps), seed=3)
    truth, committed = result.samples[0, :, 0], result.report.progress[0]
    with plots.canvas(path, 11.0, 4.4) as figure:
        panels: Any = figure.subplots(2, 3, sharex=True, sharey=True)
        for r, axes in zip((1, 2, 3, 4, 6, 8), panels.flat, strict=True):
            x, k = asked[min(r, len(asked) - 1)]
            kept = committed[min(r + 1, len(committed) - 1)]
            axes.plot(range(1, steps + 1), truth, color="#d0d0d0", linewidth=5, zorder=1, label="the sample in the end")
            axes.plot(k, x[:, 0], color=ORANGE, linewidth=1.3, zorder=3, label="guessed, not committed")
            axes.plot(range(1, kept + 1), truth[:kept], color=BLUE, linewidth=2, zorder=4, label="committed")
            axes.set_title(f"after round {r + 1}: {kept} of {steps}")
        for axes in panels[-1]:
            axes.set_xlabel("step")
        for axes in panels[:, 0]:
            axes.set_ylabel("one coordinate")
        handles, labels = panels[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=3)


def _committed(path: Path) -> None:
    """Committed steps against rounds on the hypercube."""
    chain = GaussianChain(Hypercube(256), StochasticLocalization(1024, radius=1.0, delta=0.1))
    samplers: dict[str, Sampler] = {"stepwise": Stepwise(), "block": Block(), "coupled": Coupled()}
    reports = {name: sample(chain, 1, sampler=sampler, seed=0).report for name, sampler in samplers.items()}
    plots.progress(reports, path, title="Hypercube, d = 256: 1024 steps, committed round by round")


def _recording(denoiser: Denoiser, asked: list[tuple[Tensor, Tensor]]) -> Denoiser:
    def denoise(x: Tensor, k: Tensor) -> Tensor:
        asked.append((x.clone(), k.clone()))
        return denoiser(x, k)

    return denoise
