"""Milliseconds of a robot's action chunk, call after call: by the usual loop, captured, and by drawahead.

    python training/policy.py --widths 256 512 1024 --seconds 100 --out out/push-65m.safetensors   # and 17m, 252m
    python -m studies policies --weights out --no-page      # one GPU, about eight minutes
    python -m studies policies --page                       # the sections of docs/policies.md, from all data there is

How many rounds a chunk takes depends on what its network has learnt, so networks are trained, if briefly; one whose
file is not in the folder has random weights, and its rows say so. Observations are some of those shown in training.
Rows that were measured before stay, unless they are measured again; data are saved after each.
"""

from __future__ import annotations

import argparse
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy
import torch
from torch import Tensor

import drawahead as da
from studies.study import DOCS, Data, Stamp, Study, Watch, data_path, origin, read, save
from studies.tables import table
from training.policy_unet import PolicyUNet

SIZES = {"17m": (128, 256, 512), "65m": (256, 512, 1024), "252m": (512, 1024, 2048), "tiny": (8, 16)}
HORIZON, STEPS, ENTRIES, TOLD = 16, 100, 4, 20
METHODS = {
    "eager": "the usual loop",
    "captured": "captured, one by one",
    "captured compiled": "captured and compiled, one by one",
    "drawahead": "drawahead",
    "drawahead compiled": "drawahead, compiled",
}
CALLS, FEWEST, WARM_UPS = 2000, 8, 2
Row = dict[str, Any]


class Policy:
    """A policy as LeRobot writes it: one loop over the scheduler's timesteps."""

    horizon, action_dim = HORIZON, ENTRIES

    def __init__(self, unet: PolicyUNet) -> None:
        from diffusers import DDPMScheduler

        self.unet, self.num_inference_steps = unet, STEPS
        self.noise_scheduler = DDPMScheduler(num_train_timesteps=STEPS, beta_schedule="squaredcos_cap_v2")

    @torch.no_grad()
    def conditional_sample(self, batch_size: int, global_cond: Tensor) -> Tensor:
        x = torch.randn(batch_size, HORIZON, ENTRIES, device=global_cond.device, dtype=global_cond.dtype)
        self.noise_scheduler.set_timesteps(self.num_inference_steps)
        for t in self.noise_scheduler.timesteps:
            times = torch.full((batch_size,), int(t), dtype=torch.long, device=x.device)
            x = self.noise_scheduler.step(self.unet(x, times, global_cond=global_cond), t, x).prev_sample
        return x


def options(parser: argparse.ArgumentParser) -> None:
    """What to measure."""
    parser.add_argument("--weights", type=Path, default=Path("out"), help="the folder of push-SIZE.safetensors (out)")
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=["65m", "17m", "252m"])
    parser.add_argument("--observations", nargs="+", type=int, default=[1, 50])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--dtype", choices=["float32", "float16"], default="float32")
    parser.add_argument("--seconds", type=float, default=6.0, help=f"of calls, {CALLS} at most, for one row (6)")
    parser.add_argument(
        "--limit", type=float, default=500.0, help="seconds for everything: then rows are left out (500)"
    )
    parser.add_argument("--device", default="cuda", help="cpu: to see that everything runs; its times mean nothing")


def measure(arguments: argparse.Namespace, watch: Watch) -> Data:
    """Every row there is time for."""
    # For everyone, as LeRobot evaluates: TensorFloat32, and cuDNN finds its kernels by trial.
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.benchmark = True
    stamp, path = Stamp(arguments), data_path(arguments.out, "policies")
    known = next((file for file in (path, data_path(DOCS, "policies")) if file.exists()), None)
    rows: dict[str, Row] = {} if known is None else read(known)["rows"]
    wanted = [
        (size, number, method)
        for number in arguments.observations
        for size in arguments.sizes
        for method in arguments.methods
    ]
    for i, (size, number, method) in enumerate(wanted):
        name = f"{size}, {number}, {method}, {arguments.dtype}"
        if time.perf_counter() - stamp.began > arguments.limit:
            print(f"no time is left for {name}", flush=True)
            continue
        watch(name, i, len(wanted))
        rows[name] = measured(arguments, size, number, method)
        print(name, {key: rows[name][key] for key in ("p50", "p99", "calls", "rounds")}, flush=True)
        save(stamp.made() | {"rows": rows}, path)
    return stamp.made() | {"rows": rows}


def measured(arguments: argparse.Namespace, size: str, number: int, method: str) -> Row:
    """One way to draw chunks for so many observations at a time, called again and again."""
    device, dtype = torch.device(arguments.device), getattr(torch, arguments.dtype)
    policy, told, trained = loaded(size, arguments.weights, device, dtype)
    began, seconds, rounds, finished = time.perf_counter(), [], [], 0.0
    with drawing(policy, method, number) as fast:
        for call in range(-WARM_UPS, CALLS):
            if call >= FEWEST and time.perf_counter() > finished:
                break
            observed = told[(call * number + torch.arange(number)) % len(told)]
            _wait(device)
            start = time.perf_counter()
            policy.conditional_sample(number, global_cond=observed).cpu()  # where a robot wants its actions
            if call >= 0:
                seconds.append(time.perf_counter() - start)
                rounds.append(STEPS if fast is None else fast.report.mean_rounds)
            else:
                finished = time.perf_counter() + arguments.seconds
        sampler = "" if fast is None else fast.report.sampler
    p50, p95, p99 = (1e3 * numpy.quantile(seconds, [0.5, 0.95, 0.99])).tolist()
    return {
        "size": size,
        "parameters": sum(weight.numel() for weight in policy.unet.parameters()),
        "observations": number,
        "method": method,
        "dtype": arguments.dtype,
        "trained": trained,
        "calls": len(seconds),
        "p50": p50,
        "p95": p95,
        "p99": p99,
        "rounds": float(numpy.mean(rounds)),
        "sampler": sampler,
        "warm_up_seconds": finished - arguments.seconds - began,
        "device": torch.cuda.get_device_name() if device.type == "cuda" else platform.machine(),
    }


