"""Meta-World's tasks as LeRobot takes environments, with the observations of `tasks.py` instead of pictures.

    lerobot-eval --env.discover_packages_path=lerobot_table --env.type=table --env.task=push-v3 ...

The folders `training/` and `carry/metaworld` (see `packages.py`) have to be on Python's path.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import gymnasium
import numpy as np
from lerobot.configs.types import FeatureType, PolicyFeature
from lerobot.envs.configs import EnvConfig
from tasks import LIMIT, Episode, World

HAND = 4  # entries of an observation that tell of the hand; the others are of the object and the goal


class Table(gymnasium.Env[Any, Any]):
    """An episode ends with success, or after LIMIT steps. Nothing is rendered: a video of it is black."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 12}  # noqa: RUF012 (as gymnasium has it)
    render_mode = "rgb_array"
    observation_space = gymnasium.spaces.Dict(
        {
            "agent_pos": gymnasium.spaces.Box(-np.inf, np.inf, (HAND,), np.float32),
            "environment_state": gymnasium.spaces.Box(-np.inf, np.inf, (6,), np.float32),
        }
    )
    action_space = gymnasium.spaces.Box(-1, 1, (4,), np.float32)

    def __init__(self, task: str) -> None:
        self.task = self.task_description = task
        self._max_episode_steps = LIMIT
        self._world = World(task)
        self._episode = Episode(self._world, 0)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._episode = Episode(self._world, int(self.np_random.integers(2**31)) if seed is None else seed)
        return self._seen, {"is_success": False}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._episode.act(np.asarray(action, np.float32))
        success = self._episode.success
        return self._seen, float(success), success, self._episode.over and not success, {"is_success": success}

    def render(self) -> Any:
        return np.zeros((64, 64, 3), np.uint8)

    @property
    def _seen(self) -> dict[str, Any]:
        seen = self._episode.seen
        return {"agent_pos": seen[:HAND], "environment_state": seen[HAND:]}


gymnasium.register("lerobot_table/table", Table)


@EnvConfig.register_subclass("table")
@dataclass
class TableConfig(EnvConfig):
    """Its options."""

    task: str | None = "push-v3"
    fps: int = 12
    episode_length: int = LIMIT
    features: dict[str, PolicyFeature] = field(
        default_factory=lambda: {
            "action": PolicyFeature(FeatureType.ACTION, (4,)),
            "agent_pos": PolicyFeature(FeatureType.STATE, (HAND,)),
            "environment_state": PolicyFeature(FeatureType.ENV, (6,)),
        }
    )
    features_map: dict[str, str] = field(
        default_factory=lambda: {
            "action": "action",
            "agent_pos": "observation.state",
            "environment_state": "observation.environment_state",
        }
    )

    @property
    def gym_id(self) -> str:
        return "lerobot_table/table"

    @property
    def gym_kwargs(self) -> dict[str, Any]:
        return {"task": self.task}
