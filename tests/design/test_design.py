"""`drawahead design`: the files it writes, what it takes, and what happens when something is wrong."""

from __future__ import annotations

import ast
import csv
import json
import os
import pickle
import re
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import drawahead as da
from drawahead import InputError, design
from drawahead.cli.app import run
from drawahead.proteins.design import Options, designer, scoring, settings
from drawahead.proteins.design import job as jobs
from drawahead.proteins.design.designer import Designer, DesignWorker
from drawahead.proteins.design.problem import sample_numbers
from drawahead.proteins.mpnn.model import ProteinMPNN, Weights
from drawahead.proteins.structures.files import read_structure
from tests.design.structures import folder_of, save_weights
from tests.jobs.forging import resealed

# Headers as the README of ProteinMPNN shows them, and what scripts look for in them.
PUBLISHED = (
    (
        ">3HTN, score=1.1705, global_score=1.2045, fixed_chains=['B'], designed_chains=['A', 'C'], "
        "model_name=v_48_020, git_hash=015ff820b9b5741ead6ba6795258f35a9c15e94b, seed=37"
    ),
    ">T=0.1, sample=1, score=0.7291, global_score=0.9330, seq_recovery=0.5736",
)
NATIVE = re.compile(
    r">(?P<name>\S+), score=(?P<score>[\d.]+), global_score=(?P<global>[\d.]+), fixed_chains=(?P<fixed>\[.*?\]), "
    r"designed_chains=(?P<designed>\[.*?\]), model_name=(?P<model>\S+), git_hash=(?P<git>\w+), seed=(?P<seed>\d+)"
)
SAMPLE = re.compile(
    r">T=(?P<T>[\d.]+), sample=(?P<sample>\d+), score=(?P<score>\d+\.\d{4}), global_score=(?P<global>\d+\.\d{4}), "
    r"seq_recovery=(?P<recovery>\d\.\d{4})"
)


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("weights")
    save_weights(folder)
    return folder


@pytest.fixture
def structures(tmp_path: Path) -> Path:
    return folder_of(tmp_path / "in")


def asked(weights: Path, **options: Any) -> Options:
    return Options(weights=str(weights), num=2, temperature=(0.1, 0.5), seed=3, **options)


def drawn(name: str, file: str, weights: Path, structures: Path, **options: Any) -> list[str]:
    """The sequences of one structure."""
    job = design.run(structures.parent / name, [structures / f"{file}.pdb"], asked(weights, **options))
    assert not job.failed, job.failed
    return [one.sequence for one in job.parts[file].designed]


def entries(path: Path) -> list[tuple[str, str]]:
    lines = path.read_text().splitlines()
    return list(zip(lines[::2], lines[1::2], strict=True))


def test_headers_are_those_that_scripts_read(tmp_path: Path, structures: Path, weights: Path) -> None:
    native, one = NATIVE.fullmatch(PUBLISHED[0]), SAMPLE.fullmatch(PUBLISHED[1])
    assert native is not None and ast.literal_eval(native["designed"]) == ["A", "C"] and one is not None
    design.run(tmp_path / "out", [structures / "three.pdb"], asked(weights, chains="C,A"))
    first, *rest = entries(tmp_path / "out" / "seqs" / "three.fa")
    native = NATIVE.fullmatch(first[0])
    assert native is not None and (native["name"], native["model"], native["seed"]) == ("three", "v_48_020", "3")
    assert ast.literal_eval(native["fixed"]) == ["B"] and ast.literal_eval(native["designed"]) == ["A", "C"]
    found = [SAMPLE.fullmatch(header) for header, _ in rest]
    assert [(one["T"], one["sample"]) for one in found if one] == [
        ("0.1", "1"),
        ("0.1", "2"),
        ("0.5", "1"),
        ("0.5", "2"),
    ]
    assert first[1] == "ACDEFGHI/ACDEFGHI"
    for (_, sequence), one in zip(rest, found, strict=True):
        assert one is not None and re.fullmatch(r"[A-Y]{8}/[A-Y]{8}", sequence)
        alike = sum(a == b for a, b in zip(sequence, first[1], strict=True) if a != "/") / 16
        assert float(one["recovery"]) == pytest.approx(alike, abs=1e-4)


