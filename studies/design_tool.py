"""`drawahead design` beside ProteinMPNN's own code, from structure files to scored sequences.

    python -m studies design --weights .venv/weights --num 40 --temperature 0.3 tests/adapters/data/1ubi.pdb
    python -m studies design --weights .venv/weights --device cuda --time --num 8 FOLDER
    python -m studies design --weights .venv/weights --device cuda --time --num 8 --symmetry A,B,C trimer.pdb
    python -m studies design --page      # the section of docs/proteins.md, from all rows there are

A row of what was measured before stays, unless it is measured again. `python -m studies structures` makes the files.

Told are passes, whether recovery and score have the same law on both sides (two-sample Kolmogorov-Smirnov tests, and
the smallest shift they would have found), and how many tokens are those of `Sequential`. With --time also the seconds
of both, reading and encoding included; both are run once before, on the first structure, and then in alternation.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import drawahead as da
from drawahead.errors import InputError
from drawahead.proteins.choices import symmetric
from drawahead.proteins.design import DesignJob, Options
from drawahead.proteins.design import run as run_tool
from drawahead.proteins.design import sources as files_of
from drawahead.proteins.design.sources import find_weights
from drawahead.proteins.mpnn.model import ALPHABET, ProteinMPNN, Weights
from drawahead.proteins.structures.files import read_structure
from drawahead.verification.statistics import two_sample_kolmogorov
from studies.study import DOCS, Data, Stamp, Study, Watch, data_path, read
from studies.tables import table

LEVEL, POWER = 0.01, 0.9
KEYS = ("structures", "names", "symmetry", "num", "temperature", "device")


@dataclass
class Told:
    """What one side tells of every sequence."""

    recovery: list[float]
    score: list[float]


class Published:
    """The package's own way from files to scored sequences; its file is loaded by path."""

    def __init__(self, folder: Path, model: str, device: str) -> None:
        package = folder / "proteinmpnn"
        spec = importlib.util.spec_from_file_location("published", package / "protein_mpnn_utils.py")
        assert spec is not None and spec.loader is not None
        self.code: Any = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.code)
        file = torch.load(package / "data" / "vanilla_model_weights" / f"{model}.pt", weights_only=True)
        self.model = self.code.ProteinMPNN(21, 128, 128, 128, k_neighbors=file["num_edges"], augment_eps=0.0)
        self.model.load_state_dict(file["model_state_dict"])
        self.model.to(device).eval()
        self.device = torch.device(device)

    @torch.no_grad()
    def run(self, paths: list[Path], num: int, temperature: float, symmetry: list[str]) -> Told:
        told = Told([], [])
        for path in paths:
            (parsed,) = self.code.parse_PDB(str(path))
            tied = None
            if symmetry:
                length = len(parsed[f"seq_chain_{symmetry[0]}"])
                tied = {parsed["name"]: [{chain: [i] for chain in symmetry} for i in range(1, length + 1)]}
            batch = self.code.tied_featurize([parsed] * num, self.device, None, tied_positions_dict=tied)
            x, native, mask, designed, chains, kept, omit, index = (batch[i] for i in (0, 1, 2, 4, 5, 10, 11, 12))
            groups, bias, beta = batch[14], batch[18], batch[19]
            options: dict[str, Any] = {
                "mask": mask,
                "temperature": temperature,
                "omit_AAs_np": np.array([letter == "X" for letter in ALPHABET], dtype=np.float32),
                "bias_AAs_np": np.zeros(21),
                "chain_M_pos": kept,
                "omit_AA_mask": omit,
                "bias_by_res": bias,
            }
            draw = self.model.sample
            if tied:
                draw, options = self.model.tied_sample, options | {"tied_pos": groups[0], "tied_beta": beta}
            noise = torch.randn(designed.shape, device=self.device)
            drawn = draw(x, noise, native, designed, chains, index, **options)
            rows = self.model(
                x,
                drawn["S"],
                mask,
                designed * kept,
                index,
                chains,
                noise,
                use_input_decoding_order=True,
                decoding_order=drawn["decoding_order"],
            )
            counted = mask * designed * kept
            told.score += self.code._scores(drawn["S"], rows, counted).tolist()
            told.recovery += (((drawn["S"] == native) * counted).sum(1) / counted.sum(1)).tolist()
        return told


