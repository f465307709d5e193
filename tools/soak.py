"""Calls, pipelines and policies for as long as one likes, disturbed in every way: do memory, graphs and handles stay?

    python tools/soak.py --seconds 3600                # an hour, on a GPU if there is one
    python tools/soak.py --seconds 420 --out rows.jsonl

Runners that live to the end are given new conditions, other weights in place, replaced weights, other numbers of
samples, models that fail, answers that are not finite, requests to stop and Ctrl-C at any moment; chains and runners
that live for one call come and go between them. Every so many seconds a row of JSON says what the process holds. The
last line compares the second quarter of the rows with the last one; the exit status is 1 if something has grown.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import signal
import statistics
import sys
import threading
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import drawahead as da

GROWTH = {
    "megabytes": (1.02, 30),
    "objects": (1.0, 5000),
    "cuda_megabytes": (1.0, 8),
    "cuda_reserved": (1.05, 64),
    "cuda_used": (1.02, 64),
}
"""By figure: how much more it may be at the end, as a factor and in its unit; others may not grow at all."""
SIZES = (1, 2, 3, 5, 8, 12, 17, 24, 33, 40)  # more than the batches that a runner keeps


class Trouble(Exception):
    """What a model raises here when it is told to."""


class Network(nn.Module):
    """(states, step, shift) -> means; it fails, or answers with what is not finite, when it is told to."""

    def __init__(self, entries: int, wide: int, device: str) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(entries, wide), nn.Tanh(), nn.Linear(wide, entries)).to(device)
        self.order = ""

    def forward(self, x: Tensor, k: Tensor, shift: Tensor | None = None) -> Tensor:
        if self.order == "fail":
            raise Trouble("the model is in a mood")
        out = self.inner(x.float()).to(x) + (0.0 if shift is None else shift.to(x))
        return out * torch.nan if self.order == "nan" else out

    @torch.no_grad()
    def change(self, how: str) -> None:
        """Other weights: in place, or other tensors."""
        for name, weight in [*self.inner.named_parameters()]:
            if how == "in place":
                weight.add_(0.001 * torch.randn_like(weight))
            else:
                home, _, last = name.rpartition(".")
                setattr(self.inner.get_submodule(home), last, nn.Parameter(weight.clone()))


class Soak:
    """Everything that lives to the end, and what is done with it."""

    def __init__(self, device: str, small: bool, seed: int = 0) -> None:
        self.device, self.dice = device, random.Random(seed)
        self.graphs = None if device == "cuda" else True  # captured rounds are kept in the same way without a GPU
        self.counts: Counter[str] = Counter()
        self.unexpected: list[str] = []
        self.steps, entries, wide = (20, 8, 16) if small else (60, 64, 256)
        self.network = Network(entries, wide, device)
        self.entries = entries
        self.runners = {
            "chosen": da.Runner(self.chain(), graphs=self.graphs),
            "named": da.Runner(self.chain(), "coupled", graphs=self.graphs),
            "packed": da.Runner(self.chain(), "coupled", graphs=False),
        }
        self.texts = da.Runner(da.networks.text(16 if small else 64, device=device), "coupled", graphs=self.graphs)
        self.acts: list[Callable[[], Any]] = [self.call, self.text, self.passing, self.own]
        try:
            self.pipeline, self.policy = _pipeline(device, small), _Policy(device, small)
        except (ImportError, da.InputError):
            self.counts["without diffusers"] = 1
        else:
            self.twin = da.adapters.policy(self.policy, deadline_ms=50.0, graphs=self.graphs)
            self.acts += [self.images, self.actions]

    def chain(self) -> da.GaussianChain:
        schedule = da.StochasticLocalization(self.steps, 2.0, delta=0.05)
        return da.GaussianChain(
            self.network, schedule, (self.entries,), condition={"shift": self.shift(1)}, device=self.device
        )

    def shift(self, rows: int) -> Tensor:
        return torch.randn(rows, self.entries, device=self.device)

    def call(self) -> None:
        """A runner that lives on, with another condition each time."""
        num = self.dice.choice(SIZES)
        runner = self.dice.choice([*self.runners.values()])
        runner.sample(num, seed=self.dice.randrange(2**32), condition={"shift": self.shift(num)}, **self.watch())

    def text(self) -> None:
        self.texts.sample(self.dice.choice(SIZES[:5]), seed=self.dice.randrange(2**32), **self.watch())

    def passing(self) -> None:
        """A chain and its own runner, for one call."""
        da.sample(self.chain(), 4, sampler="coupled", graphs=self.graphs, **self.watch())

    def own(self) -> None:
        """A runner for two calls, closed or forgotten."""
        runner = da.Runner(self.chain(), "coupled", graphs=self.graphs)
        try:
            for _ in range(2):
                runner.sample(3, **self.watch())
        finally:
            if self.dice.random() < 0.5:
                runner.close()

    def images(self) -> None:
        num = self.dice.choice((1, 2, 3))
        generator = torch.Generator().manual_seed(self.dice.randrange(2**32))
        self.pipeline(num, generator, num_inference_steps=10, output_type="pt", sampler="coupled")

    def actions(self) -> None:
        rows = self.dice.choice((1, 2))
        told = torch.randn(rows, 6, device=self.device)
        if self.dice.random() < 0.1:
            told[0, 0] = self.dice.choice((torch.nan, torch.inf))
        actions = None
        try:
            actions = self.twin.conditional_sample(rows, global_cond=told)
        finally:
            if actions is None:
                assert self.twin.drawahead.report is None, "a report of a call that failed"
            else:
                assert bool(actions.isfinite().all()), "actions that are not finite"

    def watch(self) -> dict[str, Any]:
        """Nobody; or one who stops the call, or raises, after some rounds."""
        left = self.dice.randrange(1, 6)
        kind = self.dice.choice(("", "", "stop", "raise", "ctrl-c"))
        if not kind:
            return {}
        event = threading.Event()

        def on_round(report: da.Report) -> None:
            nonlocal left
            left -= 1
            if left == 0 and kind == "raise":
                raise Trouble("somebody who looks on fails")
            if left == 0 and kind == "ctrl-c":
                raise KeyboardInterrupt
            if left == 0:
                event.set()

        return {"on_round": on_round, "stop": event}

    def one(self) -> None:
        """One thing, disturbed or not."""
        act = self.dice.choice(self.acts)
        order = self.dice.choice(("", "", "", "", "fail", "nan", "alarm", "in place", "replace"))
        if order in ("in place", "replace"):
            self.network.change(order)
        self.network.order = order if order in ("fail", "nan") else ""
        if order == "alarm":  # Ctrl-C at any moment
            signal.setitimer(signal.ITIMER_REAL, self.dice.uniform(0.001, 0.05))
        try:
            act()
            self.counts[act.__name__] += 1
        except (da.DrawaheadError, Trouble) as error:
            self.counts[type(error).__name__] += 1
        except KeyboardInterrupt:
            self.counts["KeyboardInterrupt"] += 1
        except Exception as error:
            self.unexpected.append(f"{act.__name__}, {order}: {''.join(traceback.format_exception(error))[-1500:]}")
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            self.network.order = ""


def _pipeline(device: str, small: bool) -> Any:
    import diffusers

    unet = diffusers.UNet2DModel(
        sample_size=8 if small else 16, in_channels=3, out_channels=3, layers_per_block=1, block_out_channels=(8, 16),
        norm_num_groups=4, down_block_types=("DownBlock2D",) * 2, up_block_types=("UpBlock2D",) * 2,
    )  # fmt: skip
    made = da.adapters.DrawaheadPipeline(unet.eval(), diffusers.DDPMScheduler())
    made.set_progress_bar_config(disable=True)
    return made.to(device)


class _Policy(nn.Module):
    """Called as LeRobot's diffusion model is."""

    horizon, action_dim, num_inference_steps = 8, 2, 20

    def __init__(self, device: str, small: bool) -> None:
        import diffusers

        sys.path.append(str(Path(__file__).parents[1]))
        from training.policy_unet import PolicyUNet

        super().__init__()
        self.unet = PolicyUNet(self.action_dim, 6, (8, 16) if small else (64, 128)).to(device).eval()
        self.noise_scheduler = diffusers.DDPMScheduler(num_train_timesteps=20, beta_schedule="squaredcos_cap_v2")
        self.eval()

    def conditional_sample(self, batch_size: int, global_cond: Tensor) -> Tensor:
        raise AssertionError("its own loop is not meant to run")