def test_sequences_are_those_of_the_model_whatever_else_is_designed(
    tmp_path: Path, structures: Path, weights: Path
) -> None:
    """Token for token what `da.sample` draws with the same noise, and one at a time gives what all together do."""
    everything = design.run(tmp_path / "all", [structures], asked(weights))
    assert list(everything.parts) == ["gap", "one", "three", "two"] and not everything.failed
    alone = design.run(tmp_path / "alone", [structures / "two.pdb"], asked(weights))
    assert alone.parts["two"].designed == everything.parts["two"].designed
    mpnn = ProteinMPNN(weights / "vanilla_model_weights" / "v_48_020.pt", structures / "two.pdb", temperature=0.5)
    first = int(sample_numbers("two", 0.5, 1))
    drawn = da.sample(mpnn.chain(), 2, first=first, sampler=da.Sequential(), seed=3).samples
    assert mpnn.sequences(drawn) == [one.sequence for one in alone.parts["two"].designed[2:]]
    rows = list(csv.DictReader((tmp_path / "all" / "designs.csv").open()))
    assert len(rows) == 16 and rows[0]["structure"] == "gap"
    of_two = [row for row in rows if row["structure"] == "two"]
    for row, one in zip(of_two, alone.parts["two"].designed, strict=True):
        assert (row["sequence"], int(row["rounds"]), int(row["steps"])) == (one.sequence, one.rounds, 17)
        assert float(row["score"]) == pytest.approx(one.score, abs=1e-4)


def test_a_worker_designs_what_a_job_does(tmp_path: Path, structures: Path, weights: Path) -> None:
    (structures / "wrong.pdb").write_text((structures / "one.pdb").read_text())
    given = asked(weights, fixed="B3")  # only one of them has a chain B
    here = design.run(tmp_path / "here", [structures], given)
    worker = DesignWorker()
    made = Designer.of(given, torch.device("cpu"))
    worker.build(lambda: pickle.loads(pickle.dumps(made)))
    paths = {path.stem: path for path in structures.glob("*.pdb")}
    outcome, _ = worker.evaluate(pickle.loads(pickle.dumps({n: read_structure(p) for n, p in paths.items()})))
    assert outcome.parts == {name: replace(part, sha256="") for name, part in here.parts.items()}
    assert outcome.failed == here.failed and "wrong" in outcome.failed
    assert outcome.rounds == worker.pulse() > 0


