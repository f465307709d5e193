"""Text from outside reaches a terminal, or the heading of a FASTA entry, as text: nothing in it is obeyed, and no line
of it passes for one of ours."""

from __future__ import annotations

import ast
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from hypothesis import strategies as st

import drawahead as da
from drawahead import design
from drawahead.cli.app import app, run
from drawahead.jobs import lock, store
from drawahead.proteins.design import Options
from drawahead.proteins.structures.files import made_up_backbone
from drawahead.show.progress import line
from drawahead.words import cell, printable
from tests.design.structures import as_pdb, peptide, save_weights
from tests.fuzz.fuzzing import fuzzed
from tests.jobs.forging import forged, resealed, told

EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e\r\n>fake\ndrawahead: done\x7f\u2028x"
NAME = EVIL.replace("/", "")
"""The same for the name of a file."""
SOURCE = Path(da.__file__).parent
Output = pytest.CaptureFixture[str]


def assert_plain(text: str) -> None:
    assert "owned" in text, "what was planted is not shown at all: the case tests nothing"
    for shown in text.splitlines():
        assert shown.isprintable() and not shown.startswith((">fake", "drawahead: done")), ascii(shown)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def draw(folder: Path, name: str = "ising", num: int = 4) -> None:
    target = da.targets.named("ising", 3)
    da.jobs.draw(folder, target, num, name=name, options={"size": 3}, seed=0, shard_size=2, sampler=da.Coupled())


def named(command: str, *more: str) -> Callable[[Path], None]:
    def case(here: Path) -> None:
        draw(here / "job", EVIL)
        if command == "sample":
            (here / "job/shards/000000.safetensors").unlink()
            run(["sample", "ising", "--out", "job", "--resume"])
        else:
            run([command, "job", *more])

    return case


def in_a_folder_of_this_name(here: Path) -> None:
    draw(here / NAME)
    for command in (["report"], ["check"], ["status"], ["export", "--to", "npz"]):
        run([command[0], NAME, *command[1:]])
    run(["sample", "ising", "--out", NAME])
    run(["sample", "ising", "--size", "3", "--out", NAME, "--resume", "--seed", "0", "-n", "4"])


def as_option_of_the_job(here: Path) -> None:
    draw(here / "job")
    forged(here / "job", lambda found: found["target"]["options"].update({EVIL: EVIL, "size": EVIL}))
    run(["report", "job"])
    run(["sample", "ising", "--size", "3", "--out", "job", "--resume"])


def as_sampler(here: Path) -> None:
    draw(here / "job")
    forged(here / "job", lambda found: found["sampler"].update(kind=None, text=EVIL, choice=EVIL))
    for shard in (here / "job/shards").iterdir():
        shard.write_bytes(told(shard.read_bytes(), sampler=EVIL, choice=EVIL))
    run(["report", "job"])
    run(["sample", "ising", "--size", "3", "--out", "job", "--resume"])
    print(da.jobs.read("job").report)  # noqa: T201
    print(repr(da.jobs.read("job")))  # noqa: T201


def as_keys_of_the_manifest(here: Path) -> None:
    draw(here / "job")
    path = here / "job/manifest.json"
    for data in (json.dumps(found := json.loads(path.read_text()) | {EVIL: 1}).encode(), resealed(found)):
        path.write_bytes(data)
        run(["status", "job"])


def as_the_error_that_stopped_a_job(here: Path) -> None:
    draw(here / "job", num=3)
    (here / "job/shards/000001.safetensors").unlink()
    store.Status(here / "job", 0).tell(1, {}, EVIL)
    run(["status", "job"])


def as_the_note_of_a_worker(here: Path) -> None:
    as_the_error_that_stopped_a_job(here)
    with lock.locked(here / "job"):
        workers = {"workers": EVIL, "ready": EVIL, "replaced": EVIL, "note": EVIL}
        store.Status(here / "job", 0).tell(1, workers)
        run(["status", "job"])


