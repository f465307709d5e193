"""LeRobot's plugin, on stand-ins with the modules and calls of LeRobot that it uses.

LeRobot pins another torch, so the real one is tried by hand: docs/doors.md says how, and what came of it.
"""

from __future__ import annotations

import importlib
import logging
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from tests.adapters.tiny_policies import HISTORY, OBSERVED, STEPS, LeRobotPolicy

SOURCE = Path(__file__).parents[2] / "plugins" / "lerobot" / "src"
SEEN = {"observation.state": torch.ones(2, OBSERVED, dtype=torch.float64)}


@dataclass
class DiffusionConfig:
    noise_scheduler_type: str = "DDPM"


class PreTrainedConfig:
    choices: dict[str, type] = {}  # noqa: RUF012

    @classmethod
    def register_subclass(cls, name: str) -> Callable[[type], type]:
        return lambda kind: cls.choices.setdefault(name, kind)


def lerobot() -> dict[str, ModuleType]:
    """Its modules, with a policy class of their own for each test."""

    class DiffusionPolicy(LeRobotPolicy):
        config_class, name = DiffusionConfig, "diffusion"

        def __init__(self, config: DiffusionConfig) -> None:
            self.config = config
            super().__init__()

    PreTrainedConfig.choices = {"diffusion": DiffusionConfig}
    contents = {
        "configs.policies": {"PreTrainedConfig": PreTrainedConfig},
        "policies.diffusion.configuration_diffusion": {"DiffusionConfig": DiffusionConfig},
        "policies.diffusion.modeling_diffusion": {"DiffusionPolicy": DiffusionPolicy},
        "policies.diffusion.processor_diffusion": {
            "make_diffusion_pre_post_processors": lambda config, **_: ("in", "out")
        },
    }
    modules: dict[str, ModuleType] = {}
    for name, entries in contents.items():
        parts = f"lerobot.{name}".split(".")
        for depth in range(1, len(parts) + 1):
            modules.setdefault(".".join(parts[:depth]), ModuleType(".".join(parts[:depth])))
        vars(modules[f"lerobot.{name}"]).update(entries)
    return modules


Plugin = Callable[..., Any]


@pytest.fixture
def plugin(monkeypatch: pytest.MonkeyPatch) -> Iterator[Plugin]:
    def imported(version: str = "0.4.4", switch: str = "") -> Any:
        for name, module in lerobot().items():
            monkeypatch.setitem(sys.modules, name, module)
        monkeypatch.setattr("importlib.metadata.version", lambda name: version)
        monkeypatch.setenv("DRAWAHEAD_LEROBOT", switch)
        monkeypatch.syspath_prepend(str(SOURCE))
        return importlib.import_module("lerobot_policy_drawahead")

    yield imported
    for name in [name for name in sys.modules if name.startswith("lerobot_policy_drawahead")]:
        del sys.modules[name]


def test_its_policy_is_found_and_drawn_in_rounds(plugin: Plugin, caplog: pytest.LogCaptureFixture) -> None:
    here = plugin()
    config = PreTrainedConfig.choices["diffusion_drawahead"]
    # LeRobot finds policy and processors by the name of the config's module.
    modelling = sys.modules[config.__module__.replace("configuration_", "modeling_")]
    processing = sys.modules[config.__module__.replace("configuration_", "processor_")]
    policy = modelling.DiffusionDrawaheadPolicy(config(sampler="coupled")).eval()
    assert isinstance(policy, here.DiffusionDrawaheadPolicy)
    assert processing.make_diffusion_drawahead_pre_post_processors(policy.config) == ("in", "out")
    for _ in range(STEPS):  # enough for a second chunk: the first one, which builds the chain, is not counted
        assert policy.select_action(SEEN).shape == (2, 2)
    report = policy.drawahead.report
    assert report.exact and report.rounds < STEPS
    with caplog.at_level(logging.INFO):
        policy.reset()
    assert "drawahead: p50" in caplog.text


@pytest.mark.parametrize("switch", ["", "0", "1"])
def test_policies_of_lerobot_itself_only_where_it_is_switched_on(switch: str, plugin: Plugin) -> None:
    plugin(switch=switch)
    policy = sys.modules["lerobot.policies.diffusion.modeling_diffusion"].DiffusionPolicy(DiffusionConfig()).eval()
    assert policy.select_action(SEEN).shape == (2, 2)
    assert ("drawahead" in vars(policy)) == (switch == "1")
    policy.reset()


def test_where_nothing_is_gained_its_own_loop_goes_on(
    plugin: Plugin, caplog: pytest.LogCaptureFixture, clock: None
) -> None:
    """A network that is as slow as it has rows: its first chunk costs a tenth more, and all others what they did."""
    policy = plugin().DiffusionDrawaheadPolicy(PreTrainedConfig.choices["diffusion_drawahead"]()).eval()
    rows, told = list[int](), torch.ones(1, OBSERVED * HISTORY, dtype=torch.float64)

    def slowly(module: Any, arguments: tuple[Any, ...], answer: Any) -> None:
        rows.append(len(answer))
        time.sleep(0.01 * len(answer))

    policy.diffusion.unet.register_forward_hook(slowly)
    with caplog.at_level(logging.INFO):
        policy.diffusion.conditional_sample(1, global_cond=told)
    assert "nothing is gained here, and LeRobot's own loop goes on: " in caplog.text
    assert sum(rows) <= 1.1 * STEPS + 1
    rows.clear()
    policy.diffusion.conditional_sample(1, global_cond=told)
    assert rows == [1] * STEPS and "conditional_sample" not in vars(policy.diffusion)
    policy.reset()


def test_a_scheduler_without_noise_is_left_alone(plugin: Plugin, caplog: pytest.LogCaptureFixture) -> None:
    policy = plugin().DiffusionDrawaheadPolicy(PreTrainedConfig.choices["diffusion_drawahead"]("DDIM")).eval()
    assert "nothing is gained" in caplog.text and "drawahead" not in vars(policy)
    policy.select_action(SEEN)


@pytest.mark.parametrize("version", ["0.3.9", "0.7.0", "0.40.1"])
def test_versions_that_are_not_known_are_named(version: str, plugin: Plugin) -> None:
    with pytest.raises(ImportError, match=rf"knows LeRobot 0\.4, 0\.5, 0\.6, not {version}"):
        plugin(version)
