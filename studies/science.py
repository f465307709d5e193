"""A denoiser of 21-cm power spectra that somebody else trained, beside its own sampler, on its own test spectra.

    pip download --no-deps 21cmpsdenoiser==1.0.2      # the wheel has the weights, the source distribution the spectra
    python -m studies science --package FOLDER/psdenoiser --spectra FOLDER/spectra.npz --no-page   # one GPU, 5 minutes
    make bench STUDY=science OPTIONS=--page           # the section of docs/science.md

`--shorten FROM TO` writes the few spectra that are used into a small file. Three samplers draw for each spectrum:
drawahead's default, DDPM one step after another, and the package's own ODE sampler at its own tolerances. Times are
medians after a warm-up; both sides of drawahead are captured.
"""

from __future__ import annotations

import argparse
import itertools
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import drawahead as da
from drawahead.verification.statistics import two_sample_vectors
from studies.emulated import emulated, shown
from studies.spectra import Emulator, chain, emulator, shorten
from studies.speed.place import Place
from studies.speed.timing import measured, said
from studies.study import DOCS, Data, Stamp, Study, Watch, data_path, origin, read, save
from studies.tables import table

DRAWS = 200
CASES = [
    *itertools.product(("float32", "float16"), (1, 16, 64, 200)),
    ("float16, channels last", 200),
    *itertools.product(("float16, compiled", "float32, compiled"), (200, 1, 16, 64)),
]
"""Precision and draws."""
PARTS = ("laws", "halves", "rows", "emulated")
Numbers = dict[str, Any]


def laws(place: Place, model: Emulator, watch: Watch) -> list[Numbers]:
    """For each spectrum, what the three samplers say, and whether they say the same."""
    draws, count = _sizes(place, model)
    many = da.science.repeated(chain(place, model, model.spectra), draws)
    watch("drawahead", 0, 3)
    drawn = {"drawahead": da.sample(many, count * draws, seed=1)}
    watch("one by one", 1, 3)
    drawn["sequential"] = da.sample(many, count * draws, seed=2, sampler=da.Sequential())
    samples = {name: _split(result, count) for name, result in drawn.items()}
    torch.manual_seed(3)  # the package draws its first states from torch's own generator
    rows = []
    for i in range(count):
        watch(f"the package's sampler, redshift {model.redshifts[i]:.1f}", 2, 3)
        began = place.now()
        own, passes = model.ode(model.spectra[i], draws)
        row: Numbers = {"redshift": model.redshifts[i], "draws": draws, "ode_passes": int(passes)}
        row["ode_seconds"] = place.now() - began
        each = {name: part[i] for name, part in samples.items()} | {"ode": own.float().cpu()}
        for name, part in each.items():
            row[name] = _against(model, i, part, None if name == "sequential" else each["sequential"])
            row[name]["bands"] = da.summary(model.logs(part)).quantiles[:, 0, :, 2].tolist()  # against kperp
        row["truth"] = model.truth[i][0, :, 2].tolist()
        rows.append(row)
    for name, result in drawn.items():
        rows[0][name] |= _counted(result)
    return rows


def halves(place: Place, model: Emulator, watch: Watch) -> list[Numbers]:
    """What half precision does to the draws of each spectrum, beside single steps in float32."""
    draws, count = _sizes(place, model)
    watch("one by one in float32", 0, 3)
    single = da.science.repeated(chain(place, model, model.spectra), draws)
    exact = _split(da.sample(single, count * draws, seed=2, sampler=da.Sequential()), count)
    rows = []
    for name, sampler in (("float16", None), ("float16", da.Sequential()), ("bfloat16", None)):
        watch(f"{name}, {sampler or 'drawahead'}", len(rows), 3 * count)
        many = da.science.repeated(chain(place, model, model.spectra, precision=name), draws)
        try:
            result = da.sample(many, count * draws, seed=4, sampler=sampler)
        except da.DrawaheadError as error:  # the network may not bear it
            print(f"{name}: {error}", flush=True)
            continue
        facts = {"precision": name, "ahead": sampler is None} | _counted(result)
        for i, part in enumerate(_split(result, count)):
            rows.append(facts | {"redshift": model.redshifts[i]} | _against(model, i, part, exact[i]))
    return rows


def _sizes(place: Place, model: Emulator) -> tuple[int, int]:
    return (DRAWS, len(model.spectra)) if place.real else (12, 2)


