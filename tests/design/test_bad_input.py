"""Whatever is wrong with what a user gives to `drawahead design`: one line says so, and the others are designed."""

from __future__ import annotations

import errno
import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import drawahead as da
from drawahead import InputError, RayWorkers, design
from drawahead.cli.app import run
from drawahead.jobs import files, lock
from drawahead.jobs.commands.drawing import workers_named
from drawahead.oracles import needs
from drawahead.proteins.design import Options
from drawahead.proteins.mpnn.model import Weights
from tests.design.structures import as_pdb, peptide, save_weights

ROWS = [[0.0] * 21] * 6
# fmt: off
VALUES: list[Any] = [
    None, True, 1, 1.5, float("nan"), 10**30, "", "A", [], {}, [[]], [None], [1], ["A"], [[["A"]], [["B"]]],
    [[1], [2]], [["A"], [None]], [["A"], ["A"]], {"A": None}, {"A": 1}, {"A": "x"}, {"A": [[]]}, {"A": [[[[[]]]]]},
    {"A": [["1"], "A"]}, {"A": [[["1"], "A"]]}, {"A": [[[1], "??"]]}, {"A": [[[1], 5]]}, {"A": [10**30]}, {"Z": [1]},
    {"A": {"B": 1}}, {"A": {"pssm_coef": 1, "pssm_bias": 2}}, {"A": {"pssm_coef": [1] * 6}},
    {"A": {"pssm_coef": ["x"] * 6, "pssm_bias": ROWS}}, {"A": {"pssm_coef": [1] * 6, "pssm_bias": ROWS[:2]}},
    {"A": [["x"] * 21] * 6}, {"A": [[None] * 21] * 6}, {"A": [[10**400] * 21] * 6}, {"A": [0.0] * 6}, {"A": 0.0},
    {"A": [[0.0] * 20] * 6}, [{"A": 1}], [{"A": None}], [{"A": [[1]]}], [{"A": [[1], "x"]}], [{"A": [[1], ["x"]]}],
    [{"A": [[1], [None]]}], [{"A": [[1], [2], [3]]}], [{"A": [[1], [1.0, 2.0]]}],
]
"""What a line may say about a structure: wrong for most options."""
# fmt: on
GOOD: dict[str, Any] = {
    "chains": [["A"], []],
    "fixed": {"A": [1]},
    "tied": [{"A": [1, 2]}],
    "omit_at": {"A": [[[1], "A"]]},
    "bias_file": {"A": ROWS},
    "pssm": {"A": {"pssm_coef": [0.0] * 6, "pssm_bias": ROWS, "pssm_log_odds": ROWS}},
}


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_weights(tmp_path_factory.mktemp("weights"))


@pytest.mark.parametrize("option", GOOD)
def test_an_entry_of_any_kind(option: str, weights: Path, tmp_path: Path) -> None:
    """Each wrong one fails its own structure in one line, and the structure with a good one is designed."""
    names = [f"wrong{i}" for i in range(len(VALUES))]
    for name in (*names, "good"):
        (tmp_path / f"{name}.pdb").write_text(as_pdb(peptide(6)))
    lines = [json.dumps({name: value}) for name, value in zip(names, VALUES, strict=True)]
    lines += ["nonsense", "[1]", "[" * 100_000, json.dumps({"good": GOOD[option]})]
    (tmp_path / "file.jsonl").write_text("\n".join(lines))
    more: dict[str, Any] = {"pssm_share": 0.5, "pssm_log_odds": True} if option == "pssm" else {}
    asked = Options(model=str(weights), num=1, **{option: str(tmp_path / "file.jsonl")}, **more)
    job = design.run(tmp_path / "out", [tmp_path], asked)
    assert "good" in job.parts and len(job.failed) > len(VALUES) // 2
    assert all("\n" not in why and len(why) < 700 for why in job.failed.values())


@pytest.mark.parametrize("text", ["", "nonsense", "[1]", "[" * 100_000, '{"W": "x"}', '{"W": [1]}', '{"W": null}'])
@pytest.mark.parametrize("option", ["bias", "fixed"])
def test_a_file_without_a_good_line(option: str, text: str, weights: Path, tmp_path: Path) -> None:
    (tmp_path / "one.pdb").write_text(as_pdb(peptide(6)))
    (tmp_path / "file.jsonl").write_text(text)
    command = ["design", str(tmp_path / "one.pdb"), "--out", str(tmp_path / "out"), "--num", "1", "--quiet"]
    assert run([*command, "--model", str(weights), f"--{option}", str(tmp_path / "file.jsonl")]) == 1