def told_by(job: DesignJob) -> Told:
    every = [each for part in job.parts.values() for each in part.designed]
    return Told([each.recovery for each in every], [each.score for each in every])


def smallest_shift(num: int) -> float:
    """The shift, in standard deviations of a normal law, that the test finds with probability POWER at LEVEL."""
    generator = torch.Generator().manual_seed(0)
    for shift in np.arange(0.1, 4.0, 0.1):
        draws = [torch.randn(2, num, generator=generator) for _ in range(100)]
        found = [two_sample_kolmogorov(one, other + shift) < LEVEL for one, other in draws]
        if np.mean(found) >= POWER:
            return float(shift)
    return float("nan")


def clocked(work: Callable[[], Any], device: str) -> tuple[float, Any]:
    began = time.perf_counter()
    done = work()
    if device.startswith("cuda"):
        torch.cuda.synchronize()
    return time.perf_counter() - began, done


def as_sequential(path: Path, weights: Weights, asked: Options, device: str) -> float:
    """The share of tokens of `Coupled` that are those of `Sequential`, on one structure in float64."""
    structure = read_structure(path)
    tied = symmetric(structure, asked.symmetry.split(",")) if asked.symmetry else None
    mpnn = ProteinMPNN(
        weights, structure, temperature=asked.temperature[0], tied=tied, dtype=torch.float64, device=device
    )
    coupled, sequential = (
        da.sample(mpnn.chain(), 2, sampler=sampler, seed=0).samples for sampler in (da.Coupled(), da.Sequential())
    )
    return float((coupled == sequential).double().mean())