def test_structures_that_share_rounds_get_the_same_sequences(
    tmp_path: Path, structures: Path, weights: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a GPU: all of similar lengths at once; and, where memory runs out, in halves."""
    apart = design.run(tmp_path / "apart", [structures], asked(weights, dtype="float64"))
    monkeypatch.setattr(jobs, "shared", lambda given, *rest: [list(given)])
    together = design.run(tmp_path / "together", [structures], asked(weights, dtype="float64"), batch=5)
    assert {name: part.designed for name, part in together.parts.items()} == {
        name: part.designed for name, part in apart.parts.items()
    }
    real, sizes = designer.Backbones, []

    def small(models: Any) -> Any:
        sizes.append(len(models))
        if len(models) > 2:
            raise torch.OutOfMemoryError("out of memory")
        return real(models)

    monkeypatch.setattr(designer, "Backbones", small)
    halved = design.run(tmp_path / "halved", [structures], asked(weights, dtype="float64"))
    assert sizes[0] == 4 and sizes[-2:] == [2, 2]
    assert (tmp_path / "halved" / "designs.csv").read_text() == (tmp_path / "together" / "designs.csv").read_text()
    assert halved.parts == together.parts


def test_similar_lengths_share_rounds_on_a_gpu(structures: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = {path.stem: read_structure(path) for path in sorted(structures.iterdir())}
    assert designer.shared(found, 6, torch.device("cpu")) == [["gap"], ["one"], ["three"], ["two"]]
    monkeypatch.setattr(designer, "memory", lambda device: 10**9)
    assert designer.shared(found, 6, torch.device("meta")) == [["gap", "one"], ["three", "two"]]
    monkeypatch.setattr(designer, "memory", lambda device: 10**5)
    assert len(designer.shared(found, 6, torch.device("meta"))) == 4
    monkeypatch.setattr(designer, "memory", lambda device: 10**9)
    assert len(designer.shared(found, 13, torch.device("meta"))) == 3  # of eleven residues, fewer neighbours


def test_gaps_are_written_as_the_package_writes_them(tmp_path: Path, structures: Path, weights: Path) -> None:
    """X where residues are missing from the numbering, and the file's letter where one lacks an atom."""
    part = design.run(tmp_path / "out", [structures / "gap.pdb"], asked(weights)).parts["gap"]
    native = part.native.sequence
    assert len(native) == 14 and native[3:5] == "XX" and part.dropped == ("A9",)
    for one in part.designed:
        assert len(one.sequence) == 14 and one.sequence[3:5] == "XX" and one.sequence[8] == native[8]
        assert "X" not in one.sequence.replace("XX", "")


def test_options_reach_the_model(structures: Path, weights: Path) -> None:
    def of_three(name: str, **options: Any) -> list[str]:
        return drawn(name, "three", weights, structures, **options)

    assert all(len(set(one.split("/"))) == 1 for one in of_three("symmetry", symmetry="A,B,C"))
    assert all(one[:2] == one[9:11] for one in of_three("tied", tied="A1-2=B1-2"))
    assert all(one.startswith("ACD") and one[9] == "A" for one in of_three("fixed", fixed="A1-3,B1"))
    assert all(one[1:] == "CDEFGHI/ACDEFGHI/ACDEFGHI" for one in of_three("redesign", redesign="A1"))
    assert all(set(one) <= set("AW/") for one in of_three("omit", omit="CDEFGHIKLMNPQRSTVY"))
    assert all(one[2] in "AW" for one in of_three("omit_at", omit_at="A3=CDEFGHIKLMNPQRSTVY"))
    assert all(set(one) == {"W", "/"} for one in of_three("bias", bias="W=100"))
    assert all("/" not in one for one in of_three("chains", chains="B", fixed_chains="A"))
    assert of_three("noise", backbone_noise=0.5) != of_three("plain")


def test_files_in_the_formats_of_the_package(tmp_path: Path, structures: Path, weights: Path) -> None:
    """JSONL for chains, fixed and tied positions, omitted letters, biases and PSSMs; positions count gaps."""

    def file(name: str, content: Any) -> str:
        path = tmp_path / f"{name}.jsonl"
        path.write_text(json.dumps(content) + "\n")
        return str(path)

    def of(name: str, structure: str = "three", **options: Any) -> list[str]:
        return drawn(name, structure, weights, structures, **options)

    chains = file("chains", {"three": [["A", "C"], ["B"]]})
    assert all(one.count("/") == 1 for one in of("o1", chains=chains))
    fixed = file("fixed", {"three": {"A": [1, 2], "B": [], "C": [8]}, "gap": {"A": [1, 4, 6]}})
    assert all(one.startswith("AC") and one.endswith("I") for one in of("o2", fixed=fixed))
    native = read_structure(structures / "gap.pdb").sequence
    assert all(one[0] == native[0] and one[5] == native[3] for one in of("o3", "gap", fixed=fixed))
    tied = file("tied", {"three": [{"A": [1], "B": [1]}, {"A": [[2], [1.0]], "C": [[2, 3], [0.5, -0.2]]}]})
    assert all(one[0] == one[9] and one[1] == one[19] == one[20] for one in of("o4", tied=tied))
    omit = file("omit", {"three": {"A": [[[1, 2], "CDEFGHIKLMNPQRSTVY"], [[1], "W"]]}})
    assert all(one[0] == "A" and one[1] in "AW" for one in of("o5", omit_at=omit))
    assert all(set(one) == {"W", "/"} for one in of("o6", bias=file("bias", {"W": 100.0})))
    rows = np.zeros((14, 21))
    rows[5, 18] = 100.0
    by_residue = file("by_residue", {"gap": {"A": rows.tolist()}})
    assert all(one[5] == "W" for one in of("o7", "gap", bias_file=by_residue))
    profile = np.zeros((14, 21))
    profile[:, 1] = 1.0
    entry = {"pssm_coef": [1.0] * 14, "pssm_bias": profile.tolist(), "pssm_log_odds": (-rows).tolist()}
    pssm = file("pssm", {"gap": {"A": entry}})
    assert all(set(one[:8] + one[9:]) == set("CX") for one in of("o8", "gap", pssm=pssm, pssm_share=1.0))
    for options, message in (
        ({"fixed": fixed}, "the file of --fixed has no entry one"),
        ({"fixed": file("far", {"one": {"A": [13]}})}, r"--fixed: chain A has places 1 \.\.\. 12, not 13"),
        ({"fixed": file("odd", {"one": {"B": [1]}})}, "--fixed names chain B"),
        ({"chains": file("flat", {"one": ["A"]})}, r"\[\[designed\], \[fixed\]\]"),
        ({"omit_at": file("rule", {"one": {"A": [[1, 2, 3]]}})}, r"\[\[positions\], letters\]"),
        ({"tied": file("sizes", {"one": [{"A": [[1, 2], [1.0]]}]})}, "2 positions, but 1 weights"),
        ({"bias_file": file("short", {"one": {"A": [[0.0] * 21]}})}, "21 numbers for each of its places"),
    ):
        job = design.run(
            tmp_path / f"bad{message[:6]}{len(message)}", [structures / "one.pdb"], asked(weights, **options)
        )
        assert re.search(message, job.failed["one"]), job.failed
    (tmp_path / "no.jsonl").write_text("[1]\n")
    for name in ("no.jsonl", "missing.jsonl"):
        with pytest.raises(InputError, match="--fixed"):
            design.run(tmp_path / "x", [structures], asked(weights, fixed=str(tmp_path / name)))


def test_what_is_wrong_is_named_and_the_rest_is_done(
    tmp_path: Path, structures: Path, weights: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (structures / "empty.pdb").write_text("")
    (structures / "alpha.cif").write_text("data_x\n")
    (structures / "bad.ent").write_text("ATOM      1  N   GLY A   1       x.000   1.000   1.000\n")
    (tmp_path / "nothing").mkdir()
    (tmp_path / "one.pdb").write_text((structures / "one.pdb").read_text())
    out = tmp_path / "out"
    command = ["design", str(structures), str(tmp_path / "nothing"), str(tmp_path / "one.pdb"), "--out", str(out)]
    command += ["--weights", str(weights), "--num", "1", "--fixed", "A1"]
    assert run([*command, "--json"]) == 1
    shown = capsys.readouterr()
    report = json.loads(shown.out)
    assert list(report["structures"]) == ["gap", "one", "three", "two"] and len(report["failed"]) == 5
    lines = shown.err.splitlines()
    assert len(lines) == 6 and all(line.startswith("drawahead: ") for line in lines)
    assert "empty: " in shown.err and "no ATOM records" in shown.err and "bad.ent, line 1" in shown.err
    assert "nothing: the folder has no" in shown.err and "is called one, too" in shown.err
    assert lines[-1].startswith("drawahead: 5 of 9 structures could not be done")
    assert len(list((out / "seqs").glob("*.fa"))) == 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--chains", "D"], "there is no chain D: the structure has A, B, C"),
        (["--fixed", "A10-25"], "no residue 'A10-25'"),
        (["--tied", "A1-3=B1-2"], "the sides have 3 and 2 residues"),
        (["--symmetry", "A,D"], "no chain D"),
        (["--omit-at", "A1=Z"], "omit at A1"),
        (["--omit", "B"], "omit must be of the letters"),
        (["--bias", "W"], "--bias must be assignments"),
        (["--bias", "WY=1"], "must be one letter"),
        (["--bias", "W=much"], "--bias must be a number"),
        (["--fixed", "A,B,C"], "nothing to design"),
        (["--temperature", "0"], "temperature must be"),
        (["--temperature", "warm"], "--temperature must be numbers"),
        (["--model", "none.pt"], "cannot read the weights"),
        (["--model", "v_48_999"], "has no vanilla_model_weights/v_48_999.pt"),
        (["--ca-only"], "has no ca_model_weights"),
        (["--membrane", "deep"], "--membrane must be"),
    ],
)
def test_bad_options_are_named(
    tmp_path: Path,
    structures: Path,
    weights: Path,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    message: str,
) -> None:
    command = ["design", str(structures / "three.pdb"), "--out", str(tmp_path / "out"), "--weights", str(weights)]
    assert run([*command, "--quiet", *options]) == 1
    assert message in capsys.readouterr().err


