"""Judge a policy by whole episodes: drawahead, its own hundred steps, and few steps of DDIM, from the same starts.

python training/rollouts.py --policy out/push.pt --packages carry/metaworld --episodes 200 --out out/push.json

Environments run on the CPU, in lockstep, and their observations share the policy's calls.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from diffusers import DDIMScheduler
from policy import HISTORY, STEPS, Policy
from tasks import Episode

import drawahead as da


@contextmanager
def method(policy: Policy, name: str) -> Iterator[Any]:
    """The policy, drawing as the name says. -> what is known of its calls, if it is drawahead's."""
    own = policy.noise_scheduler, policy.num_inference_steps
    try:
        if name == "drawahead":
            with da.adapters.accelerate(policy, sampler=da.Coupled(window=STEPS - 1)) as fast:
                yield fast
        elif name == "sequential":
            yield None
        else:
            policy.noise_scheduler = DDIMScheduler.from_config(own[0].config)
            policy.num_inference_steps = int(name.removeprefix("ddim"))
            yield None
    finally:
        policy.noise_scheduler, policy.num_inference_steps = own


def interval(successes: int, episodes: int) -> tuple[float, float]:
    """Wilson's 95% interval of a share."""
    z, share = 1.96, successes / episodes
    middle, spread = (
        share + z**2 / (2 * episodes),
        z * math.sqrt(share * (1 - share) / episodes + z**2 / (4 * episodes**2)),
    )
    return (middle - spread) / (1 + z**2 / episodes), (middle + spread) / (1 + z**2 / episodes)


def rolled_out(policy: Policy, task: str, seeds: list[int], together: int, device: torch.device, name: str) -> dict:
    """Episodes from these seeds, so many at a time."""
    milliseconds, rounds, successes = [], [], []
    with method(policy, name) as fast:
        steps = policy.num_inference_steps
        for begin in range(0, len(seeds), together):
            episodes = [Episode(task, seed) for seed in seeds[begin : begin + together]]
            history = [[episode.seen] * HISTORY for episode in episodes]
            while not all(episode.over for episode in episodes):
                shown = torch.tensor(np.array([frames[-HISTORY:] for frames in history]), device=device)
                began = time.perf_counter()
                actions = policy.predict_action(shown).cpu().numpy()
                milliseconds.append(1e3 * (time.perf_counter() - began))
                if fast is not None and fast.report is not None:
                    rounds += fast.report.sample_rounds
                for episode, frames, chunk in zip(episodes, history, actions, strict=True):
                    for action in chunk:
                        episode.act(action)
                        frames.append(episode.seen)
            successes += [episode.success for episode in episodes]
    p50, p99 = np.percentile(milliseconds[1:] or milliseconds, [50, 99])
    return {
        "method": name,
        "episodes": len(successes),
        "successes": sum(successes),
        "interval": interval(sum(successes), len(successes)),
        "rounds": float(np.mean(rounds)) if rounds else float(steps),
        "p50_ms": float(p50),
        "p99_ms": float(p99),
        "by_seed": [int(success) for success in successes],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--policy", type=Path, default=Path("out/push.pt"))
    parser.add_argument("--packages", type=Path, default=Path("carry/metaworld"))
    parser.add_argument("--task", default="push-v3")
    parser.add_argument("--episodes", type=int, default=200)
    parser.add_argument("--together", type=int, default=50, help="environments that share calls")
    parser.add_argument("--methods", nargs="+", default=["drawahead", "sequential", "ddim16", "ddim10", "ddim8"])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--out", type=Path, default=Path("out/push.json"))
    options = parser.parse_args()
    sys.path.append(str(options.packages))
    device = torch.device(options.device)
    policy, results = Policy.load(options.policy, device), []
    for name in options.methods:
        torch.manual_seed(0)
        found = rolled_out(policy, options.task, list(range(options.episodes)), options.together, device, name)
        results.append(found)
        low, high = found["interval"]
        share = found["successes"] / found["episodes"]
        print(
            f"{name:10s} success {share:.1%} ({low:.1%} to {high:.1%}), {found['rounds']:.1f} rounds per chunk, "
            f"{found['p50_ms']:.1f} ms p50, {found['p99_ms']:.1f} ms p99 per call",
            flush=True,
        )
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(results, indent=1))  # after each one: the next may be cut short


if __name__ == "__main__":
    main()