def options(parser: argparse.ArgumentParser) -> None:
    """What is designed, and where."""
    parser.add_argument("structures", nargs="*", type=Path, help="PDB files, or folders of them")
    parser.add_argument("--weights", type=Path, help="the folder that holds the package proteinmpnn")
    parser.add_argument("--model", default="v_48_020")
    parser.add_argument("--symmetry", default="", help="chains that are tied, such as A,B,C")
    parser.add_argument("--num", type=int, default=8)
    parser.add_argument("--temperature", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--time", action="store_true", help="tell the seconds of both")
    parser.add_argument("--repeats", type=int, default=3, help="with --time")


def measure(arguments: argparse.Namespace, watch: Watch) -> Data:
    """One more row, beside those that were measured before."""
    if not arguments.structures or arguments.weights is None:
        raise InputError("name structures, and the folder that holds the package proteinmpnn with --weights")
    stamp, path = Stamp(arguments), data_path(arguments.out, "design")
    known = next((file for file in (path, data_path(DOCS, "design")) if file.exists()), None)
    row = measured(arguments)
    print(json.dumps(row), flush=True)
    rows: list[Data] = [] if known is None else read(known)["rows"]
    kept = [old for old in rows if any(old[key] != row[key] for key in KEYS)]
    return {"rows": [*kept, row | stamp.made()]}


def measured(arguments: argparse.Namespace) -> Data:
    """Both tools on these structures."""
    torch.manual_seed(arguments.seed)
    found, _ = files_of.find(arguments.structures)
    paths, device = list(found.values()), arguments.device
    symmetry = [name for name in arguments.symmetry.split(",") if name]
    theirs = Published(arguments.weights, arguments.model, device)
    asked = Options(
        model=arguments.model,
        weights=str(arguments.weights),
        num=arguments.num,
        temperature=(arguments.temperature,),
        symmetry=arguments.symmetry,
        seed=arguments.seed,
    )

    def ours(which: list[Path]) -> DesignJob:
        with tempfile.TemporaryDirectory() as folder:
            return run_tool(Path(folder) / "out", which, asked, device=device)

    if arguments.time:
        theirs.run(paths[:1], arguments.num, arguments.temperature, symmetry)
        ours(paths[:1])
    seconds: dict[str, list[float]] = {"published": [], "drawahead": []}
    for _ in range(arguments.repeats if arguments.time else 1):
        took, published = clocked(lambda: theirs.run(paths, arguments.num, arguments.temperature, symmetry), device)
        seconds["published"].append(took)
        took, job = clocked(lambda: ours(paths), device)
        seconds["drawahead"].append(took)
    if symmetry:  # a batch of the package shares one order: its sequences are judged one by one
        again = [path for path in paths for _ in range(arguments.num)]
        published = theirs.run(again, 1, arguments.temperature, symmetry)
    own = told_by(job)
    every = [(each, part) for part in job.parts.values() for each in part.designed]

    def p_value(name: str) -> float:
        one, other = (Tensor(getattr(side, name)) for side in (published, own))
        return two_sample_kolmogorov(one, other)

    row = {
        "structures": len(paths),
        "names": [path.name for path in paths][:10],
        "residues": [part.steps for part in job.parts.values()][:10],
        "symmetry": arguments.symmetry,
        "num": arguments.num,
        "temperature": arguments.temperature,
        "device": torch.cuda.get_device_name() if device.startswith("cuda") else device,
        "mean_passes": statistics.mean(each.rounds for each, _ in every),
        "mean_steps": statistics.mean(part.steps for _, part in every),
        "mean_recovery": {"published": statistics.mean(published.recovery), "drawahead": statistics.mean(own.recovery)},
        "mean_score": {"published": statistics.mean(published.score), "drawahead": statistics.mean(own.score)},
        "p_recovery": p_value("recovery"),
        "p_score": p_value("score"),
        "smallest_shift_found": smallest_shift(len(every)),
        "tokens_equal_to_sequential": as_sequential(paths[0], Weights.load(find_weights(asked)), asked, device),
    }
    if arguments.time:
        median = {side: statistics.median(taken) for side, taken in seconds.items()}
        row |= {"seconds": seconds, "times_less": median["published"] / median["drawahead"]}
        row |= {"sequences_per_second": {side: len(every) / taken for side, taken in median.items()}}
    return row


def values(data: Data) -> dict[str, str | None]:
    """What the section says."""
    rows: list[Data] = data["rows"]
    lines = []
    for row in (row for row in rows if "seconds" in row and row["device"] != "cpu"):
        one, other = (statistics.median(row["seconds"][side]) for side in ("published", "drawahead"))
        what = Path(row["names"][0]).stem if row["structures"] == 1 else f"{row['structures']} structures"
        long = f"{row['mean_steps']:.0f}" + (" on average" if row["structures"] > 1 else "")
        long = f"{len(row['symmetry'].split(','))} x {long}, tied" if row["symmetry"] else long
        cells = [f"{row['mean_passes']:.1f}", f"{one:.3g} s", f"{other:.2g} s", f"{row['times_less']:.1f}"]
        lines.append([what, long, *cells])
    folder = max(rows, key=lambda row: int(row["structures"]))
    tied = next(row for row in rows if row["symmetry"] and row["num"] >= 40)
    heading = ["", "residues", "passes", "the package", "`drawahead design`", "times less"]
    return {
        "device": folder["device"],
        "num": str(folder["num"]),
        "temperature": f"{folder['temperature']:g}",
        "tools": table(heading, lines),
        "sequences": str(folder["structures"] * folder["num"]),
        "p_recovery": f"{folder['p_recovery']:.2f}",
        "p_score": f"{folder['p_score']:.2f}",
        "shift": f"{folder['smallest_shift_found']:.1f}",
        "power": f"{POWER:g}",
        "tied_chains": str(len(tied["symmetry"].split(","))),
        "tied_residues": f"{tied['mean_steps']:.0f}",
        "tied_num": str(tied["num"]),
        "tied_p_recovery": f"{tied['p_recovery']:.2f}",
        "tied_p_score": f"{tied['p_score']:.2f}",
    }


STUDY = Study("design", measure, values, {}, page="proteins", options=options)