def test_a_job_that_is_stopped_goes_on_where_it_was(
    tmp_path: Path, structures: Path, weights: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = design.run(tmp_path / "whole", [structures], asked(weights))
    command = ["design", str(structures), "--out", str(tmp_path / "out"), "--weights", str(weights), "--num", "2"]
    command += ["--temperature", "0.1,0.5", "--seed", "3"]
    real, drawn = designer.draw, []

    def stopping(problems: Any, *rest: Any) -> Any:
        if len(drawn) == 2:
            raise KeyboardInterrupt
        drawn.append(problems[0].name)
        return real(problems, *rest)

    monkeypatch.setattr(designer, "draw", stopping)
    assert run(command) == 130
    told = capsys.readouterr().err
    assert "interrupted; 2 structures are kept" in told and "--resume" in told
    monkeypatch.setattr(designer, "draw", real)
    assert run(command) == 1 and "resume it" in capsys.readouterr().err
    assert run([*command, "--seed", "4", "--resume"]) == 1 and "begun with seed 3, not 4" in capsys.readouterr().err
    before = (tmp_path / "out" / "parts" / "gap.json").stat().st_mtime_ns
    assert run(["design", "--out", str(tmp_path / "out"), "--resume", "--quiet"]) == 0
    assert capsys.readouterr().out == ""
    assert (tmp_path / "out" / "parts" / "gap.json").stat().st_mtime_ns == before  # not drawn again
    for name in ("designs.csv", "seqs/gap.fa", "seqs/two.fa"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert settings(tmp_path / "out")[0] == asked(weights) and whole.standing.done == 4


def test_a_job_with_files_is_resumed_from_anywhere(
    tmp_path: Path, structures: Path, weights: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bias.jsonl").write_text('{"W": 100.0}\n')
    model = os.path.relpath(weights / "vanilla_model_weights" / "v_48_020.pt")
    command = ["design", str(structures / "one.pdb"), "--out", "out", "--model", model, "--num", "1", "--quiet"]
    assert run([*command, "--bias", "bias.jsonl"]) == 0
    (tmp_path / "else").mkdir()
    monkeypatch.chdir(tmp_path / "else")
    (tmp_path / "out" / "parts" / "one.json").unlink()
    assert run(["design", "--out", str(tmp_path / "out"), "--resume", "--quiet"]) == 0
    assert entries(tmp_path / "out" / "seqs" / "one.fa")[1][1] == "W" * 12
    Path(tmp_path / "bias.jsonl").write_text('{"W": 1.0}\n')
    assert run(["design", "--out", str(tmp_path / "out"), "--resume", "--quiet"]) == 1


def bytes_of(folder: Path) -> dict[str, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file() and path.name != "lock")
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def flipped(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:-9] + bytes([data[-9] ^ 1]) + data[-8:])


def of_wrong_types(path: Path) -> None:
    """What a part holds, with a checksum that agrees."""
    if path.suffix != ".json":
        return path.unlink()
    part = json.loads(path.read_text())
    part["part"]["designed"][0]["score"] = "0.5"
    path.write_bytes(resealed({"format": 2} | part))
    return None


def foreign(path: Path) -> None:
    if path.suffix != ".json":
        return path.write_text("")
    path.write_bytes(resealed({"format": 2} | json.loads(path.read_text()) | {"job": "0" * 64}))
    return None


def empty(path: Path) -> None:
    """No sequences at all, with a checksum that agrees."""
    if path.suffix != ".json":
        return path.unlink()
    part = json.loads(path.read_text())
    part["part"]["designed"] = []
    path.write_bytes(resealed({"format": 2} | part))
    return None


DAMAGES: list[Callable[[Path], object]] = [lambda path: path.write_text("{"), flipped, of_wrong_types, foreign, empty]


def test_every_bit_of_the_manifest_counts(tmp_path: Path, structures: Path, weights: Path) -> None:
    design.run(tmp_path / "out", [structures / "one.pdb"], asked(weights))
    path = tmp_path / "out" / "design.json"
    whole = path.read_bytes()
    for at in range(0, len(whole), 3):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1 :])
        with pytest.raises(InputError, match="the manifest"):
            settings(tmp_path / "out")