def _split(result: da.Result, count: int) -> Tensor:
    return result.samples.float().cpu().unflatten(0, (count, -1))


def _counted(result: da.Result) -> Numbers:
    report = result.report
    counted = {"seconds": report.seconds, "rounds": report.mean_rounds, "queries": report.queries_per_sample}
    return counted | {"sampler": report.sampler}


def _against(model: Emulator, i: int, draws: Tensor, single: Tensor | None) -> Numbers:
    """What these draws say about spectrum i, and how far they lie from `single`, drawn one step at a time."""
    found = da.summary(model.logs(draws))
    row: Numbers = {
        "error": float((10 ** (found.median - model.truth[i]) - 1).abs().median()),
        "spread": float((found.spread * np.log(10)).median()),
    }
    if single is not None:
        one = da.summary(model.logs(single))
        apart = (found.median - one.median) / (found.quantile_errors[2] ** 2 + one.quantile_errors[2] ** 2).sqrt()
        row["apart"] = float(apart.square().mean().sqrt())  # 1 where they differ by chance alone
        row["wider"] = float((found.spread / one.spread).median())
        row["p_value"] = two_sample_vectors(draws.flatten(1), single.flatten(1))
    return row


def speeds(place: Place, model: Emulator, limit: float, rows: list[Numbers], save_rows: Callable[[], None]) -> None:
    """Row by row, the ones that matter most first; rows from before stay, and what there is no time for is left out."""
    began, chains = time.perf_counter(), dict[str, da.GaussianChain]()
    for name, batch in CASES if place.real else itertools.product(("float32", "float16"), (1, 2)):
        if any(row["draws"] == batch and row["precision"] == name for row in rows):
            continue
        words = f"{batch} draws, {name}"
        if time.perf_counter() - began > limit:
            print(f"no time is left for {words}", flush=True)
            continue
        if name not in chains:
            chains.clear()
            place.forget()
            chains[name] = _chain(place, model, name)
        row: Numbers = {"draws": batch, "precision": name}
        try:
            row["sequential"] = measured(place, chains[name], da.Sequential(), batch, place.seeds[:1])
            said(f"{words}, one by one", row["sequential"])
            row["drawahead"] = measured(place, chains[name], _window(rows, name, batch), batch, place.seeds[:2])
            said(f"{words}, ahead", row["drawahead"])
        except da.DrawaheadError as error:  # half precision may not be enough for it
            print(f"{words}: {error}", flush=True)
            continue
        if name == "float32":
            start = place.now()
            _, row["ode_passes"] = model.ode(model.spectra[0], batch)
            row["ode_seconds"] = place.now() - start
        rows.append(row | {"note": chains[name].note})
        save_rows()


def _chain(place: Place, model: Emulator, name: str) -> da.GaussianChain:
    precision, *more = name.split(", ")
    made = chain(place, model, model.spectra[:1], precision=precision, last="channels last" in more)
    return made.compiled() if "compiled" in more else made


def _window(rows: list[Numbers], name: str, batch: int) -> da.Sampler | None:
    """A compiled network is drawn from with the window that was chosen without: to choose would compile for minutes."""
    plain = name.removesuffix(", compiled")
    before = [row["drawahead"]["sampler"] for row in rows if (row["precision"], row["draws"]) == (plain, batch)]
    found = re.search(r"window=(\d+)", before[0]) if before and plain != name else None
    return da.Coupled(int(found[1])) if found else None


def options(parser: argparse.ArgumentParser) -> None:
    """Where the package is, and how long it may take."""
    parser.add_argument("--device", default="cuda", help="cpu: a few steps, to see that everything runs")
    parser.add_argument("--package", type=Path, help="the folder psdenoiser of the wheel")
    parser.add_argument("--emulator", type=Path, help="the folder of py21cmemu 3.0, for the part `emulated`")
    parser.add_argument("--spectra", type=Path, help="spectra, as --shorten writes them")
    parser.add_argument("--shorten", type=Path, nargs=2, metavar=("FROM", "TO"), help="write a small file of spectra")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds for timings: then rows are left out")
    parser.add_argument("--parts", nargs="*", default=PARTS, choices=PARTS, help="measure these, and leave the others")


