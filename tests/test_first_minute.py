"""What a new user types first: help at once, names however they are spelt, one line when something is wrong."""

from __future__ import annotations

import ast
import copy
import importlib
import json
import pickle
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

import drawahead as da
from drawahead import words
from drawahead.cli import lookup
from drawahead.cli.app import FIRST, run
from drawahead.cli.registry import COMMANDS as PANELS
from drawahead.cli.registry import entries, setup
from drawahead.teaching.commands.compare import OF_NETWORKS, OF_TILINGS
from drawahead.verification.verify import LEVEL

SOURCE = Path(da.__file__).parents[1]
HEAVY = ("torch", "numpy", "transformers", "diffusers", "matplotlib", "pydantic")
COMMANDS = sorted(name for panel in PANELS.values() for name in panel)
KINDS = {entry.name: entry.kind for entry in entries()}


def python(code: str, *words: str) -> subprocess.CompletedProcess[str]:
    """A new interpreter that knows this drawahead and nothing of this process."""
    command = [sys.executable, "-c", code, *words]
    return subprocess.run(command, env={"PYTHONPATH": str(SOURCE)}, capture_output=True, text=True, check=False)


def test_help_and_the_version_do_not_wait_for_torch() -> None:
    asked = [["--version"], ["--help"], [], *([name, "--help"] for name in COMMANDS)]
    code = f"""
import json, sys
from drawahead.cli.app import run
for arguments in json.loads(sys.argv[1]):
    assert run(arguments) == 0
    assert not (loaded := set({HEAVY!r}) & set(sys.modules)), (arguments, loaded)
"""
    done = python(code, json.dumps(asked))
    assert done.returncode == 0, done.stderr
    assert f"drawahead {da.__version__}\n" in done.stdout and FIRST in done.stdout


HOUSES = {"adapters", "ardiffusion", "counting", "diffusers", "jobs", "language", "policies", "proteins", "rtk"}
HOUSES |= {"science", "targets", "teaching", "verification"}


@pytest.mark.parametrize(
    ("words_", "most"),
    [
        (["sample", "text", "--size", "8", "--num", "1"], 60),
        (["sample", "emoji", "--prompt", "cat", "--steps", "2", "--num", "1", "--out", "a.png"], 78),
    ],
)
def test_a_network_is_sampled_without_the_code_of_other_houses(words_: list[str], most: int, tmp_path: Path) -> None:
    code = """
import os, sys
os.chdir(sys.argv[1])
from drawahead.cli.app import run
assert run(sys.argv[2:]) == 0
print("loaded", *(name for name in sys.modules if name.split(".")[0] == "drawahead"))
"""
    done = python(code, str(tmp_path), *words_)
    assert done.returncode == 0, done.stderr
    loaded = done.stdout.splitlines()[-1].split()[1:]
    assert not {name.split(".")[1] for name in loaded if "." in name} & HOUSES
    assert len(loaded) <= most, loaded


def test_a_name_is_imported_when_it_is_used() -> None:
    code = """
import sys, drawahead as da
assert "torch" not in sys.modules
from drawahead.sample import Result  # its module has the name of a function
from drawahead.rejection import Rejection
assert da.Result is Result and callable(da.sample) and callable(da.rejection)
import drawahead.sample
assert callable(da.sample) and callable(drawahead.sample) and da.laws.Categorical is da.Categorical
from drawahead import *
assert sample is da.sample
import copy, pickle
assert pickle.loads(pickle.dumps(da)) is da is copy.deepcopy(da)
"""
    done = python(code)
    assert done.returncode == 0, done.stderr


def test_type_checkers_and_python_find_the_same_names() -> None:
    tree = ast.parse(Path(da.__file__).read_text())
    (block,) = (node for node in tree.body if isinstance(node, ast.If) and node.body[0].__class__ is ast.ImportFrom)
    seen = {
        alias.asname or alias.name: node.module for node in block.body if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }  # fmt: skip
    assert sorted(seen) == sorted(da.__all__)
    for name, home in seen.items():
        there = getattr(importlib.import_module(str(home)), name, None) or importlib.import_module(f"{home}.{name}")
        assert getattr(da, name) is there, name
    with pytest.raises(AttributeError, match="drawahead has no 'Copled'; did you mean 'Coupled'"):
        _ = da.Copled  # type: ignore[attr-defined]


