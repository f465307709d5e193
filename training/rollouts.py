"""Judge a policy by whole episodes: drawahead, its own hundred steps, and few steps of DDIM, from the same starts.

python training/rollouts.py --policy out/push.safetensors --packages carry/metaworld --episodes 200 --out out/push.json

Environments run on the CPU, in lockstep, and their observations share the policy's calls.
"""

from __future__ import annotations

import argparse
import inspect
import json
import math
import platform
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
from diffusers import DDIMScheduler
from policy import HISTORY, STEPS, Policy
from tasks import DETOUR, Episode, World

import drawahead as da

METHODS = ("drawahead", "sequential", "ddim16", "ddim10", "ddim8")


@contextmanager
def method(policy: Policy, name: str) -> Iterator[Any]:
    """The policy, drawing as the name says. -> what is known of its calls, if it is drawahead's."""
    own = policy.noise_scheduler, policy.num_inference_steps
    try:
        if name == "drawahead":
            with da.adapters.accelerate(policy, sampler=da.Coupled(window=STEPS - 1), seed=0) as fast:
                yield fast
        elif name == "sequential":
            yield None
        else:
            settings = inspect.signature(DDIMScheduler.__init__).parameters
            policy.noise_scheduler = DDIMScheduler(**{k: v for k, v in own[0].config.items() if k in settings})
            policy.num_inference_steps = int(name.removeprefix("ddim"))
            yield None
    finally:
        policy.noise_scheduler, policy.num_inference_steps = own


def interval(successes: int, episodes: int) -> tuple[float, float]:
    """Wilson's 95% interval of a share."""
    z, share = 1.96, successes / episodes
    middle = share + z**2 / (2 * episodes)
    spread = z * math.sqrt(share * (1 - share) / episodes + z**2 / (4 * episodes**2))
    return (middle - spread) / (1 + z**2 / episodes), (middle + spread) / (1 + z**2 / episodes)


def paired(first: Sequence[int], second: Sequence[int]) -> dict[str, float]:
    """Successes of two methods from the same starts: their difference, and McNemar's exact test that there is none.

    Only starts where one succeeds and the other fails tell; if the methods are alike, a fair coin says which.
    """
    better = sum(a > b for a, b in zip(first, second, strict=True))
    worse = sum(a < b for a, b in zip(first, second, strict=True))
    differ, n = better + worse, len(first)
    tail = sum(math.comb(differ, k) for k in range(min(better, worse) + 1)) / 2**differ
    # Agresti and Min's interval: half a pair more of each kind, or pairs that all agree would leave no doubt.
    middle = (better - worse) / (n + 2)
    spread = 1.96 * math.sqrt(differ + 1 - (better - worse) ** 2 / (n + 2)) / (n + 2)
    return {
        "only_first": better,
        "only_second": worse,
        "difference": (better - worse) / n,
        "low": middle - spread,
        "high": middle + spread,
        "p": min(1.0, 2 * tail),
    }


