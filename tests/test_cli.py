"""The command line: what it prints, what it writes, and one clear line when something is wrong."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest
import torch

import drawahead as da
from drawahead.cli.app import run
from drawahead.cli.registry import entries, named
from drawahead.cli.subjects import TargetOptions
from drawahead.networks import files
from drawahead.samplers import SAMPLERS

NAMES = [entry.name for entry in entries()]
SHIPPED = [entry.name for entry in entries() if entry.kind == "network"]


def test_sample_prints_the_samples_and_what_they_cost(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sample", "pairs", "--num", "3", "--size", "10", "--seed", "4"]) == 0
    shown = capsys.readouterr()
    lines = shown.out.splitlines()
    drawn = da.sample(da.targets.Pairs(10), 3, seed=4).samples
    assert lines[:3] == ["".join(map(str, row)) for row in drawn.tolist()]
    assert "rounds" in shown.out and "queries" in shown.out
    assert shown.err == ""  # no progress where there is no terminal


def test_json_is_one_object_and_quiet_is_only_samples(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sample", "ising", "--num", "2", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert len(shown["samples"]) == 2 == shown["report"]["num_samples"]
    assert run(["sample", "ising", "--num", "2", "--quiet"]) == 0
    assert capsys.readouterr().out.split() == ["".join(map(str, row)) for row in shown["samples"]]


def test_files_hold_the_samples(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a.npz", "a.json"):
        assert run(["sample", "markov", "--num", "2", "--size", "6", "--quiet", "--out", str(tmp_path / name)]) == 0
    samples = json.loads((tmp_path / "a.json").read_text())["samples"]
    assert np.load(tmp_path / "a.npz")["samples"].tolist() == samples
    assert capsys.readouterr().out == ""


def test_images_are_written_as_a_picture(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["sample", "digits", "--num", "2", "--window", "200"]) == 0
    shown = capsys.readouterr().out
    assert "wrote digits.png" in shown and "█" in shown
    assert (tmp_path / "digits.png").read_bytes()[:4] == b"\x89PNG"


def test_texts_are_printed_beside_their_rounds(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sample", "text", "--size", "20", "--seed", "3"]) == 0
    shown = capsys.readouterr()
    result = da.sample(da.networks.text(20), 4, seed=3, sampler=da.Sequential())
    assert all(da.networks.to_text(tokens) in shown.out for tokens in result.samples)  # auto changes no sample
    assert shown.out.count(" rounds  ") >= 4 and "queries" in shown.out and shown.err == ""


def test_blanks_of_a_prompt_are_filled_in(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    prompt = "My fellow ____, we are ___"
    same = ["sample", "text", "--num", "2", "--prompt", prompt, "--order", "spread", "--temperature", "0.5"]
    assert run([*same, "--quiet"]) == 0
    texts = capsys.readouterr().out.splitlines()
    assert len(texts) == 2 and "_" not in "".join(texts)
    for text in texts:
        assert [a for a, b in zip(text, prompt, strict=True) if b != "_"] == [b for b in prompt if b != "_"]
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    assert run(same) == 0
    assert "My fellow \x1b[1;32m" in capsys.readouterr().out  # what was drawn stands out


def test_texts_in_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    same = ["sample", "text", "--num", "2", "--size", "12"]
    assert run([*same, "--json"]) == 0
    texts = json.loads(capsys.readouterr().out)["samples"]
    assert all(isinstance(text, str) and len(text) == 12 for text in texts)
    for name in ("a.txt", "a.npz"):
        assert run([*same, "--quiet", "--out", str(tmp_path / name)]) == 0
    assert (tmp_path / "a.txt").read_text().splitlines() == texts
    kept = np.load(tmp_path / "a.npz")
    assert kept["texts"].tolist() == texts == [da.networks.to_text(torch.tensor(row)) for row in kept["samples"]]
    assert capsys.readouterr().out == ""


def test_clothes_are_written_as_a_picture(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["sample", "fashion", "--num", "2", "--steps", "3", "--device", "cpu"]) == 0
    shown = capsys.readouterr().out
    assert "wrote fashion.png" in shown and "2 samples of 3 steps" in shown and "of its 1000" not in shown
    assert (tmp_path / "fashion.png").read_bytes()[:4] == b"\x89PNG"
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    assert run(["sample", "fashion", "--num", "1", "--steps", "2", "--device", "cpu"]) == 0
    assert "▀" in capsys.readouterr().out


def test_without_a_gpu_clothes_take_fewer_steps_and_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    subject = named("fashion", TargetOptions())
    assert subject.chain.steps == 100 and "100 of its 1000 steps; --steps 1000 for all" in subject.remark
    assert named("fashion", TargetOptions(steps=7)).remark == ""


def test_weights_are_read_only_when_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise AssertionError("a network was loaded")

    monkeypatch.setattr(files, "load", fail)
    assert run(["targets"]) == 0 and run(["sample", "pairs", "--quiet"]) == 0
    with pytest.raises(AssertionError, match="loaded"):
        run(["sample", "text"])


def test_a_place_that_cannot_be_used_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    assert run(["demo", "--out", str(tmp_path / "file" / "out")]) == 1
    assert capsys.readouterr().err == f"drawahead: {tmp_path}/file/out cannot be used: Not a directory\n"


@pytest.mark.slow
def test_the_demo_writes_its_pictures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["demo", "--out", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert "My fellow Americans" in shown and "the same text, character for character, after 256 rounds" in shown
    assert {path.name for path in tmp_path.iterdir()} == {"emoji.png", "aztec.png", "demo.png"}
    assert run(["demo", "--out", str(tmp_path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found["files"]) == 3 and len(found["texts"]) == 5
    assert [10 * row["drawahead"] < row["one_by_one"] for row in found["rounds"]] == [True, False, False, True]
    assert all(row["drawahead"] < row["one_by_one"] for row in found["rounds"])  # whatever `Auto` would do here


@pytest.mark.parametrize(("name", "size", "dominoes"), [("dominoes", 6, 18), ("aztec", 3, 12)])
def test_tilings_are_drawn(
    name: str, size: int, dominoes: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = tmp_path / "tiling.png"
    assert run(["sample", name, "--size", str(size), "--out", str(picture)]) == 0
    shown = capsys.readouterr().out
    assert "Separated" in shown and f"wrote {picture}" in shown.replace("\n", "")
    assert picture.read_bytes()[:4] == b"\x89PNG"
    assert run(["sample", name, "--size", str(size), "--num", "2", "--json"]) == 0
    tilings = json.loads(capsys.readouterr().out)["samples"]
    assert [len(tiling) for tiling in tilings] == [dominoes] * 2
    squares = [tuple(square) for pair in tilings[0] for square in pair]
    assert len(set(squares)) == 2 * dominoes and all(abs(a - c) + abs(b - d) == 1 for (a, b), (c, d) in tilings[0])
    assert run(["sample", name, "--size", str(size), "--sampler", "block", "--quiet"]) == 0
    assert run(["sample", name, "--prompt", "a_"]) != 0 and "--prompt does not apply" in capsys.readouterr().err


def test_compare_has_a_row_for_every_sampler(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", "urns", "--num", "40", "--size", "6"]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in SAMPLERS) and "same as" in shown
    assert run(["compare", "hypercube", "--num", "20", "--size", "2", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["sampler"] for row in rows] == list(SAMPLERS)
    assert {row["sampler"]: row["exact"] for row in rows}["picard"] is False


def test_compare_writes_and_is_quiet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    same = ["compare", "urns", "--num", "10", "--size", "2", "--quiet", "--max-batch-size", "4"]
    assert run([*same, "--out", str(tmp_path / "a.json")]) == 0
    rows = json.loads((tmp_path / "a.json").read_text())["rows"]
    assert capsys.readouterr().out == "" and len(rows) == len(SAMPLERS)
    assert run(same) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(SAMPLERS)
    assert run([*same, "--out", "a.txt"]) == 1 and "must end in .json" in capsys.readouterr().err


SMALL = {"ising": 2, "table": 3, "hypercube": 2, "modes": 2, "gaussian": 2, "dominoes": 2, "aztec": 1}
EMOJI = ["--steps", "2", "--prompt", "red apple", "--prompt", "cat"]
MORE = {"text": ["--size", "6"], "fashion": ["--steps", "2"], "emoji": EMOJI, "digits": ["--window", "300"]}
MORE["emoji-tokens"] = ["--prompt", "red apple", "--prompt", "cat", "--sampler", "coupled"]
MORE |= {"spanning-tree": ["--graph", "grid:3"], "dpp": ["--kernel", "line:5"], "matching": ["--graph", "grid:2x3"]}


@pytest.mark.usefixtures("emoji_weights")
def test_every_name_can_be_drawn_as_a_job(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in NAMES:
        more = MORE.get(name, ["--size", str(SMALL.get(name, 4))])
        same = ["sample", name, *more, "--num", "3", "--out", str(tmp_path / name), "--shard-size", "2"]
        assert run([*same, "--json"]) == 0, capsys.readouterr().err
        shown = json.loads(capsys.readouterr().out)
        assert shown["complete"] and shown["num_samples"] == 3 and shown["shards"] == 2 and "samples" not in shown
        job = da.jobs.read(tmp_path / name)
        again = named(name, TargetOptions().filled(job.config.options)).of(
            3
        )  # what is written down says what was drawn from
        assert again.chain.steps == job.config.steps and again.chain.empty(3).shape == job.samples().shape
        sampler = job.config.sampler.sampler
        assert (
            torch.equal(job.samples(1, 1), da.sample(again.chain, 2, sampler=sampler, seed=0).samples[1:])
            or name in SHIPPED
        )
        assert run(["sample", name, "--out", str(tmp_path / name), "--resume", "--quiet"]) == 0
        assert capsys.readouterr().out == ""


def test_a_job_is_resumed_with_what_it_was_begun_with(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(tmp_path / "job")
    begin = ["sample", "text", "--prompt", "a_c__", "--temperature", "0.7", "--order", "spread", "--num", "5"]
    assert run([*begin, "--seed", "3", "--window", "2", "--shard-size", "2", "--out", folder]) == 0
    assert "5 samples in 3 shards" in capsys.readouterr().out
    whole = da.jobs.read(folder)
    (tmp_path / "job" / "shards" / "000001.safetensors").unlink()
    assert run(["sample", "text", "--resume", "--out", folder, "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")
    again = da.jobs.read(folder)
    assert again.config == whole.config and torch.equal(again.samples(), whole.samples())
    for more, words in (
        (["--temperature", "0.8"], "option temperature is 0.7 there, not 0.8"),
        (["--num", "6", "--seed", "4"], "num is 5 there, not 6; seed is 3 there, not 4"),
        (["--dtype", "float64"], "option dtype is None there, not 'float64'"),
        (["--sampler", "block"], "sampler is 'Coupled"),
    ):
        assert run(["sample", "text", "--resume", "--out", folder, *more]) == 1
        shown = capsys.readouterr()
        assert words in shown.err and shown.out == "" and shown.err.count("\n") == 1
    assert run(["sample", "pairs", "--resume", "--out", folder]) == 1
    assert "name is 'text' there, not 'pairs'" in capsys.readouterr().err
    assert run([*begin, "--out", folder]) == 1
    assert "holds a job already" in capsys.readouterr().err


MODEL = """
import torch
import drawahead as da

