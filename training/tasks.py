"""Tasks for a robot policy, from Meta-World with its scripted experts: demonstrations, and episodes to be judged by.

python training/tasks.py --packages carry/metaworld --out carry/push.npz

Packages, in a folder that git ignores (the experts need no GPU, and nothing is drawn on a screen):

pip install --no-deps --target carry/metaworld metaworld==3.1.1 mujoco==3.3.0 gymnasium scipy imageio packaging \
    farama-notifications cloudpickle etils absl-py glfw pyopengl

The expert of a task is one function of what it sees. So that actions have more than one mode, each demonstration begins
by moving the hand to the left or to the right, as a coin says.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float32]
LIMIT = 200  # steps of an episode
_DETOUR, _REACH = 12, 0.1  # steps that the hand goes aside, and how far (metres)


@dataclass
class Episode:
    """One start of a task: the object, the goal and the hand, all decided by the seed."""

    task: str
    seed: int

    def __post_init__(self) -> None:
        from metaworld.env_dict import ALL_V3_ENVIRONMENTS_GOAL_OBSERVABLE

        self._env: Any = ALL_V3_ENVIRONMENTS_GOAL_OBSERVABLE[f"{self.task}-goal-observable"](seed=self.seed)
        self._env._freeze_rand_vec, self._env.seeded_rand_vec = False, True  # else numpy's global state decides
        self._env.seed(self.seed)
        self.seen: Array = self._env.reset()[0].astype(np.float32)
        self.taken, self.success = 0, False

    @property
    def over(self) -> bool:
        return self.success or self.taken >= LIMIT

    def act(self, action: Array) -> None:
        """Take one step; after the end nothing happens."""
        if self.over:
            return
        seen, _, _, _, info = self._env.step(np.clip(action, -1, 1))
        self.seen, self.taken = seen.astype(np.float32), self.taken + 1
        self.success = bool(info["success"])


def demonstration(task: str, seed: int, noise: float = 0.1) -> tuple[Array, Array] | None:
    """What the expert saw and did (steps, entries); None where it did not succeed."""
    from metaworld.policies import ENV_POLICY_MAP

    random, episode, expert = np.random.default_rng(seed), Episode(task, seed), ENV_POLICY_MAP[task]()
    aside = episode.seen[:3] + np.array([_REACH * random.choice([-1, 1]), 0, 0.02])
    seen, done = [], []
    while not episode.over:
        wanted = expert.get_action(episode.seen.astype(np.float64))
        if episode.taken < _DETOUR:
            wanted = np.append(10 * (aside - episode.seen[:3]), -1.0)
        seen.append(episode.seen)
        done.append(np.clip(wanted, -1, 1).astype(np.float32))
        # The hand is pushed about, so that demonstrations also show how to come back.
        episode.act(done[-1] + noise * random.standard_normal(len(wanted)).astype(np.float32))
    return (np.stack(seen), np.stack(done)) if episode.success else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--packages", type=Path, default=Path("carry/metaworld"))
    parser.add_argument("--task", default="push-v3")
    parser.add_argument("--episodes", type=int, default=400)
    parser.add_argument(
        "--first-seed", type=int, default=100_000, help="far from the seeds that policies are judged by"
    )
    parser.add_argument("--out", type=Path, default=Path("carry/push.npz"))
    options = parser.parse_args()
    sys.path.append(str(options.packages))
    shown = [demonstration(options.task, options.first_seed + i) for i in range(options.episodes)]
    kept = [pair for pair in shown if pair is not None]
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
