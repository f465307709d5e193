"""The paths of CONTRIBUTING.md lead where they say: its code is run, and its registries are all that is needed."""

from __future__ import annotations

import importlib
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from types import ModuleType

import pytest
import torch
from torch import Tensor, nn

import drawahead as da
from drawahead import adapters
from drawahead.cli import lookup
from drawahead.cli.app import run
from drawahead.targets import TARGETS, NamedTarget
from tests.exactness import joint_law, law_p_value

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "CONTRIBUTING.md").read_text()


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    """The file that CONTRIBUTING.md tells to write, as a module of the package."""

    def module_of(path: str) -> ModuleType:
        (code,) = re.findall(rf"(?s)```python\n   # src/{path}\n(.*?)\n   ```", TEXT)
        module = ModuleType(path.removesuffix(".py").replace("/", "."))
        monkeypatch.setitem(sys.modules, module.__name__, module)
        exec(dedent(code), vars(module))
        return module

    return module_of


def test_a_target(
    written: Callable[[str], ModuleType],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    check: Callable[[float], None],
) -> None:
    yours = written("drawahead/targets/yours.py").Yours
    (call,) = re.findall(r"`(NamedTarget\(.*?\))`", TEXT)
    monkeypatch.setitem(TARGETS, "yours", eval(call, {"NamedTarget": NamedTarget, "Yours": yours}))
    assert run(["sample", "yours", "--num", "3", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["samples"]) == 3
    assert run(["compare", "yours", "--size", "5", "--num", "20", "--json"]) == 0
    assert '"coupled"' in capsys.readouterr().out
    assert run(["targets", "--json"]) == 0 and '"yours"' in capsys.readouterr().out
    check(law_p_value(yours(4), joint_law(yours(4)), da.Coupled(), 4000))
    with pytest.raises(da.InputError, match="n must be"):
        yours(0)


class Net(nn.Module):
    """Answers that depend on all tokens, and, unless the adapter takes care, on dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.head, self.drop = nn.Embedding(5, 8), nn.Linear(8, 5), nn.Dropout(0.5)

    def forward(self, tokens: Tensor) -> Tensor:
        seen = self.drop(self.words(tokens))
        answer: Tensor = 3 * self.head((seen + seen.mean(1, keepdim=True)).tanh())
        return answer


def test_an_adapter(
    written: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    written("drawahead/language/yours.py")
    monkeypatch.setitem(vars(adapters)["_homes"], "Yours", "drawahead.language.yours")
    model = lookup.ListedModel("Yours", "adapter", "an example", "da.adapters.Yours", "torch", "yours", "yours")
    monkeypatch.setattr(lookup, "ADAPTERS", (*lookup.ADAPTERS, model))
    assert run(["models", "--json"]) == 0 and '"da.adapters.Yours"' in capsys.readouterr().out
    make = getattr(adapters, "Yours")  # noqa: B009
    torch.manual_seed(0)
    network = Net()
    assert da.verify(make(network, mask=4).chain(6), 60).passed
    chain = make(network, mask=4).chain(6)
    network.train()
    assert not da.verify(chain, 60).passed


def test_every_adapter_is_in_every_list() -> None:
    assert {model.name for model in lookup.ADAPTERS} == set(adapters.__all__)


def test_the_registries_that_are_named_are_there() -> None:
    package = ROOT / "src" / "drawahead"
    found = re.findall(r"`([A-Z_]{4,})`\s+(?:in|of)\s+`([\w/]+\.py)`", TEXT)
    assert {name for name, _ in found} >= {"SAMPLERS", "TARGETS", "SMALL", "MADE", "ADAPTERS"}
    for name, home in found:
        path = ROOT / home if (ROOT / home).exists() else package / home
        assert re.search(rf"(?m)^{name}\b", path.read_text()), (name, home)
    assert hasattr(importlib.import_module("tests.instances"), "INCONSISTENT")
    assert re.search(r"(?m)^class Entry\b", (ROOT / "studies" / "gallery.py").read_text())
