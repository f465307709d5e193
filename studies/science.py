"""A denoiser of 21-cm power spectra that somebody else trained, beside its own sampler, on its own test spectra.

    pip download --no-deps 21cmpsdenoiser==1.0.2      # the wheel has the weights, the source distribution the spectra
    python -m studies science --package FOLDER/psdenoiser --spectra FOLDER/spectra.npz --no-page   # one GPU, 2 minutes
    make bench STUDY=science OPTIONS=--page           # the section of docs/science.md

`--shorten FROM TO` writes the few spectra that are used into a small file. Three samplers draw for each spectrum:
drawahead's default, DDPM one step after another, and the package's own ODE sampler at its own tolerances. Times are
medians after a warm-up; both sides of drawahead are captured.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import drawahead as da
from drawahead.verification.statistics import two_sample_vectors
from studies.spectra import Emulator, chain, emulator, shorten
from studies.speed.place import Place
from studies.speed.timing import measured, said
from studies.study import DOCS, Data, Stamp, Study, Watch, data_path, origin, save
from studies.tables import table

DRAWS = 200
BATCHES = (1, 16, 64, 200)
SIDES = ("drawahead", "sequential")
Numbers = dict[str, Any]


def laws(place: Place, model: Emulator, watch: Watch) -> list[Numbers]:
    """For each spectrum, what the three samplers say, and whether they say the same."""
    draws, count = (DRAWS, len(model.spectra)) if place.real else (12, 2)
    many = da.science.repeated(chain(place, model, model.spectra), draws)
    watch("drawahead", 0, 3)
    drawn = {"drawahead": da.sample(many, count * draws, seed=1)}
    watch("one by one", 1, 3)
    drawn["sequential"] = da.sample(many, count * draws, seed=2, sampler=da.Sequential())
    samples = {name: result.samples.float().cpu().unflatten(0, (count, draws)) for name, result in drawn.items()}
    torch.manual_seed(3)  # the package draws its first states from torch's own generator
    rows = []
    for i in range(count):
        watch(f"the package's sampler, redshift {model.redshifts[i]:.1f}", 2, 3)
        began = place.now()
        own, passes = model.ode(model.spectra[i], draws)
        row: Numbers = {"redshift": model.redshifts[i], "draws": draws, "ode_passes": int(passes)}
        row["ode_seconds"] = place.now() - began
        each = {name: part[i] for name, part in samples.items()} | {"ode": own.float().cpu()}
        found = {name: da.summary(model.logs(part)) for name, part in each.items()}
        for name, part in found.items():
            row[name] = {
                "error": float((10 ** (part.median - model.truth[i]) - 1).abs().median()),
                "spread": float((part.spread * np.log(10)).median()),
                "bands": part.quantiles[:, 0, :, 2].tolist(),  # against kperp
            }
            if name != "sequential":
                one = found["sequential"]
                apart = (part.median - one.median) / (part.quantile_errors[2] ** 2 + one.quantile_errors[2] ** 2).sqrt()
                row[name]["apart"] = float(apart.square().mean().sqrt())  # 1 where they differ by chance alone
                row[name]["wider"] = float((part.spread / one.spread).median())
                row[name]["p_value"] = two_sample_vectors(each[name].flatten(1), each["sequential"].flatten(1))
        row["truth"] = model.truth[i][0, :, 2].tolist()
        rows.append(row)
    for name, result in drawn.items():
        rows[0][name] |= {"seconds": result.report.seconds, "rounds": result.report.mean_rounds}
        rows[0][name]["queries"] = result.report.queries_per_sample
        rows[0][name]["sampler"] = result.report.sampler
    return rows


def speeds(place: Place, model: Emulator, limit: float, save_rows: Callable[[list[Numbers]], None]) -> None:
    """Row by row, the ones that matter most first; what there is no time for is left out."""
    began, rows = time.perf_counter(), list[Numbers]()
    batches = BATCHES if place.real else (1, 2)
    cases = [(batch, half, False) for half in (False, True) for batch in batches]
    cases += [(batch, True, True) for batch in (batches[0], batches[-1]) if place.real]
    chains: dict[tuple[bool, bool], da.GaussianChain] = {}
    for batch, half, compiled in cases:
        if time.perf_counter() - began > limit:
            print(f"no time is left for {batch} draws, half={half}, compiled={compiled}", flush=True)
            continue
        half = half and place.real
        if (half, compiled) not in chains:
            made = chain(place, model, model.spectra[:1], half=half)
            chains[half, compiled] = made.compiled() if compiled else made
        target = chains[half, compiled]
        row: Numbers = {"draws": batch, "half": half, "compiled": compiled}
        try:
            row["sequential"] = measured(place, target, da.Sequential(), batch, place.seeds[:1])
            row["drawahead"] = measured(place, target, None, batch, place.seeds[:2], warm_ups=2)
        except da.DrawaheadError as error:  # half precision may not be enough for it
            print(f"{batch} draws, half={half}, compiled={compiled}: {error}", flush=True)
            continue
        if not half and not compiled:
            start = place.now()
            _, row["ode_passes"] = model.ode(model.spectra[0], batch)
            row["ode_seconds"] = place.now() - start
        for side in SIDES:
            said(f"{batch} draws, {'half' if half else 'single'}, {'compiled, ' * compiled}{side}", row[side])
        rows.append(row)
        save_rows(rows)


def options(parser: argparse.ArgumentParser) -> None:
    """Where the package is, and how long it may take."""
    parser.add_argument("--device", default="cuda", help="cpu: a few steps, to see that everything runs")
    parser.add_argument("--package", type=Path, help="the folder psdenoiser of the wheel")
    parser.add_argument("--spectra", type=Path, help="spectra, as --shorten writes them")
    parser.add_argument("--shorten", type=Path, nargs=2, metavar=("FROM", "TO"), help="write a small file of spectra")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds for timings: then rows are left out")


def measure(arguments: argparse.Namespace, watch: Watch) -> Data:
    """Laws, then times, saved after each."""
    if arguments.shorten is not None:
        shorten(*arguments.shorten)
        raise SystemExit(f"wrote {arguments.shorten[1]}")
    stamp, place, path = Stamp(arguments), Place(arguments.device), data_path(arguments.out, "science")
    model = emulator(arguments, place)
    data: Data = {"laws": laws(place, model, watch), "kperp": model.kperp, "rows": [], "machine": place.name()}
    save(data | stamp.made(), path)

    def save_rows(rows: list[Numbers]) -> None:
        save(data | {"rows": rows} | stamp.made(), path)
        data["rows"] = rows

    place.forget()
    speeds(place, model, arguments.limit, save_rows)
    return data | stamp.made()


def values(data: Data | None) -> dict[str, str | None]:
    """What the section says; nothing before it was measured."""
    if data is None:
        return dict.fromkeys(("gpu", "versions", "laws", "speeds", "draws", "law_seconds", "law_rounds", "figure"))
    lines = []
    for row in data["laws"]:
        one, ahead, ode = row["sequential"], row["drawahead"], row["ode"]
        cells = [f"{row['redshift']:.1f}", *(f"{100 * side['error']:.1f}" for side in (ahead, one, ode))]
        cells += [f"{100 * side['spread']:.1f}" for side in (ahead, one, ode)]
        lines.append([*cells, *(f"{side['apart']:.2f}, p = {side['p_value']:.2g}" for side in (ahead, ode))])
    heading = ["redshift", *(f"{what} {who}" for what in ("off, %,", "spread, %,") for who in ("ahead", "DDPM", "ODE"))]
    heading += ["ahead beside DDPM", "ODE beside DDPM"]
    times = []
    for row in data["rows"]:
        one, ahead = row["sequential"], row["drawahead"]
        kind = f"{'half' if row['half'] else 'single'}{', compiled' * row['compiled']}"
        own = f"{row['ode_seconds'] * 1e3:.0f} ({row['ode_passes']} passes)" if "ode_seconds" in row else ""
        cells = [f"{one['seconds'] * 1e3:.0f}", f"{ahead['seconds'] * 1e3:.0f}", f"{ahead['mean_rounds']:.1f}"]
        times.append([str(row["draws"]), kind, own, *cells, f"{one['seconds'] / ahead['seconds']:.1f}"])
    first = data["laws"][0]
    return {
        "gpu": data["machine"],
        "figure": "figures/science.png",
        "versions": origin(data, "science")["versions"],
        "draws": str(first["draws"]),
        "law_seconds": f"{first['drawahead']['seconds']:.1f} s instead of {first['sequential']['seconds']:.1f} s",
        "law_rounds": f"{first['drawahead']['rounds']:.0f}",
        "laws": table(heading, lines),
        "speeds": table(
            ["draws", "precision", "its own sampler, ms", "one by one, ms", "drawahead, ms", "rounds", "times faster"],
            times,
        ),
    }


def bands(data: Data, path: Path) -> None:
    """Bands of drawahead and of the package's sampler against k, for the first spectrum."""
    from drawahead.show.plots import canvas

    row = data["laws"][0]
    with canvas(path, 9.0, 3.8) as figure:
        for i, (name, title) in enumerate((("drawahead", "drawahead"), ("ode", "the package's ODE sampler"))):
            axes = figure.add_subplot(1, 2, i + 1, sharey=figure.axes[0] if i else None)
            lines = 10 ** np.array(row[name]["bands"])
            axes.fill_between(data["kperp"], lines[0], lines[-1], color="#b4d8d1", label="95% of draws")
            axes.fill_between(data["kperp"], lines[1], lines[-2], color="#5fa79d", label="68% of draws")
            axes.plot(data["kperp"], lines[2], color="#0b6e64", label="median")
            axes.plot(data["kperp"], 10 ** np.array(row["truth"]), "k--", linewidth=1, label="21cmFAST, mean of 200")
            axes.set(xscale="log", yscale="log", xlabel="k perpendicular, 1/Mpc", ylabel="power, mK^2", title=title)
            if not i:
                axes.legend()


STUDY = Study(
    "science",
    measure,
    values,
    {"science": bands} if data_path(DOCS, "science").exists() else {},
    options=options,
    may_lack=True,
)