def as_the_host_that_holds_the_lock(here: Path) -> None:
    draw(here / "job")
    with lock.locked(here / "job"):
        (here / "job/lock").write_text(json.dumps({"pid": EVIL, "host": EVIL}))
        run(["sample", "ising", "--size", "3", "--out", "job", "--resume"])


def as_an_error_of_a_model(here: Path) -> None:
    (here / "mine.py").write_text(f"def model():\n    raise RuntimeError({EVIL!r})\n")
    run(["sample", "mine.py:model"])
    run(["verify", "mine.py:model"])
    (here / "failing.py").write_text(
        "import drawahead as da\n"
        "def rows(tokens):\n"
        f"    raise RuntimeError({EVIL!r})\n"
        "model = da.TokenChain(rows, length=3, vocab_size=2)\n"
    )
    run(["sample", "failing.py:model", "-n", "2"])
    run(["sample", "failing.py:model", "-n", "2", "--out", "failed"])
    run(["status", "failed"])


def as_an_argument(here: Path) -> None:
    for words in (["sample", EVIL], ["sample", "ising", f"--{EVIL}"], ["explain", EVIL], ["compare", EVIL], [EVIL]):
        run(words)
    run(["sample", "ising", "--num", EVIL])
    run(["sample", f"{NAME}.py:model"])


def as_the_nodes_of_a_graph(here: Path) -> None:
    nodes = ["a\x1b]0owned\x07", "b\x9b31m\u202e", "c\x7f"]
    (here / "g.txt").write_text(f"{nodes[0]} {nodes[1]}\n{nodes[1]} {nodes[2]}\n{nodes[2]} {nodes[0]}\n")
    assert run(["sample", "tree", "--graph", "g.txt", "-n", "2"]) == 0
    assert run(["sample", "tree", "--graph", "g.txt", "-n", "2", "-q"]) == 0


def as_the_name_of_a_structure(here: Path) -> None:
    save_weights(here / "weights")
    (here / "in").mkdir()
    (here / "in" / f"{NAME}.pdb").write_text(as_pdb(peptide(6)))
    (here / "in" / f"{NAME}2.pdb").write_text("ATOM  " + EVIL.replace("\n", "").replace("\r", "").replace("\u2028", ""))
    command = ["design", "in", "--out", "out", "--weights", "weights", "--num", "1"]
    assert run(command) == 1
    (here / "in" / f"{NAME}2.pdb").unlink()
    assert run(["design", "--out", "out", "--resume"]) == 0
    assert run([*command, "--score-only"]) == 0
    (fasta,) = (here / "out/seqs").glob("*.fa")
    whole = fasta.read_text()
    fasta.write_text("")
    assert run(["status", "out"]) == 0 and run(["check", "out"]) == 1
    fasta.write_text(whole)
    entries = fasta.read_text().split("\n")
    assert [entry[:1] for entry in entries] == [">", entries[1][:1], ">", entries[3][:1], ""]
    assert all(entry.isprintable() for entry in entries)
    assert (here / "out/designs.csv").read_text().count("\n") == 2


def as_the_chains_of_a_structure(here: Path) -> None:
    save_weights(here / "weights")
    chain = "'A\x1b]0;owned\x07\x9b31m\u202e >fake'"
    rows = [
        f"ATOM {atom} ALA {chain} {i + 1} {x:.3f} {y:.3f} {z:.3f}"
        for i, residue in enumerate(made_up_backbone(6).coordinates.tolist())
        for atom, (x, y, z) in zip(("N", "CA", "C", "O"), residue, strict=True)
        if (i, atom) != (2, "O")
    ]
    names = (
        "group_PDB",
        "auth_atom_id",
        "auth_comp_id",
        "auth_asym_id",
        "auth_seq_id",
        "Cartn_x",
        "Cartn_y",
        "Cartn_z",
    )
    head = "".join(f"_atom_site.{name}\n" for name in names)
    (here / "a.cif").write_text(f"data_X\nloop_\n{head}" + "\n".join(rows) + "\n")
    command = ["design", "a.cif", "--weights", "weights", "--num", "1"]
    assert run([*command, "--out", "out"]) == 0
    assert run([*command, "--out", "other", "--chains", "B"]) == 1
    assert run([*command, "--out", "third", "--redesign", "B7"]) == 1
    assert all(entry.isprintable() for entry in (here / "out/seqs/a.fa").read_text().split("\n"))