@contextmanager
def drawing(policy: Policy, method: str, number: int) -> Iterator[Any]:
    """The policy, drawing by this method. -> what is known of its calls, unless it is its own loop.

    For one observation drawahead's window spans all steps. More of them share rounds, which cost more: it decides.
    """
    if method == "eager":
        yield None
        return
    sampler = da.Coupled(window=STEPS - 1) if number == 1 else None
    chosen = da.Sequential() if method.startswith("captured") else sampler
    compiled, graphs = (
        method.endswith("compiled"),
        None if torch.cuda.is_available() else True,
    )  # a CPU runs that code, too
    with da.adapters.accelerate(policy, sampler=chosen, seed=0, graphs=graphs, compile=compiled) as fast:
        yield fast


def loaded(size: str, folder: Path, device: torch.device, dtype: torch.dtype) -> tuple[Policy, Tensor, bool]:
    """A policy of this size, what observations tell it (rows, TOLD), and whether it is trained."""
    unet, path = PolicyUNet(ENTRIES, TOLD, SIZES[size]), folder / f"push-{size}.safetensors"
    told = torch.rand(256, TOLD, generator=torch.Generator().manual_seed(0)) * 2 - 1
    if path.exists():
        from safetensors.torch import load_file

        held = load_file(path)
        unet.load_state_dict({name[5:]: value for name, value in held.items() if name.startswith("unet.")})
        told = held["told"]
    unet = unet.to(device, dtype).eval().requires_grad_(False)
    return Policy(unet), told.to(device, dtype), path.exists()


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def values(data: Data | None, rollouts: Data | None) -> dict[str, str | None]:
    """What the page says; nothing of what is not measured."""
    return _latency(data) | _success(rollouts)


def _latency(data: Data | None) -> dict[str, str | None]:
    names = ("latency", "device", "calls", "command", "versions", "seconds", "untrained")
    if data is None:
        return dict.fromkeys(names)
    rows: list[Row] = list(data["rows"].values())
    untrained = sorted({f"{row['size']} with {row['observations']} at a time" for row in rows if not row["trained"]})
    return origin(data, "policies") | {
        "latency": _latency_table(rows),
        "device": " and ".join(sorted({row["device"] for row in rows})),
        "calls": f"{min(row['calls'] for row in rows)} to {max(row['calls'] for row in rows)}",
        "untrained": ", ".join(untrained) or None,
    }


def _latency_table(rows: Sequence[Row]) -> str:
    """By precision, observations and size: every method, and how much less time it takes than two others."""
    lines = []
    keys: Callable[[Row], tuple[Any, ...]] = lambda row: (row["dtype"], row["observations"], row["size"])  # noqa: E731
    for key in dict.fromkeys(map(keys, rows)):
        cells = {row["method"]: row for row in rows if keys(row) == key}
        for method in (method for method in METHODS if method in cells):
            row = cells[method]
            times = [f"{row[name]:.1f}" for name in ("p50", "p95", "p99")]
            less = [
                f"{cells[other]['p50'] / row['p50']:.1f}" if other in cells and other != method else "-"
                for other in ("eager", "captured")
            ]
            millions = f"{row['parameters'] / 1e6:.0f}M"
            start = [METHODS[method], millions, str(row["observations"]), row["dtype"], f"{row['rounds']:.1f}"]
            lines.append([*start, *times, *less])
    heading = ["", "parameters", "observations", "precision", "rounds", "p50 ms", "p95 ms", "p99 ms"]
    return table([*heading, "x the loop", "x captured"], lines)


def _success(rollouts: Data | None) -> dict[str, str | None]:
    names = ("success", "episodes", "parameters", "difference", "spread", "p")
    if rollouts is None:
        return dict.fromkeys(names)
    rows = []
    for row in rollouts["methods"]:
        n = row["episodes"]
        low, high = row["interval"]
        share = f"{row['successes'] / n:.1%} ({low:.1%} to {high:.1%})"
        rows.append([row["method"], share, f"{row['left'] / n:.0%}", f"{row['rounds']:.1f}"])
    test = rollouts["against_sequential"]["drawahead"]
    return {
        "success": table(["", "success, with 95% interval", "by the left", "rounds per chunk"], rows),
        "episodes": str(rollouts["methods"][0]["episodes"]),
        "parameters": f"{rollouts['parameters'] / 1e6:.0f}",
        "difference": f"{100 * test['difference']:+.1f}",
        "spread": f"{100 * test['low']:+.1f} to {100 * test['high']:+.1f}",
        "p": f"{test['p']:.2f}",
    }


STUDY = Study("policies", measure, values, {}, sources=("policies", "rollouts"), options=options, may_lack=True)