def test_options_of_a_manifest_that_do_not_exist_or_have_another_type() -> None:
    with pytest.raises(InputError, match="there is no option nums: the options are model, weights"):
        Options.of({"nums": 3})
    with pytest.raises(InputError, match="the option num must be of type int, not 'x'"):
        Options.of({"num": "x"})


def test_a_file_of_biases_with_an_unknown_letter(weights: Path, tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "one.pdb").write_text(as_pdb(peptide(6)))
    (tmp_path / "bias.jsonl").write_text('{"W": 1.0, "Z": 2.0}')
    command = ["design", str(tmp_path / "one.pdb"), "--out", str(tmp_path / "out"), "--num", "1", "--quiet"]
    assert run([*command, "--model", str(weights), "--bias", str(tmp_path / "bias.jsonl")]) == 1
    shown = capsys.readouterr().err
    assert "--bias: the file has a number for 'Z', which is none of ACDEFGHIKLMNPQRSTVWYX" in shown
    assert shown.endswith("1 of 1 structure could not be done\n")  # there are no others


@pytest.mark.parametrize("more", [(), ("--score-only",), ("--unconditional-probs",)])
def test_more_sequences_than_memory_holds(
    more: tuple[str, ...], weights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr(needs, "free_memory", lambda: 2**30)
    (tmp_path / "one.pdb").write_text(as_pdb(peptide(6)))
    command = ["design", str(tmp_path / "one.pdb"), "--out", str(tmp_path / "out"), "--model", str(weights), *more]
    assert run([*command, "--num", "100000000"]) == 1
    told = capsys.readouterr().err
    assert "one: " in told and "GiB of memory, and 1.0 GiB are free: ask for fewer with --num" in told


def test_scores_of_many_orders_are_those_of_each(weights: Path, tmp_path: Path) -> None:
    (tmp_path / "one.pdb").write_text(as_pdb(peptide(6)))
    command = ["design", str(tmp_path / "one.pdb"), "--model", str(weights), "--score-only", "--quiet"]
    for num in ("300", "2"):
        assert run([*command, "--out", str(tmp_path / num), "--num", num]) == 0
    many, few = (np.load(tmp_path / num / "score_only" / "one_pdb.npz")["score"] for num in ("300", "2"))
    assert many.shape == (300,) and len(set(many.tolist())) > 100
    np.testing.assert_allclose(many[:2], few, atol=1e-6)


Change = Callable[[dict[str, Any]], object]


def without(name: str) -> Change:
    return lambda file: file["model_state_dict"].pop(name)


def with_(name: str, value: object) -> Change:
    return lambda file: file.__setitem__(name, value)


def filled(name: str, *shape: int) -> Change:
    return lambda file: file["model_state_dict"].__setitem__(name, torch.full(shape, torch.nan))


WRONG_WEIGHTS: list[Change] = [
    without("encoder_layers.0.W1.weight"),
    without("decoder_layers.0.W3.bias"),
    without("W_out.weight"),
    without("features.norm_edges.weight"),
    *(with_("num_edges", value) for value in (-5, 0, "many", None)),
    *(with_("model_state_dict", value) for value in ({}, [1])),
    filled("W_out.bias", 3),
    filled("W_out.bias", 21),
]


@pytest.mark.parametrize("change", WRONG_WEIGHTS)
def test_weights_with_something_missing_or_wrong(change: Change, weights: Path, tmp_path: Path) -> None:
    file = torch.load(weights, weights_only=True)
    change(file)
    torch.save(file, tmp_path / "bad.pt")
    with pytest.raises(InputError, match=r"bad\.pt.* is not a ProteinMPNN weight file") as caught:
        Weights.load(tmp_path / "bad.pt")
    assert "\n" not in str(caught.value)


def test_files_by_any_name(weights: Path, tmp_path: Path) -> None:
    """Each is read, or named as one that is not; what is no structure is passed over."""
    home = tmp_path / "in"
    home.mkdir()
    text = as_pdb(peptide(6)).encode()
    for name in ("A.PDB", "b.pdb1", "c.Ent", "d.pdb.GZ", "plain", "e.pdb12.gz"):
        (home / name).write_bytes(gzip.compress(text) if name.lower().endswith(".gz") else text)
    for name in ("f.bcif", "g.BCIF.gz", "notes.txt", "README", ".hidden.pdb", "h.pdb.bak"):
        (home / name).write_bytes(b"notes\n")
    (home / "a.d").mkdir()
    job = design.run(tmp_path / "out", [home, home / "notes.txt"], Options(model=str(weights), num=1))
    assert list(job.parts) == ["A", "b", "c", "d", "e", "plain"]
    assert sorted(Path(name).name for name in job.failed) == ["f.bcif", "g.BCIF.gz", "notes.txt"]
    assert "BinaryCIF is not read" in job.failed[str(home / "f.bcif")]


CIF = """data_x
loop_
_atom_site.group_PDB
_atom_site.auth_atom_id
_atom_site.auth_comp_id
_atom_site.auth_asym_id
_atom_site.auth_seq_id
_atom_site.Cartn_x
_atom_site.Cartn_y
_atom_site.Cartn_z
ATOM CA GLY A 1 0.0 0.0 0.0
ATOM CA GLY A {} 1.0 1.0 1.0
"""


@pytest.mark.parametrize("number", ["1" + 30 * "0", "-1" + 30 * "0", "1" + 4995 * "0", "1" + 4000 * "0", "1e5", "x"])
def test_residue_numbers_beyond_belief(number: str, weights: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.cif").write_text(CIF.format(number))
    (tmp_path / "good.pdb").write_text(as_pdb(peptide(6)))
    job = design.run(tmp_path / "out", [tmp_path], Options(model=str(weights), num=1))
    assert list(job.parts) == ["good"] and "\n" not in job.failed["bad"] and len(job.failed["bad"]) < 600


@pytest.mark.parametrize("name", ["cpus", "gpus", "hedge", "timeout", "start_timeout"])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0, "1", [1]], ids=str)
def test_settings_of_workers_are_numbers(name: str, value: Any) -> None:
    with pytest.raises(InputError, match=f"{name} must be"):
        RayWorkers(1, **{name: value})
    with pytest.raises(InputError, match=f"{name} must be"):
        da.Ray(peptide, 1, **{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("gpus", [float("nan"), float("inf"), -1.0])
def test_gpus_of_workers_on_the_command_line(gpus: float) -> None:
    with pytest.raises(InputError, match="--gpus-per-worker must be"):
        workers_named("ray:1", None, gpus)


@pytest.mark.parametrize("name", ["ray:100000000", f"ray:{10**30}", "ray:\u0663"])
def test_too_many_workers(name: str) -> None:
    with pytest.raises(InputError, match=r"at most 10000|must be ray"):
        workers_named(name, None, None)


def test_a_disk_that_is_full_when_the_lock_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(lock.os, "write", full)
    with pytest.raises(InputError, match="cannot be the lock of a job: No space left on device"):
        da.jobs.draw(tmp_path / "job", da.targets.Pairs(4), 2, name="a", seed=0)


@pytest.mark.parametrize("writes", [0, 3, 5])
def test_a_disk_that_is_full_while_sequences_are_written(
    writes: int, weights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    (tmp_path / "in").mkdir()
    for name in ("one", "two"):
        (tmp_path / "in" / f"{name}.pdb").write_text(as_pdb(peptide(6)))
    command = ["design", str(tmp_path / "in"), "--model", str(weights), "--num", "1", "--quiet", "--out"]
    assert run([*command, str(tmp_path / "whole")]) == 0
    sync, left = os.fsync, 2 * writes

    def full(handle: int) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sync(handle)

    with monkeypatch.context() as patch:
        patch.setattr(files.os, "fsync", full)
        assert run([*command, str(tmp_path / "out")]) == 1
    told = f"drawahead: No space left on device; what is finished is kept in {tmp_path / 'out'}: resume it\n"
    assert capsys.readouterr().err == told and not list(tmp_path.rglob("*.tmp"))
    assert run([*command, str(tmp_path / "out"), "--resume"]) == 0
    for name in ("seqs/one.fa", "seqs/two.fa", "parts/one.json", "parts/two.json", "designs.csv"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


@pytest.mark.parametrize("wrong", [{"seed": 2**63}, {"pssm_threshold": float("nan")}, {"temperature": ()}], ids=str)
def test_options_beyond_belief(wrong: dict[str, Any]) -> None:
    (name,) = wrong
    with pytest.raises(InputError, match=f"{name} must be"):
        Options(**wrong)