def as_the_name_of_weights(here: Path) -> None:
    save_weights(here).rename(here / f"{NAME}.pt")
    (here / "one.pdb").write_text(as_pdb(peptide(6)))
    assert run(["design", "one.pdb", "--model", f"{NAME}.pt", "--num", "1", "--out", NAME]) == 0
    assert [entry[:1] for entry in (here / NAME / "seqs/one.fa").read_text().split("\n")].count(">") == 2
    (here / f"{NAME}.pt").write_bytes(b"nothing")
    assert run(["design", "one.pdb", "--model", f"{NAME}.pt", "--num", "1", "--out", "other"]) == 1


def in_the_manifest_of_a_design(here: Path) -> None:
    save_weights(here / "weights")
    (here / "one.pdb").write_text(as_pdb(peptide(6)))
    design.run(here / "out", [here / "one.pdb"], Options(weights=str(here / "weights"), num=1))
    path = here / "out/design.json"
    good = json.loads(path.read_text())
    for change in (
        {"structures": [EVIL]},
        {"asked": {EVIL: EVIL}},
        {"asked": good["asked"] | {"chains": EVIL}},
        {"asked": good["asked"] | {"model": EVIL}},
        {EVIL: 1},
    ):
        for data in (json.dumps(good | change).encode(), resealed(good | change)):
            path.write_bytes(data)
            run(["status", "out"])
            run(["check", "out"])
            run(["design", "--out", "out", "--resume"])
            run(["design", "one.pdb", "--out", "out", "--resume", "--weights", "weights", "--num", "1"])