def rolled_out(policy: Policy, worlds: Sequence[World], seeds: Sequence[int], device: torch.device, name: str) -> dict:
    """Episodes from these seeds, one in each world at a time."""
    milliseconds, rounds, successes, steps, left = [], [], [], [], []
    with method(policy, name) as fast:
        for begin in range(0, len(seeds), len(worlds)):
            episodes = [Episode(world, seed) for world, seed in zip(worlds, seeds[begin:], strict=False)]
            frames = [[episode.seen] * HISTORY for episode in episodes]
            while not all(episode.over for episode in episodes):
                shown = torch.tensor(np.array([shots[-HISTORY:] for shots in frames]), device=device)
                began = time.perf_counter()
                actions = policy.predict_action(shown).cpu().numpy()  # of those that are over too: one size of call
                milliseconds.append(1e3 * (time.perf_counter() - began))
                if fast is not None:
                    each = zip(fast.report.sample_rounds, episodes, strict=True)
                    rounds += [taken for taken, episode in each if not episode.over]
                for episode, shots, chunk in zip(episodes, frames, actions, strict=True):
                    for action in chunk:
                        episode.act(action)
                        shots.append(episode.seen)
            successes += [episode.success for episode in episodes]
            steps += [episode.taken for episode in episodes]
            left += [bool(shots[: HISTORY + DETOUR][-1][0] < shots[0][0]) for shots in frames]
    p50, p99 = np.percentile(milliseconds[1:] or milliseconds, [50, 99])  # the first call may capture
    return {
        "method": name,
        "episodes": len(successes),
        "successes": sum(successes),
        "interval": interval(sum(successes), len(successes)),
        "left": sum(left),  # of the two ways that were shown
        "steps": float(np.mean(steps)),
        "rounds": float(np.mean(rounds)) if rounds else float(name.removeprefix("ddim") if "ddim" in name else STEPS),
        "p50_ms": float(p50),
        "p99_ms": float(p99),
        "by_seed": [int(success) for success in successes],
    }


def judged(options: argparse.Namespace) -> Iterator[dict]:
    """Every method, in this order."""
    works = [(options, name) for name in options.methods]
    if options.workers == 1:
        yield from map(_judged, works)
        return
    with get_context("spawn").Pool(options.workers) as pool:
        yield from pool.imap(_judged, works, chunksize=1)


def _judged(work: tuple[argparse.Namespace, str]) -> dict:
    options, name = work
    sys.path.append(str(options.packages))
    torch.manual_seed(0)
    device = torch.device(options.device)
    worlds = [World(options.task) for _ in range(min(options.together, options.episodes))]
    return rolled_out(Policy.load(options.policy, device), worlds, range(options.episodes), device, name)


def line(found: dict) -> str:
    """A method's results, for a terminal."""
    low, high = found["interval"]
    n = found["episodes"]
    return (
        f"{found['method']:10s} success {found['successes'] / n:.1%} ({low:.1%} to {high:.1%}), "
        f"{found['left'] / n:.0%} by the left, {found['rounds']:.1f} rounds per chunk, "
        f"{found['p50_ms']:.1f} ms p50, {found['p99_ms']:.1f} ms p99"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policy", type=Path, default=Path("out/push.safetensors"))
    parser.add_argument("--packages", type=Path, default=Path("carry/metaworld"))
    parser.add_argument("--task", default="push-v3")
    parser.add_argument("--episodes", type=int, default=200)
    parser.add_argument("--together", type=int, default=50, help="environments that share calls")
    parser.add_argument("--methods", nargs="+", default=METHODS)
    parser.add_argument("--workers", type=int, default=1, help="methods judged side by side, each in its own process")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--out", type=Path, default=Path("out/push.json"))
    options = parser.parse_args()
    device = torch.device(options.device)
    data: dict[str, Any] = {
        "task": options.task,
        "parameters": sum(weight.numel() for weight in Policy.load(options.policy, device).unet.parameters()),
        "device": torch.cuda.get_device_name() if device.type == "cuda" else platform.machine(),
        "together": min(options.together, options.episodes),
        "methods": [],
    }
    for row in judged(options):
        data["methods"].append(row)
        print(line(row), flush=True)
        found = {row["method"]: row["by_seed"] for row in data["methods"]}
        if "sequential" in found:
            others = {other: seeds for other, seeds in found.items() if other != "sequential"}
            data["against_sequential"] = {other: paired(seeds, found["sequential"]) for other, seeds in others.items()}
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(data, indent=1))  # after each one: the next may be cut short
    for other, test in data.get("against_sequential", {}).items():
        print(
            f"{other} minus sequential: {test['difference']:+.1%} ({test['low']:+.1%} to {test['high']:+.1%}), "
            f"McNemar p = {test['p']:.2f}"
        )


if __name__ == "__main__":
    main()