def held() -> dict[str, float]:
    """What the process holds."""
    gc.collect()
    kinds = Counter(type(thing).__name__ for thing in gc.get_objects())
    row: dict[str, float] = {
        "megabytes": int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6,
        "handles": len(os.listdir("/proc/self/fd")),
        "threads": threading.active_count(),
        "batches": kinds["CapturedBatch"],
        "runners": kinds["Runner"],
        "chains": kinds["GaussianChain"],
        "objects": sum(kinds.values()),
    }
    if torch.cuda.is_available():
        torch.cuda.synchronize()
        free, everything = torch.cuda.mem_get_info()
        row |= {
            "graphs": kinds["CUDAGraph"],
            "cuda_megabytes": torch.cuda.memory_allocated() / 1e6,
            "cuda_reserved": torch.cuda.memory_reserved() / 1e6,
            "cuda_used": (everything - free) / 1e6,
        }
    return row


def grown(rows: list[dict[str, float]]) -> dict[str, Any]:
    """The second quarter of the rows beside the last one, and what is larger there than it may be."""
    quarter = max(1, len(rows) // 4)
    early, late = rows[quarter : 2 * quarter] or rows, rows[-quarter:]
    found, more = {}, []
    for name in rows[0]:
        if name in ("seconds", "calls"):
            continue
        before, after = (statistics.median(row[name] for row in part) for part in (early, late))
        found[name] = [round(before, 1), round(after, 1)]
        factor, plus = GROWTH.get(name, (1.0, 2))
        if after > factor * before + plus:
            more.append(name)
    return {"early_late": found, "grown": more}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--every", type=float, default=15.0, help="seconds between rows (15)")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--small", action="store_true", help="tiny networks")
    parser.add_argument("--out", type=Path, help="write rows here too")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", RuntimeWarning)

    def alarm(*_: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGALRM, alarm)
    rows: list[dict[str, float]] = []

    def tell(row: dict[str, Any]) -> None:
        print(json.dumps(row), flush=True)
        if arguments.out is not None:
            with arguments.out.open("a") as file:
                file.write(json.dumps(row) + "\n")

    soak, began, due = Soak(arguments.device, arguments.small), time.perf_counter(), arguments.every
    while (taken := time.perf_counter() - began) < arguments.seconds and len(soak.unexpected) < 20:
        try:
            soak.one()
        except KeyboardInterrupt:  # it came when the call had just ended
            soak.counts["KeyboardInterrupt"] += 1
        if taken >= due:
            rows.append({"seconds": round(taken, 1), "calls": sum(soak.counts.values()), **held()})
            tell(rows[-1])
            due = taken + arguments.every
    last = {"counts": dict(soak.counts), "unexpected": soak.unexpected[:3], **(grown(rows) if rows else {})}
    tell(last)
    return int(bool(soak.unexpected or not rows or last["grown"]))


if __name__ == "__main__":
    raise SystemExit(main())