@pytest.mark.parametrize(
    "change",
    [
        {"asked": []},
        {"asked": {"num": "2"}},
        {"asked": {"temperature": [[0.1]]}},
        {"asked": {"temperature": {}}},
        {"asked": {"dtype": "load"}},
        {"asked": {"seed": 1.5}},
        {"structures": "one"},
        {"structures": None},
        {"records": []},
        {"format": "2"},
    ],
    ids=str,
)
def test_a_manifest_with_wrong_types_is_refused(
    change: dict[str, Any], tmp_path: Path, structures: Path, weights: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    design.run(tmp_path / "out", [structures / "one.pdb"], asked(weights))
    path = tmp_path / "out" / "design.json"
    path.write_bytes(resealed(json.loads(path.read_text()) | change))
    assert run(["design", "--out", str(tmp_path / "out"), "--resume"]) == 1
    assert capsys.readouterr().err.count("\n") == 1


def test_folders_of_earlier_versions_are_resumed(tmp_path: Path, structures: Path, weights: Path) -> None:
    """They had no checksums: what can be read is kept, and from then on it has one."""
    first = design.run(tmp_path / "out", [structures], asked(weights))
    whole = bytes_of(tmp_path / "out")
    manifest = json.loads(whole["design.json"])
    for key in ("sha256", "format", "records"):
        del manifest[key]
    (tmp_path / "out" / "design.json").write_text(json.dumps(manifest))
    for name in ("gap", "one", "two"):
        path = tmp_path / "out" / "parts" / f"{name}.json"
        path.write_text(json.dumps(json.loads(path.read_text())["part"]))
    (tmp_path / "out" / "parts" / "two.json").write_text('{"native": 3}')
    (tmp_path / "out" / "parts" / "three.json").unlink()
    with pytest.warns(RuntimeWarning, match=r"drawn again: two\.json"):
        again = design.run(tmp_path / "out", [structures], asked(weights), resume=True)
    assert again.parts == first.parts and again.standing.earlier == 2
    now = bytes_of(tmp_path / "out")
    assert {name for name in whole if now[name] != whole[name]} == {"design.json", "parts/gap.json", "parts/one.json"}
    flipped(tmp_path / "out" / "parts" / "gap.json")
    with pytest.warns(RuntimeWarning, match=r"drawn again: gap\.json"):
        design.run(tmp_path / "out", [structures], asked(weights), resume=True)
    assert bytes_of(tmp_path / "out")["parts/gap.json"] == whole["parts/gap.json"]


def test_a_damaged_part_is_drawn_again_and_a_changed_file_refused(
    tmp_path: Path, structures: Path, weights: Path
) -> None:
    first = design.run(tmp_path / "out", [structures], asked(weights))
    before = bytes_of(tmp_path / "out")
    for damage in DAMAGES:
        for name in ("parts/one.json", "seqs/two.fa", "designs.csv"):
            damage(tmp_path / "out" / name)
        with pytest.warns(RuntimeWarning, match=r"damaged in .*out, and drawn again: one\.json"):
            again = design.run(tmp_path / "out", [structures], asked(weights), resume=True)
        assert again.parts == first.parts and bytes_of(tmp_path / "out") == before
    (structures / "one.pdb").write_text((structures / "two.pdb").read_text())
    third = design.run(tmp_path / "out", [structures], asked(weights), resume=True)
    assert "has changed" in third.failed["one"] and len(third.parts) == 3
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="holds no design job"):
        design.run(tmp_path / "other", [structures], asked(weights))
    (tmp_path / "out" / "design.json").write_text("[]")
    with pytest.raises(InputError, match="manifest"):
        design.run(tmp_path / "out", [structures], asked(weights), resume=True)