def measure(arguments: argparse.Namespace, watch: Watch) -> Data:
    """Part after part, saved after each; parts that are not wanted, and rows that were measured, stay as they are."""
    if arguments.shorten is not None:
        shorten(*arguments.shorten)
        raise SystemExit(f"wrote {arguments.shorten[1]}")
    stamp, place, path = Stamp(arguments), Place(arguments.device), data_path(arguments.out, "science")
    data: Data = {"laws": [], "halves": [], "rows": [], "emulated": []}
    data |= read(path) if path.exists() and place.real else {}
    data |= {"machine": place.name()}

    def saved() -> None:
        save(data | stamp.made(), path)

    if arguments.parts != ["emulated"]:
        model = emulator(arguments, place)
        data |= {"kperp": model.kperp}
        for part, function in (("laws", laws), ("halves", halves)):
            if part in arguments.parts:
                data[part] = function(place, model, watch)
                saved()
                place.forget()
        if "rows" in arguments.parts:
            speeds(place, model, arguments.limit, data["rows"], saved)
    if "emulated" in arguments.parts and arguments.emulator is not None:
        data["emulated"] = []
        emulated(place, arguments.emulator, data["emulated"], saved)
    return data | stamp.made()


def _per_query(row: Numbers) -> float:
    return float(row["seconds"] / row["queries_per_sample"])


def values(data: Data | None) -> dict[str, str | None]:
    """What the section says; nothing before it was measured."""
    if data is None:
        names = "gpu versions laws halves speeds best most emulated draws law_seconds law_rounds figure"
        return dict.fromkeys(names.split())
    lines = []
    for row in data["laws"]:
        one, ahead, ode = row["sequential"], row["drawahead"], row["ode"]
        cells = [f"{row['redshift']:.1f}", *(f"{100 * side['error']:.1f}" for side in (ahead, one, ode))]
        cells += [f"{100 * side['spread']:.1f}" for side in (ahead, one, ode)]
        lines.append([*cells, *(f"{side['apart']:.2f}, p = {side['p_value']:.2g}" for side in (ahead, ode))])
    heading = ["redshift", *(f"{what} {who}" for what in ("off, %,", "spread, %,") for who in ("ahead", "DDPM", "ODE"))]
    heading += ["ahead beside DDPM", "ODE beside DDPM"]
    times = []
    for row in sorted(data["rows"], key=lambda row: (row["precision"] != "float32", row["precision"], row["draws"])):
        one, ahead = row["sequential"], row["drawahead"]
        own = f"{row['ode_seconds'] * 1e3:.0f} ({row['ode_passes']} passes)" if "ode_seconds" in row else ""
        cells = [f"{one['seconds'] * 1e3:.0f}", f"{ahead['seconds'] * 1e3:.0f}", f"{ahead['mean_rounds']:.1f}"]
        times.append([str(row["draws"]), row["precision"], own, *cells, f"{one['seconds'] / ahead['seconds']:.1f}"])
    first = data["laws"][0]
    many = [row for row in data["rows"] if row["precision"].startswith("float16") and row["draws"] == 200]
    best = [min((row[side]["seconds"] for row in many), default=1.0) for side in ("sequential", "drawahead")]
    full = next((row for row in data["rows"] if (row["precision"], row["draws"]) == ("float32", DRAWS)), None)
    return {
        "best": f"{best[0] / best[1]:.1f}",
        "most": None if full is None else f"{_per_query(full['sequential']) / _per_query(full['drawahead']):.2f}",
        "gpu": data["machine"],
        "figure": "figures/science.png",
        "versions": origin(data, "science")["versions"],
        "draws": str(first["draws"]),
        "law_seconds": f"{first['drawahead']['seconds']:.1f} s instead of {first['sequential']['seconds']:.1f} s",
        "law_rounds": f"{first['drawahead']['rounds']:.0f}",
        "laws": table(heading, lines),
        "halves": table(
            ["redshift", "precision", "steps", "spread, %", "beside float32's", "medians apart", "p-value"],
            [
                [
                    f"{row['redshift']:.1f}",
                    row["precision"],
                    "ahead" if row["ahead"] else "one by one",
                    f"{100 * row['spread']:.1f}",
                    *(f"{row['wider']:.2f}", f"{row['apart']:.1f}", f"{row['p_value']:.2g}"),
                ]
                for row in sorted(data["halves"], key=lambda row: -row["redshift"])
            ],
        )
        if data["halves"]
        else None,
        "emulated": shown(data["emulated"]),
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
            axes.set(xscale="log", xlabel="k perpendicular, 1/Mpc", ylabel="power, mK$^2$", title=title)
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