CASES: dict[str, Callable[[Path], None]] = {
    **{f"name of a job: {command}": named(command) for command in ("status", "report", "sample")},
    "name of a job: export": named("export", "--to", "png"),
    **{
        case.__name__.replace("_", " "): case
        for case in (
            in_a_folder_of_this_name,
            as_option_of_the_job,
            as_sampler,
            as_keys_of_the_manifest,
            as_the_error_that_stopped_a_job,
            as_the_note_of_a_worker,
            as_the_host_that_holds_the_lock,
            as_an_error_of_a_model,
            as_an_argument,
            as_the_nodes_of_a_graph,
            as_the_name_of_a_structure,
            as_the_chains_of_a_structure,
            as_the_name_of_weights,
            in_the_manifest_of_a_design,
        )
    },
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_planted_is_only_shown(name: str, here: Path, capsys: Output) -> None:
    CASES[name](here)
    shown = capsys.readouterr()
    assert_plain(shown.out + shown.err)


def inputs() -> Iterator[tuple[str, str]]:
    """Every option and argument of every command, but for flags."""
    group: Any = typer.main.get_command(app)
    for name, command in group.commands.items():
        for parameter in command.params:
            if not getattr(parameter, "is_flag", False) and not (name == "demo" and parameter.name == "out"):
                yield name, parameter.opts[0]


BASE = {
    "sample": ["ising", "--size", "2", "--num", "1"],
    "compare": ["pairs", "--size", "2", "--num", "4", "--quiet"],
    "verify": ["pairs", "--num", "50", "--quiet"],
    "time": ["product"],
    "export": ["job", "--to", "npz"],
    **{name: ["job"] for name in ("report", "status", "check")},
}


@pytest.mark.parametrize(("command", "option"), list(inputs()))
def test_whatever_is_planted_in_an_option(command: str, option: str, here: Path, capsys: Output) -> None:
    draw(here / "job")
    base = BASE.get(command, [])
    planted = [option, NAME] if option.startswith("-") else [NAME]
    kept = base[1:] if base and not option.startswith("-") else base
    run([command, *planted, *kept] if not option.startswith("-") else [command, *kept, *planted])
    shown = capsys.readouterr()
    assert all(text.isprintable() for text in (shown.out + shown.err).splitlines())
    assert not any(text.startswith((">fake", "drawahead: done")) for text in (shown.out + shown.err).splitlines())


@pytest.mark.parametrize("start", ["=1+1", "+1", "-1", "@SUM(A1)", " =1", "\t=1"])
def test_a_cell_is_no_formula(start: str) -> None:
    assert cell(start).startswith("'") or "\\t" in cell(start)
    assert cell("1abc=2") == "1abc=2" and cell(EVIL).isprintable()


def test_a_table_of_designs_holds_no_formula(here: Path) -> None:
    save_weights(here / "weights")
    (here / "=HYPERLINK(1).pdb").write_text(as_pdb(peptide(6)))
    assert run(["design", "=HYPERLINK(1).pdb", "--weights", "weights", "--num", "1", "--out", "out"]) == 0
    assert (here / "out/designs.csv").read_text().splitlines()[1].startswith("'=HYPERLINK(1)")


def test_headings_of_exported_samples(here: Path, capsys: Output) -> None:
    assert run(["sample", "text", "--size", "6", "--num", "3", "--out", "job", "-q"]) == 0
    forged(here / "job", lambda found: found.update(target={"name": EVIL, "options": {}}))
    (here / "mine.py").write_text(
        "from drawahead.cli.registry import named\nfrom drawahead.cli.subjects import TargetOptions\n"
        "model = named('text', TargetOptions(size=6)).chain\n"
    )
    assert run(["export", "job", "--to", "fasta", "--target", "mine.py:model"]) == 0
    entries = (here / "job.fasta").read_text().split("\n")
    assert [entry[:1] == ">" for entry in entries] == [True, False] * 3 + [False] and EVIL[5:9] in entries[0]


def test_a_line_of_progress_holds_no_more_than_words() -> None:
    assert_plain(line(0.5, ["owned", EVIL], 400))


@pytest.mark.parametrize("planted", [None, "the bug"])
def test_the_cases_can_fail(planted: str | None, here: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    """With text as it came, as it once was, each of these finds it."""
    if planted:
        for module in ("cli.saying", "proteins.design.folder", "show.terminal", "report", "jobs.job"):
            monkeypatch.setattr(f"drawahead.{module}.printable", lambda text: text)
    found = []
    for name in ("name of a job: status", "as sampler", "as an argument", "as the nodes of a graph"):
        CASES[name](here)
        shown = capsys.readouterr()
        try:
            assert_plain(shown.out + shown.err)
        except AssertionError:
            found.append(name)
        for path in here.iterdir():
            path.rename(here.parent / f"{path.name}-{len(list(here.parent.iterdir()))}")
    assert len(found) == (4 if planted else 0)


@fuzzed(200, text=st.text())
def test_printable(text: str) -> None:
    shown = printable(text)
    assert all(letter.isprintable() or letter.isspace() for letter in shown) and len(shown.splitlines()) <= 1
    assert printable(shown) == shown
    io.StringIO().write(shown.encode("utf-8").decode())  # no half of a pair is left


def test_nothing_else_prints() -> None:
    """Commands print by `say`, `say_json` and `fail` alone, or rich tables that are made of drawahead's own words."""
    printed = {}
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in (
                "print",
                "typer.echo",
                "click.echo",
                "typer.secho",
            ):
                printed.setdefault(str(path.relative_to(SOURCE)), []).append(node.lineno)
    assert printed.keys() == {"cli/saying.py"}
