"""`drawahead status` and `check` on the folder of a design job."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from drawahead import design
from drawahead.cli.app import run
from drawahead.jobs import lock
from tests.design.structures import folder_of, save_weights

Output = pytest.CaptureFixture[str]
FILES = ("parts/one.json", "seqs/one.fa", "seqs/three.fa", "designs.csv")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A design job of four structures."""
    home = tmp_path_factory.mktemp("designs")
    save_weights(home / "weights")
    asked = design.Options(weights=str(home / "weights"), num=2, temperature=(0.1, 0.5), seed=3)
    design.run(home / "out", [folder_of(home / "in")], asked)
    return home / "out"


@pytest.fixture
def out(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "out"))


def damaged(out: Path, capsys: Output) -> list[str]:
    """What `status` names; and `check` says the same with its exit status, in one line."""
    assert run(["status", str(out), "--json"]) == 0
    found: list[str] = json.loads(capsys.readouterr().out)["damaged"]
    assert run(["check", str(out), "--quiet"]) == bool(found)
    shown = capsys.readouterr()
    assert shown.out == "" and shown.err.count("\n") == bool(found) and all(name in shown.err for name in found[:5])
    return found


def test_a_sound_one(out: Path, capsys: Output) -> None:
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    assert run(["status", str(out)]) == run(["check", str(out)]) == 0
    assert capsys.readouterr().out == (
        "designs by v_48_020: 4 of 4 structures, 16 sequences, complete\nall 4 parts are sound: 4 of 4 structures\n"
    )
    assert run(["check", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"folder": str(out), "parts": 4, "damaged": []}
    with lock.locked(out):
        assert run(["status", str(out)]) == 0 and "16 sequences, being drawn\n" in capsys.readouterr().out
    assert {path: path.read_bytes() for path in before} == before | {out / "lock": (out / "lock").read_bytes()}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(
    "damage", [lambda path: path.write_bytes(b""), Path.unlink, lambda path: path.write_text("[]")]
)
def test_a_damaged_file_is_named_and_written_again(
    name: str, damage: Callable[[Path], object], out: Path, capsys: Output
) -> None:
    whole = (out / name).read_bytes()
    damage(out / name)
    if not (out / name).exists() and name.startswith("parts/"):  # one that is not there is not finished
        assert damaged(out, capsys) == ["designs.csv"]  # which has its sequences
        assert run(["status", str(out)]) == 0
        assert "3 of 4 structures" in (shown := capsys.readouterr().out) and "go on with: drawahead design" in shown
    else:
        assert damaged(out, capsys) == [name]
        assert run(["status", str(out)]) == 0
        assert f"1 damaged: {name}; drawahead design --out {out} --resume" in capsys.readouterr().out
    assert run(["design", "--out", str(out), "--resume", "--quiet"]) == 0
    assert (out / name).read_bytes() == whole and damaged(out, capsys) == []


def test_every_damaged_file_is_named(out: Path, capsys: Output) -> None:
    for name in FILES:
        path = out / name
        path.write_bytes(path.read_bytes()[:-3] + b"A" + path.read_bytes()[-2:])
    assert damaged(out, capsys) == ["parts/one.json", "seqs/three.fa", "designs.csv"]  # FASTA files follow from parts


def test_flipped_bits(out: Path, capsys: Output) -> None:
    """All files at many places."""
    dice = random.Random(0)
    for name in FILES:
        whole = (out / name).read_bytes()
        for _ in range(25):
            at = dice.randrange(len(whole))
            (out / name).write_bytes(whole[:at] + bytes([whole[at] ^ 1 << dice.randrange(8)]) + whole[at + 1 :])
            assert damaged(out, capsys) == [name], at
        (out / name).write_bytes(whole)


@pytest.mark.parametrize("command", ["status", "check"])
def test_a_damaged_manifest_is_refused(command: str, out: Path, capsys: Output) -> None:
    path, dice = out / "design.json", random.Random(1)
    whole = path.read_bytes()
    for _ in range(40):
        at = dice.randrange(len(whole))
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << dice.randrange(8)]) + whole[at + 1 :])
        assert run([command, str(out)]) == 1
        shown = capsys.readouterr()
        assert shown.out == "" and shown.err.count("\n") == 1 and "design.json: it" in shown.err


@pytest.mark.parametrize("name", ["parts", "seqs", "designs.csv"])
def test_links_are_refused(name: str, out: Path, tmp_path: Path, capsys: Output) -> None:
    (out / name).rename(tmp_path / "elsewhere")
    (out / name).symlink_to(tmp_path / "elsewhere")
    for command in ("status", "check"):
        assert run([command, str(out)]) == 1 and f"{name} is a link" in capsys.readouterr().err


def test_parts_of_another_job_are_named(made: Path, out: Path, tmp_path: Path, capsys: Output) -> None:
    asked, structures = design.settings(made)
    other = design.Options.of(asked.to_dict() | {"seed": 4})
    design.run(tmp_path / "other", [f"{structures[0]}/one.pdb"], other)
    shutil.copy(tmp_path / "other" / "parts" / "one.json", out / "parts" / "one.json")
    assert damaged(out, capsys) == ["parts/one.json"]


@pytest.mark.parametrize("words", [("report",), ("export", "--to", "npz"), ("export", "--to", "fasta")])
def test_what_is_about_samples_says_where_designs_are(words: tuple[str, ...], out: Path, capsys: Output) -> None:
    command, *rest = words
    assert run([command, str(out), *rest]) == 1
    shown = capsys.readouterr().err
    assert "holds a design job: its sequences are in seqs" in shown and "drawahead design --out" in shown
    assert shown.count("\n") == 1 and sorted(path.name for path in out.parent.iterdir()) == ["out"]


def test_folders_of_earlier_versions(out: Path, capsys: Output) -> None:
    """They had no checksums: a part counts if it can be read."""
    manifest = json.loads((out / "design.json").read_text())
    for key in ("sha256", "format", "records"):
        del manifest[key]
    (out / "design.json").write_text(json.dumps(manifest))
    for path in (out / "parts").iterdir():
        path.write_text(json.dumps(json.loads(path.read_text())["part"]))
    assert damaged(out, capsys) == []
    (out / "parts" / "two.json").write_text('{"native": 3}')
    assert damaged(out, capsys) == ["parts/two.json"]
