"""Tasks for a robot policy, from Meta-World with its scripted experts: demonstrations, and episodes to be judged by.

python training/packages.py --out carry/metaworld
python training/tasks.py --packages carry/metaworld --out carry/training/push.npz

The expert of a task is one function of what it sees. So that actions have more than one mode, each demonstration begins
by moving the hand to the left or to the right, as a coin says.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float32]
LIMIT = 200  # steps of an episode
DETOUR, _REACH = 12, 0.1  # steps that the hand goes aside, and how far (metres)
_SHOWN = [*range(7), 36, 37, 38]  # hand, gripper, object, goal: all else is repeated, unused, or rounding


class World:
    """A simulated table, arm and object. Building one takes longer than resetting it, so keep it."""

    def __init__(self, task: str) -> None:
        os.environ.setdefault("MUJOCO_GL", "disabled")
        for name in ("glfw", "imageio"):  # imported by what renders; nothing is rendered here
            sys.modules.setdefault(name, ModuleType(name))
        from metaworld.env_dict import ALL_V3_ENVIRONMENTS_GOAL_OBSERVABLE

        self.env: Any = ALL_V3_ENVIRONMENTS_GOAL_OBSERVABLE[f"{task}-goal-observable"](seed=0)
        self.env._freeze_rand_vec, self.env.seeded_rand_vec = False, True  # else numpy's global state decides


class Episode:
    """One start of a task: the object, the goal and the hand, all decided by the seed."""

    def __init__(self, world: World, seed: int) -> None:
        self._env = world.env
        self._env.seed(seed)
        self.full: npt.NDArray[np.float64] = self._env.reset()[0]
        self.taken, self.success = 0, False

    @property
    def seen(self) -> Array:
        """What a policy is shown."""
        return self.full[_SHOWN].astype(np.float32)

    @property
    def over(self) -> bool:
        return self.success or self.taken >= LIMIT

    def act(self, action: Array) -> None:
        """Take one step; after the end nothing happens."""
        if self.over:
            return
        self.full, _, _, _, info = self._env.step(np.clip(action, -1, 1))
        self.taken += 1
        self.success = bool(info["success"])


def demonstration(world: World, expert: Any, seed: int, noise: float = 0.1) -> tuple[Array, Array] | None:
    """What the expert saw and did (steps, entries); None where it did not succeed."""
    random, episode = np.random.default_rng(seed), Episode(world, seed)
    aside = episode.full[:3] + np.array([_REACH * random.choice([-1, 1]), 0, 0.02])
    seen, done = [], []
    while not episode.over:
        wanted = expert.get_action(episode.full)
        if episode.taken < DETOUR:
            wanted = np.append(10 * (aside - episode.full[:3]), -1.0)
        seen.append(episode.seen)
        done.append(np.clip(wanted, -1, 1).astype(np.float32))
        # The hand is pushed about, so that demonstrations also show how to come back.
        episode.act(done[-1] + noise * random.standard_normal(len(wanted)).astype(np.float32))
    return (np.stack(seen), np.stack(done)) if episode.success else None


def collected(task: str, seeds: Sequence[int]) -> list[tuple[Array, Array]]:
    """The demonstrations of these seeds that succeeded."""
    world = World(task)
    from metaworld.policies import ENV_POLICY_MAP  # after the world, which puts stand-ins for what renders

    expert = ENV_POLICY_MAP[task]()
    shown = (demonstration(world, expert, seed) for seed in seeds)
    return [pair for pair in shown if pair is not None]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--packages", type=Path, default=Path("carry/metaworld"))
    parser.add_argument("--task", default="push-v3")
    parser.add_argument("--episodes", type=int, default=1000)
    parser.add_argument(
        "--first-seed", type=int, default=100_000, help="far from the seeds that policies are judged by"
    )
    parser.add_argument("--out", type=Path, default=Path("carry/training/push.npz"))
    options = parser.parse_args()
    sys.path.append(str(options.packages))
    kept = collected(options.task, range(options.first_seed, options.first_seed + options.episodes))
    if not kept:
        raise SystemExit(f"the expert of {options.task} succeeded in none of {options.episodes} episodes")
    lengths = np.array([len(seen) for seen, _ in kept])
    seen, done = (np.concatenate([pair[i] for pair in kept]) for i in (0, 1))
    options.out.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(options.out, seen=seen, done=done, lengths=lengths, task=options.task)
    size = options.out.stat().st_size / 1e6
    print(f"{len(kept)} of {options.episodes} episodes, {lengths.sum()} steps, {size:.1f} MB: {options.out}")


if __name__ == "__main__":
    main()