def test_one_process_a_folder(tmp_path: Path, structures: Path, weights: Path) -> None:
    inside, done = threading.Event(), []

    def watch(standing: Any) -> None:
        if not inside.is_set():
            inside.set()
            with pytest.raises(InputError, match="in use"):
                design.run(tmp_path / "out", [structures], asked(weights), resume=True)
            done.append(standing.structures)

    design.run(tmp_path / "out", [structures], asked(weights), watch=watch)
    assert done == [4]


def test_one_structure_that_fails_among_those_that_share_rounds(
    tmp_path: Path, structures: Path, weights: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "shared", lambda given, *rest: [list(given)])
    real: Callable[..., Any] = designer.draw

    def failing(problems: Any, *rest: Any) -> Any:
        if any(problem.name == "one" for problem in problems):
            raise InputError("the oracle's row is not a law")
        return real(problems, *rest)

    monkeypatch.setattr(designer, "draw", failing)
    job = design.run(tmp_path / "out", [structures], asked(weights))
    assert list(job.parts) == ["gap", "three", "two"] and "not a law" in job.failed["one"]


def test_scores_and_probabilities_without_designing(
    tmp_path: Path, structures: Path, weights: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["design", str(structures), "--out", str(tmp_path / "out"), "--weights", str(weights), "--num", "3"]
    assert run([*command, "--score-only", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    found = np.load(tmp_path / "out" / "score_only" / "one_pdb.npz")
    assert found["score"].shape == (3,) and str(found["seq_str"]) == "ACDEFGHIKLMN"
    assert shown["scores"][1]["score"] == pytest.approx(float(found["score"].mean()), rel=1e-5)
    network = Weights.load(weights / "vanilla_model_weights" / "v_48_020.pt")
    mpnn = ProteinMPNN(network, structures / "one.pdb")
    torch.testing.assert_close(
        torch.tensor(found["score"]).double(), mpnn.score(["ACDEFGHIKLMN"] * 3).score, atol=1e-5, rtol=0
    )
    assert run([*command, "--unconditional-probs", "--quiet"]) == 0
    table = np.load(tmp_path / "out" / "unconditional_probs_only" / "three.npz")
    assert table["log_p"].shape == (1, 24, 21) and table["labels"][8] == "B1"
    torch.testing.assert_close(
        torch.tensor(table["log_p"][0]), ProteinMPNN(network, structures / "three.pdb").log_probs()
    )


def test_the_page(tmp_path: Path, structures: Path, weights: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    command = ["design", str(structures), "--out", str(out), "--weights", str(weights), "--temperature", "0.1,0.5"]
    assert run([*command, "--symmetry", ""]) == 0
    shown = capsys.readouterr()
    assert "gap: 16 sequences" in shown.out and "instead of 11" in shown.out and "without A9" in shown.out
    page = (out / "report.html").read_text()
    assert page.count("<figure>") == 4 and page.count('class="logo"') == 4 and "T = 0.5" in page
    assert "steps in" in page and "script-src 'sha256-" in page and "$" not in page.split("<style>")[0]
    data = json.loads(page.split('id="data">')[1].split("</script>")[0])
    (reel,) = data["film"]["reels"]
    assert reel["steps"] == 11 and reel["progress"][-1] == 11 and len(reel["picture"]["letters"]) == 11
    first = entries(out / "seqs" / "gap.fa")[1][1].replace("XX", "")
    assert "".join(reel["picture"]["letters"]) == first[:6] + first[7:]


@pytest.mark.parametrize("name", ["parts", "seqs", "design.json", "designs.csv", "report.html", "lock"])
def test_links_in_a_folder_are_refused(
    name: str, tmp_path: Path, structures: Path, weights: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Going on with a stranger's job: nothing is written outside its folder."""
    job, away = tmp_path / "job", tmp_path / "away"
    design.run(job, [structures / "one.pdb"], asked(weights))
    (job / "report.html").write_text("")
    (job / name).rename(away)
    (job / name).symlink_to(away)
    if name in ("parts", "seqs"):
        (job / "parts" / "one.json").unlink(missing_ok=True)
        (away / "one.json").write_text("precious") if name == "parts" else (away / "one.fa").write_text("precious")
    before = {path: path.read_bytes() for path in (away.iterdir() if away.is_dir() else [away])}
    assert run(["design", "--out", str(job), "--resume", "--quiet"]) == 1
    told = capsys.readouterr().err
    assert told.count("\n") == 1 and f"job/{name}" in told
    assert {path: path.read_bytes() for path in (away.iterdir() if away.is_dir() else [away])} == before


@pytest.mark.parametrize("link", ["symbolic", "hard"])
@pytest.mark.parametrize("name", ["parts/.one.json.tmp", "seqs/.one.fa.tmp", "seqs/one.fa", ".designs.csv.tmp"])
def test_a_link_that_waits_for_a_file_is_replaced(
    name: str, link: str, tmp_path: Path, structures: Path, weights: Path
) -> None:
    job, precious = tmp_path / "job", tmp_path / "precious"
    first = design.run(job, [structures / "one.pdb"], asked(weights))
    precious.write_text("precious")
    (job / "parts" / "one.json").unlink()
    (job / name).unlink(missing_ok=True)
    (job / name).symlink_to(precious) if link == "symbolic" else (job / name).hardlink_to(precious)
    assert design.run(job, [structures / "one.pdb"], asked(weights), resume=True).parts == first.parts
    assert precious.read_text() == "precious"


@pytest.mark.parametrize("name", [scoring.SCORES, scoring.PROBABILITIES])
def test_scores_do_not_follow_links(name: str, tmp_path: Path, structures: Path, weights: Path) -> None:
    (tmp_path / "away").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).symlink_to(tmp_path / "away")
    with pytest.raises(InputError, match=f"{name} is a link"):
        scoring.score(tmp_path / "out", [structures], asked(weights), probabilities=name == scoring.PROBABILITIES)
    assert not list((tmp_path / "away").iterdir())


def test_a_job_whose_folder_is_replaced_stops(tmp_path: Path, structures: Path, weights: Path) -> None:
    went: list[Path] = []

    def watch(standing: object) -> None:
        if not went:
            went.append((tmp_path / "job").rename(tmp_path / "moved"))
            design.run(tmp_path / "job", [structures / "two.pdb"], asked(weights, omit="XA"))

    with pytest.raises(da.JobError, match="was deleted or replaced"):
        design.run(tmp_path / "job", [structures], asked(weights), watch=watch)
    assert [path.name for path in (tmp_path / "job" / "seqs").iterdir()] == ["two.fa"]
    assert [path.name for path in (tmp_path / "job" / "parts").iterdir()] == ["two.json"]
