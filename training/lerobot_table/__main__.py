"""Train LeRobot's diffusion policy on the demonstrations of `tasks.py`, by its own loss.

PYTHONPATH=training:carry/metaworld python -m lerobot_table --data carry/training/push.npz --out out/lerobot

What is written is a folder for `lerobot-eval --policy.path=`. LeRobot's own train command does the same from a dataset
on disk; here all demonstrations fit into memory, which saves most of the time.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from time import perf_counter

import numpy as np
import torch
from common import Average, Course, optimizer, step
from lerobot.configs.types import FeatureType, NormalizationMode, PolicyFeature
from lerobot.policies.diffusion.configuration_diffusion import DiffusionConfig
from lerobot.policies.diffusion.modeling_diffusion import DiffusionPolicy
from lerobot.policies.factory import make_pre_post_processors
from policy import HISTORY, HORIZON, TAKEN, windows

from lerobot_table import HAND

NAMES = ("observation.state", "observation.environment_state", "action")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("carry/training/push.npz"))
    parser.add_argument("--out", type=Path, default=Path("out/lerobot"))
    parser.add_argument("--widths", type=int, nargs="+", default=[32, 64, 128])
    parser.add_argument("--steps", type=int, default=60_000)
    parser.add_argument("--seconds", type=float, default=400, help="stop by then whatever the steps")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    torch.manual_seed(0)
    with np.load(options.data) as held:
        seen, done = torch.tensor(held["seen"]), torch.tensor(held["done"])
        rows = windows(held["lengths"].tolist()).to(options.device)
    tables = dict(zip(NAMES, (seen[:, :HAND], seen[:, HAND:], done), strict=True))
    kinds = dict(zip(NAMES, (FeatureType.STATE, FeatureType.ENV, FeatureType.ACTION), strict=True))
    features = {name: PolicyFeature(kinds[name], (table.shape[1],)) for name, table in tables.items()}
    config = DiffusionConfig(
        input_features={name: features[name] for name in NAMES[:2]},
        output_features={"action": features["action"]},
        normalization_mapping={kind.name: NormalizationMode.MIN_MAX for kind in kinds.values()},
        horizon=HORIZON,
        n_obs_steps=HISTORY,
        n_action_steps=TAKEN,
        down_dims=tuple(options.widths),
        device=options.device,
        push_to_hub=False,
    )
    policy = DiffusionPolicy(config).to(options.device)
    stats = {name: {"min": table.amin(0), "max": table.amax(0)} for name, table in tables.items()}
    before, after = make_pre_post_processors(config, dataset_stats=stats)
    tables = {name: before(tables)[name].to(options.device) for name in NAMES}
    chosen, course = optimizer(policy, options.rate, 1e-6), Course(options.steps, options.seconds)
    average = Average(policy, 0.999)
    running, shown = 1.0, course.began
    while course.progress < 1:
        some = torch.randint(len(rows), (options.batch,), device=rows.device)
        batch = {name: tables[name][rows[some, :HISTORY]] for name in NAMES[:2]}
        batch |= {
            "action": tables["action"][rows[some]],
            "action_is_pad": torch.zeros_like(rows[some], dtype=torch.bool),
        }
        loss, _ = policy(batch)
        step(loss, policy, chosen, options.rate * course.rate)
        average.update(policy)
        course.step += 1
        if course.step % 50 == 0:
            running += 0.2 * (loss.item() - running)
        if perf_counter() - shown > 20:
            shown = perf_counter()
            print(f"{shown - course.began:.0f} s, step {course.step}: loss {running:.4f}", flush=True)
    policy.load_state_dict(average.model.state_dict())
    for part in (policy.eval(), before, after):
        part.save_pretrained(options.out)
    number = sum(weight.numel() for weight in policy.parameters()) / 1e6
    print(
        f"{course.step} steps in {perf_counter() - course.began:.0f} s; {number:.1f} million parameters: {options.out}"
    )


if __name__ == "__main__":
    main()