ROOMS = (
    "",
    "adapters",
    "ardiffusion",
    "counting",
    "design",
    "jobs",
    "networks",
    "rtk",
    "samplers",
    "schedules",
    "show",
    "targets",
    "teaching",
)


@pytest.mark.parametrize("room", [*ROOMS, "targets", "tilings"])
def test_completion_shows_what_is_there_and_nothing_private(room: str) -> None:
    module = getattr(da, room) if room else da
    assert set(dir(module)) - {"__version__"} == set(module.__all__)


def test_drawahead_alone_says_what_to_do_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([]) == 0
    shown = capsys.readouterr().out
    assert shown == FIRST and max(map(len, FIRST.splitlines())) <= 80
    for line in FIRST.splitlines():
        if line.startswith("  drawahead "):
            assert line.split()[1] in COMMANDS


def helps(capsys: pytest.CaptureFixture[str], arguments: Sequence[str]) -> str:
    assert run([*arguments, "--help"]) == 0
    return capsys.readouterr().out


def test_help_has_no_types_and_no_brackets_in_brackets(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in ([], *([name] for name in COMMANDS)):
        shown = helps(capsys, arguments)
        assert not any(word in shown for word in ("<bool>", "<str>", "<int", "<path>", "[default: (", "{"))
    assert "[default: 0]" in helps(capsys, ["sample"]) and f"[default: {LEVEL}]" in helps(capsys, ["verify"])
    assert f"1000, {OF_TILINGS} tilings, {OF_NETWORKS}" in " ".join(helps(capsys, ["compare"]).split())


def test_names_have_no_case(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    shown = []
    for words_ in (["sample", "pairs", "--sampler", "coupled"], ["Sample", "PAIRS", "--Sampler", "Coupled"]):
        assert run([*words_, "--size", "6", "--num", "2", "--quiet"]) == 0
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1] != ""
    assert run(["sample", "Pairs", "--size", "4", "--num", "1", "--out", str(tmp_path / "job")]) == 0
    assert da.jobs.read(tmp_path / "job").config.name == "pairs"
    assert "1 sample in 1 shard in " in capsys.readouterr().out
    assert run(["status", str(tmp_path / "job")]) == 0
    assert "pairs: 1 of 1 sample in 1 shard, complete" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words_", "told"),
    [
        (["sample"], "Which target? `drawahead targets` lists them"),
        (["compare"], "Which target?"),
        (["verify"], "Which model? Give file.py:name"),
        (["time"], "Which model?"),
        (["report"], "Which job? Give its folder"),
        (["sample", "ising", "--num", "0"], "Invalid value for '--num' / '-n': it must be at least 1"),
        (["sample", "ising", "--num", "many"], "it must be a whole number"),
        (["sample", "text", "--temperature", "hot"], "it must be a number"),
        (["sample", "text", "--order", "up"], "'up' is not one of"),
    ],
)
def test_what_is_missing_or_wrong_is_said_plainly(
    words_: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(words_) == 2
    shown = capsys.readouterr().err
    assert told in shown and len(shown.splitlines()) == 1
    assert not any(raw in shown for raw in ("Missing argument", "Input should", "Value error", "unable to parse"))


def test_design_asks_for_structures_before_weights(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["design"]) == 1 and "which structures?" in capsys.readouterr().err


def test_pages_are_not_written_under_other_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = str(tmp_path / "job")
    assert run(["sample", "pairs", "--size", "4", "--num", "2", "--out", job, "--quiet"]) == 0
    assert run(["report", job, "--out", str(tmp_path / "page.pdf")]) == 1
    assert "must end in .html" in capsys.readouterr().err and not (tmp_path / "page.pdf").exists()
    assert run(["report", job, "--out", str(tmp_path / "page.htm"), "--quiet"]) == 0


def test_a_file_without_a_name_in_it_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.py"
    file.write_text("model = 3\n")
    for name, told in (
        (f"{file}", "is a file: name the model in it"),
        (f"{file}:model", "is of type int, not an oracle"),
    ):
        for command in ("verify", "time", "sample"):
            assert run([command, name]) == 1 and told in capsys.readouterr().err


def test_a_folder_without_a_job_is_one_message(capsys: pytest.CaptureFixture[str]) -> None:
    for command in (
        ["report", "nosuch"],
        ["status", "nosuch"],
        ["check", "nosuch"],
        ["export", "nosuch", "--to", "npz"],
    ):
        assert run(command) == 1
        shown = capsys.readouterr().err
        assert shown.count("manifest") == 2 and shown.startswith("drawahead: nosuch holds no job: the manifest nosuch/")


def test_compare_takes_every_name_that_is_listed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert [row["name"] for row in lookup.target_rows()] == list(KINDS)
    seen: list[int] = []

    def rows(chain: da.Chain, num: int, *_: object, **__: object) -> list[object]:
        seen.append(num)
        return []

    monkeypatch.setattr("drawahead.teaching.comparison.rows_of", rows)
    for name in KINDS:
        assert run(["compare", name, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["target"] == name
    usual = {"network": OF_NETWORKS, "tiling": OF_TILINGS}
    assert seen == [usual.get(kind, 1000) for kind in KINDS.values()]


def test_compare_runs_the_sampler_of_tilings_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", "dominoes", "--size", "2", "--num", "10", "--json"]) == 0
    rows_ = {row["sampler"]: row for row in json.loads(capsys.readouterr().out)["rows"]}
    assert rows_["separated"]["exact"] and rows_["separated"]["verdict"] == "agrees"


def test_what_is_reported_counts_setting_up(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sample", "aztec", "--size", "2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert 0 < found["setup_seconds"] < 60
    assert setup(0.01) == "" and "2.500 seconds more, before the first round" in setup(2.5)


@pytest.mark.parametrize("name", ["coupled", "Coupled", "COUPLED"])
def test_samplers_by_name_in_python(name: str) -> None:
    target = da.targets.Pairs(8)
    named, given = (da.sample(target, 3, sampler=sampler, seed=1) for sampler in (name, da.Coupled()))
    assert named.samples.equal(given.samples) and named.report.sampler == given.report.sampler


def test_samplers_by_name_wherever_one_is_taken(tmp_path: Path) -> None:
    target = da.targets.Pairs(8)
    result = da.sample(target, 2, sampler="block", seed=0)
    assert da.show.page(target, result, sampler="block").startswith("<!doctype html>")
    assert (
        da.jobs.draw(tmp_path / "job", target, 2, name="pairs", sampler="Block", seed=0).samples().equal(result.samples)
    )
    asked: list[str] = []
    assert da.verify(target, 50, samplers="block", with_power=False, watch=lambda part: asked.append(part)).passed  # type: ignore[arg-type,func-returns-value]
    assert asked.count(repr(da.Block())) == 1 and not any("Coupled" in part for part in asked)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("copuled", "there is no sampler 'copuled'; did you mean 'coupled'"),
        ("zzz", "the samplers are auto, sequential, .*separated"),
        (da.Coupled, r"not <class .*>: write Coupled\(\)"),
        (3, r"must be a sampler, or a name such as 'block', not 3: write Block\(\)"),
    ],
)
def test_what_is_no_sampler_is_refused_with_the_remedy(given: object, message: str) -> None:
    with pytest.raises(da.InputError, match=message):
        da.sample(da.targets.Pairs(4), sampler=given)  # type: ignore[arg-type]


def test_words() -> None:
    assert [words.counted(number, "sample") for number in (0, 1, 2)] == ["0 samples", "1 sample", "2 samples"]
    known = {"hyper-cube": 1, "ising": 2}
    assert words.pick("target", "HYPER_CUBE", known) == 1 and words.guess("isng", known) == "ising"
    assert words.guess("qqq", known) is None and words.meant("qqq", known) == "qqq"
    with pytest.raises(da.InputError, match="there is no target 'qqq'; the targets are hyper-cube, ising, or else"):
        words.pick("target", "qqq", known, ", or else")
    one, many = (da.sample(da.targets.Pairs(4), number, sampler="sequential", seed=0).report for number in (1, 3))
    assert "1 sample of 4 steps" in str(one) and "3 samples of 4 steps" in str(many)
    assert "4.0 per sample (as many as one by one)" in str(one)


def test_the_package_can_be_sent_to_another_process() -> None:
    """As part of a function that refers to it."""
    assert pickle.loads(pickle.dumps(da)) is da and copy.deepcopy(da) is da
