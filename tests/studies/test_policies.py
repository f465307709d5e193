"""The study of policies runs on a CPU with a tiny network, and its page says what its data say."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from studies import policies
from studies.__main__ import main
from studies.study import DOCS

pytest.importorskip("diffusers")
RUN = ["policies", "--device", "cpu", "--sizes", "tiny", "--seconds", "0", "--no-page"]


STEPS = 20


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the data of a short run."""
    folder = tmp_path_factory.mktemp("policies")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "compile", lambda function: function)
        patch.setattr(policies, "FEWEST", 1)
        patch.setattr(policies, "STEPS", STEPS)
        patch.setattr(policies, "DOCS", folder)  # so that only what is measured here is in the data
        main([*RUN, "--out", str(folder), "--weights", str(folder), "--observations", "1"])
        yield folder


def test_every_method_is_measured_and_kept(measured: Path) -> None:
    path = measured / "data" / "policies.json"
    before = json.loads(path.read_text())["rows"]
    assert [row["method"] for row in before.values()] == list(policies.METHODS)
    for row in before.values():
        assert row["calls"] == 1 and 0 < row["p50"] <= row["p99"] and not row["trained"]
        assert row["rounds"] == STEPS if "drawahead" not in row["method"] else 1 < row["rounds"] < STEPS
    main([*RUN, "--out", str(measured), "--observations", "2", "--methods", "eager"])
    after = json.loads(path.read_text())["rows"]
    assert {name: after[name] for name in before} == before and len(after) == len(before) + 1
    main([*RUN, "--out", str(measured), "--observations", "3", "--limit", "0"])
    assert len(json.loads(path.read_text())["rows"]) == len(after)


def test_weights_are_those_of_the_file(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    policy, told, trained = policies.loaded("tiny", tmp_path, torch.device("cpu"), torch.float32)
    assert not trained
    with torch.no_grad():
        weights = {f"unet.{name}": weight.half() + 1 for name, weight in policy.unet.state_dict().items()}
    save_file({**weights, "told": told[:3]}, tmp_path / "push-tiny.safetensors")
    again, few, trained = policies.loaded("tiny", tmp_path, torch.device("cpu"), torch.float32)
    assert trained and torch.equal(few, told[:3])
    assert torch.equal(again.unet.state_dict()["last.1.bias"].half(), weights["unet.last.1.bias"])


def test_a_page_says_what_was_measured(measured: Path) -> None:
    data = json.loads((measured / "data" / "policies.json").read_text())
    episodes = {"episodes": 200, "successes": 180, "interval": [0.85, 0.94], "left": 99, "rounds": 12.0}
    test = {"difference": -0.005, "low": -0.03, "high": 0.02, "p": 0.83}
    rollouts = {
        "parameters": 16_464_388,
        "methods": [episodes | {"method": "drawahead"}],
        "against_sequential": {"drawahead": test},
    }
    page = (DOCS / "policies.md").read_text()
    both = policies.STUDY.render([data, rollouts], page)
    assert "| drawahead | 90.0% (85.0% to 94.0%) | 50% | 12.0 |" in both and "-0.5 points" in both
    assert "| drawahead, compiled | 0M | 1 | float32 |" in both and "for seconds only: tiny with 1" in both
    alone = policies.STUDY.render([data, None], page)
    assert "Milliseconds per call" in alone and "McNemar" not in alone
    assert "Milliseconds per call" not in policies.STUDY.render([None, None], both)