class Model(da.TokenOracle):
    length, vocab_size, calls = 4, 2, 0

    def rows(self, tokens):
        Model.calls += 1
        if Model.calls == {calls}:
            raise {error}
        return torch.zeros(*tokens.shape, 2).log_softmax(-1)
"""


@pytest.mark.parametrize(
    ("error", "status", "words"),
    [("KeyboardInterrupt", 130, "interrupted"), ("RuntimeError('it broke')", 1, "it broke")],
)
def test_what_is_finished_is_kept(
    error: str,
    status: int,
    words: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    same = ["--num", "1500", "--sampler", "sequential"]
    for name, calls in (("early", 2), ("late", 6), ("long", 14)):
        Path(f"{name}.py").write_text(MODEL.format(calls=calls, error=error))
    assert run(["sample", "early.py:Model", *same]) == status
    shown = capsys.readouterr()
    assert shown.out == "" and words in shown.err and shown.err.count("\n") == 1
    assert run(["sample", "late.py:Model", *same, "--json", "--out", "a.npz"]) == status
    shown = capsys.readouterr()
    found = json.loads(shown.out)
    assert shown.err == f"drawahead: {words}; the 1024 of 1500 samples that were finished are kept\n"
    assert not found["complete"] and found["numbers"] == list(range(1024)) == np.load("a.npz")["numbers"].tolist()
    assert run(["sample", "long.py:Model", *same, "--out", "job", "--shard-size", "300"]) == status
    again = "drawahead sample long.py:Model --out job --resume"
    assert capsys.readouterr().err == f"drawahead: {words}; 900 of 1500 samples are kept in job; go on with: {again}\n"
    assert run(again.split()[1:]) == 0
    chain = da.sample(named("long.py:Model", TargetOptions()).chain, 1500, seed=0, sampler=da.Sequential())
    assert torch.equal(da.jobs.read("job").samples(), chain.samples)


def test_networks_compute_in_the_dtype_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for dtype in ("float64", "bfloat16"):
        assert run(["sample", "text", "--size", "5", "-n", "1", "--dtype", dtype, "--device", "cpu", "--quiet"]) == 0
        network = getattr(named("text", TargetOptions(size=5, dtype=dtype, device="cpu")).chain, "oracle").network  # noqa: B009
        assert network.sink.dtype == getattr(torch, dtype)
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_networks_are_compiled_if_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A job remembers it: what is compiled rounds otherwise."""
    monkeypatch.setattr(torch, "compile", lambda function: function)
    folder = str(tmp_path / "job")
    command = ["sample", "text", "--size", "5", "-n", "1", "--device", "cpu", "--window", "2"]
    assert run([*command, "--compile"]) == 0
    assert "the model is compiled" in " ".join(capsys.readouterr().out.split())
    assert run([*command, "--compile", "--out", folder, "--quiet"]) == 0
    assert da.jobs.read(folder).config.options["compile"] is True
    assert run(["sample", "pairs", "--compile"]) == 1
    assert "--compile does not apply to pairs" in capsys.readouterr().err


def complete(words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What a shell is told to offer, by the protocol that its completion function speaks."""
    monkeypatch.setenv("_DRAWAHEAD_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split(" ")) - 1))
    with pytest.raises(SystemExit) as left:
        run([])
    assert left.value.code == 0
    return capsys.readouterr().out.split()


def test_the_shell_completes_names(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert complete("drawahead sample is", monkeypatch, capsys) == ["ising"]
    assert complete("drawahead sam", monkeypatch, capsys) == ["sample", "samplers"]
    assert complete("drawahead compare d", monkeypatch, capsys) == ["dense", "digits", "dominoes", "dpp"]
    assert complete("drawahead sample ising --sampler co", monkeypatch, capsys) == ["coupled"]
    assert complete("drawahead sample ising --max", monkeypatch, capsys) == ["--max-batch-size"]
    assert set(complete("drawahead sample ", monkeypatch, capsys)) == set(NAMES)


def test_the_reference_page_is_up_to_date() -> None:
    root = Path(__file__).parent.parent
    spec = importlib.util.spec_from_file_location("cli_reference", root / "tools" / "cli_reference.py")
    assert spec is not None and spec.loader is not None
    reference = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(reference)
    assert (root / "docs" / "cli.md").read_text() == reference.page(), (
        "run: python tools/cli_reference.py > docs/cli.md"
    )


def test_help_fits_eighty_columns(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for arguments in ([], ["sample", "--help"]):
        assert run(arguments) == 0
        assert all(len(line) <= 80 for line in capsys.readouterr().out.splitlines())


def test_registries_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    known = {
        "targets": NAMES,
        "samplers": ["auto", *SAMPLERS, "separated"],
        "models": [*SHIPPED, *sorted(da.adapters.__all__)],
    }
    for command, names in known.items():
        assert run([command]) == 0
        shown = capsys.readouterr().out
        assert all(name in shown for name in names)
        assert run([command, "--json"]) == 0
        rows = json.loads(capsys.readouterr().out)[command]
        assert sorted(row["name"] for row in rows) == sorted(names) and all(row["summary"] for row in rows)


def test_models_say_what_is_still_to_install(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("drawahead.cli.lookup.find_spec", lambda name: None if name == "diffusers" else object())
    assert run(["models", "--json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)["models"]}
    assert not rows["from_diffusers"]["installed"] and rows["text"]["installed"]
    monkeypatch.setenv("COLUMNS", "160")
    assert run(["models"]) == 0
    assert "pip install 'drawahead[diffusers]'" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["sample", "xyzzy"],
            "there is no target 'xyzzy'; the targets are text, fashion, emoji, emoji-tokens",
        ),
        (["sample", "pairs", "--sampler", "nothing"], "the samplers are auto, sequential"),
        (["sample", "pairs", "--size", "7"], "n must be even"),
        (["sample", "pairs", "--num", "0"], "num"),
        (["sample", "pairs", "--sampler", "sequential", "--window", "3"], "takes no window"),
        (["sample", "pairs", "--sampler", "auto", "--window", "3"], "--window does not go with --sampler auto"),
        (["sample", "pairs", "--out", "a.pdf"], "--out must end in .npz, .json, .png, .txt, or be a folder"),
        (["sample", "pairs", "--resume"], "--resume is for a folder of shards"),
        (["sample", "pairs", "--shard-size", "3", "--out", "a.npz"], "--shard-size is for a folder"),
        (["sample", "pairs", "--out", "/proc/nowhere/job"], "cannot be the folder of a job"),
        (
            ["sample", "pairs", "--dtype", "float32"],
            "--dtype does not apply to pairs; its exact oracle computes in float64",
        ),
        (["sample", "text", "--dtype", "int8"], "--dtype"),
        (["sample", "nofile.py:model"], "there is no file nofile.py"),
        (["sample", "nofile.py:model", "--device", "cpu"], "--device and --dtype are for shipped networks"),
        (["sample", "pairs", "--out", "a.txt"], "not texts"),
        (["sample", "pairs", "--out", "a.png"], "not images"),
        (["sample", "pairs", "--out", "/nowhere/a.npz"], "no folder"),
        (["sample", "ising", "--size", "40"], "16"),
        (["sample", "pairs", "--prompt", "a_"], "--prompt does not apply to pairs"),
        (["sample", "pairs", "--device", "cpu"], "--device does not apply to pairs"),
        (["sample", "digits", "--order", "spread"], "--order does not apply to digits"),
        (["sample", "text", "--steps", "9"], "--steps does not apply to text, which takes --size"),
        (["sample", "text", "--size", "9", "--prompt", "a_"], "--size does not go with --prompt"),
        (["sample", "text", "--size", "300"], "1 to 256"),
        (["sample", "text", "--prompt", "all known"], "no blank"),
        (["sample", "text", "--prompt", "caf\u00e9 _"], "character 3 of the prompt"),
        (["sample", "text", "--temperature", "0"], "temperature must be"),
        (["sample", "text", "--order", "sideways"], "--order"),
        (["sample", "text", "--out", "a.png"], "not images"),
        (["sample", "fashion", "--temperature", "1"], "--temperature does not apply to fashion"),
        (["sample", "fashion", "--steps", "1001"], "steps must be between 1 and 1000"),
        (["sample", "fashion", "--device", "gpu"], "--device"),
        (["sample", "isng"], "there is no target 'isng'; did you mean 'ising'?"),
        (["compare", "Isnig"], "did you mean 'ising'?"),
        (["sample", "pairs", "--sampler", "copuled"], "there is no sampler 'copuled'; did you mean 'coupled'?"),
        (["sample", "pairs", "--smapler", "coupled"], "--sampler"),
        (["samle", "pairs"], "Did you mean 'sample'"),
        (["nothing"], "nothing"),
    ],
)
def test_bad_input_is_one_line_and_a_status(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) != 0
    shown = capsys.readouterr()
    assert shown.out == "" and words in shown.err and len(shown.err.splitlines()) == 1
