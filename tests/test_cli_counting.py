"""Trees, point processes, matchings and grids on the command line: what is drawn, how it looks, what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from PIL import Image
from rich.console import Console

import drawahead as da
from drawahead.cli.app import run
from drawahead.cli.registry import named
from drawahead.cli.subjects import TargetOptions
from drawahead.counting import Subgraphs
from drawahead.show import terminal
from drawahead.show.views import view_of
from tests.jobs.forging import forged

Output = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def drawn(capsys: Output, *words: str) -> dict[str, Any]:
    assert run(["sample", *words, "--json"]) == 0, capsys.readouterr().err
    shown: dict[str, Any] = json.loads(capsys.readouterr().out)
    return shown


def refused(capsys: Output, *words: str) -> str:
    assert run([*words]) == 1
    shown = capsys.readouterr()
    assert shown.out == "" and len(shown.err.splitlines()) == 1
    return shown.err


@pytest.mark.parametrize(
    ("spec", "graph"),
    [
        ("grid:4", nx.grid_2d_graph(4, 4)),
        ("grid:2x5", nx.grid_2d_graph(2, 5)),
        ("complete:6", nx.complete_graph(6)),
        ("cycle:7", nx.cycle_graph(7)),
    ],
)
def test_trees_of_named_graphs(spec: str, graph: nx.Graph, capsys: Output) -> None:
    for name in ("tree", "spanning-tree"):
        shown = drawn(capsys, name, "--graph", spec, "-n", "2")
        expected = da.sample(da.targets.SpanningTree(graph), 2, sampler=da.Coupled(), seed=0).samples
        assert len(shown["samples"]) == 2
        for edges, row in zip(shown["samples"], expected.tolist(), strict=True):
            tree = nx.Graph([tuple(tuple(end) if isinstance(end, list) else end for end in edge) for edge in edges])
            chosen = [edge for edge, inside in zip(graph.edges, row, strict=True) if inside]
            assert nx.is_tree(tree) and len(tree) == len(graph) and nx.utils.edges_equal(tree.edges, chosen)


def test_without_a_graph_tree_is_the_model_on_a_tree(capsys: Output) -> None:
    drawn_ = drawn(capsys, "tree", "--size", "6", "-n", "1", "--coupling", "0.9")["samples"]
    expected = da.sample(da.targets.TreeIsing.random(6, 0.9), 1, seed=0).samples
    assert drawn_ == expected.tolist()


def test_weights_are_read_from_files(here: Path, capsys: Output) -> None:
    graph = nx.Graph()
    graph.add_weighted_edges_from([("a", "b", 3.0), ("b", "c", 1.0), ("c", "d", 0.5), ("d", "a", 2.0)])
    (here / "lines.txt").write_text("# weights\na b 3\nb c\nc d 0.5 # half\n\nd a 2.0\n")
    (here / "commas.csv").write_text("a,b,3\nb,c,1\nc,d,0.5\nd,a,2\n")
    nx.write_graphml(graph, here / "graph.graphml")
    for name in ("lines.txt", "commas.csv", "graph.graphml"):
        tree = named("tree", TargetOptions(graph=name)).chain
        assert isinstance(tree, da.TokenChain) and isinstance(tree.oracle, da.targets.SpanningTree)
        assert tree.oracle.log_total == pytest.approx(da.targets.SpanningTree(graph).log_total)
        matching = named("matching", TargetOptions(graph=name)).chain
        assert isinstance(matching, da.TokenChain) and isinstance(matching.oracle, da.targets.PlanarMatching)
        assert matching.oracle.partition_function() == pytest.approx(3 * 0.5 + 1 * 2)
        pairs = drawn(capsys, "matching", "--graph", name)["samples"][0]
        assert {"".join(sorted(pair)) for pair in pairs} in ({"ab", "cd"}, {"bc", "ad"})


def test_nodes_that_are_squares_make_tilings(here: Path, capsys: Output) -> None:
    nx.write_graphml(nx.grid_2d_graph(2, 4), here / "board.graphml")
    (here / "board.txt").write_text("0,0 0,1 2\n0,0 1,0\n1,0 1,1\n0,1 1,1\n")
    for name, squares in (("board.graphml", 8), ("board.txt", 4)):
        tiling = drawn(capsys, "matching", "--graph", name)["samples"][0]
        assert sorted(map(tuple, (square for pair in tiling for square in pair))) == sorted(
            (i, j) for i in range(2) for j in range(squares // 2)
        )


def test_parallel_edges_are_fine_for_trees_only(here: Path, capsys: Output) -> None:
    (here / "double.txt").write_text("a b\na b 2\nb c\nc d\nd a\n")
    assert len(drawn(capsys, "tree", "--graph", "double.txt")["samples"][0]) == 3
    assert "a - b is there twice" in refused(capsys, "sample", "matching", "--graph", "double.txt")


WRONG = {
    "one.txt": ("a b\nc\n", "one.txt, line 2: an edge is two nodes"),
    "weight.txt": ("a b 1\nb c -2\n", "weight.txt, line 2: a weight is a positive number, not '-2'"),
    "nan.txt": ("a b nan\n", "nan.txt, line 1: a weight is a positive number"),
    "empty.txt": ("# nothing\n", "empty.txt holds no edge: write one on each line"),
    "cut.graphml": ("<graphml>\n<graph>\n", "cut.graphml, line 3: this is not XML"),
    "other.graphml": ("<html/>", "other.graphml cannot be read as GraphML"),
    "parts.txt": ("a b\nc d\n", "parts.txt: graph must be connected"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_graphs_are_told_with_file_and_line(name: str, here: Path, capsys: Output) -> None:
    text, words = WRONG[name]
    (here / name).write_text(text)
    assert words in refused(capsys, "sample", "tree", "--graph", name)


def test_wrong_graphs_of_other_kinds(here: Path, capsys: Output) -> None:
    nx.write_graphml(nx.DiGraph([(0, 1)]), here / "directed.graphml")
    named_ = nx.Graph([(0, 1, {"weight": "much"})])
    nx.write_graphml(named_, here / "words.graphml")
    for words, told in (
        (["tree", "--graph", "directed.graphml"], 'set edgedefault="undirected"'),
        (["tree", "--graph", "words.graphml"], "the weight of the edge 0 - 1 must be a positive number"),
        (["tree", "--graph", "nowhere.txt"], "there is no such file; give grid:N"),
        (["tree", "--graph", "cycle:3x4"], "only a grid has two sides"),
        (["tree", "--graph", "grid:0"], "1 to 100,000 nodes"),
        (["tree", "--graph", "grid:300x300"], "GiB"),
        (["matching", "--graph", "grid:3"], "odd number of vertices"),
        (["matching", "--graph", "complete:6"], "planar"),
        (["matching", "--size", "3"], "--size does not apply to matching, which takes --graph"),
        (["tree", "--graph", "grid:3", "--size", "3"], "--size does not apply to tree"),
        (["pairs", "--graph", "grid:3"], "--graph does not apply to pairs"),
        (["dpp", "--graph", "grid:3"], "--graph does not apply to dpp, which takes --kernel, --items"),
        (["markov", "--coupling", "1"], "--coupling does not apply to markov"),
    ):
        assert told in refused(capsys, "sample", *words)


def test_point_processes_of_files(here: Path, capsys: Output) -> None:
    matrix = da.targets.DPP.random(6).kernel.numpy() + np.eye(6)
    np.save(here / "kernel.npy", matrix)
    np.savetxt(here / "kernel.csv", matrix, delimiter=",", fmt="%.17g")
    process, sized = da.targets.DPP(L=matrix), da.targets.KDPP(matrix, 3)
    for name in ("kernel.npy", "kernel.csv"):
        free = drawn(capsys, "dpp", "--kernel", name, "-n", "4")["samples"]
        assert free == da.sample(process, 4, sampler=da.Coupled(), seed=0).samples.tolist()
        fixed = drawn(capsys, "dpp", "--kernel", name, "-n", "4", "--items", "3")["samples"]
        assert fixed == da.sample(sized, 4, sampler=da.Coupled(), seed=0).samples.tolist()
    points = drawn(capsys, "dpp", "--kernel", "points:4", "--items", "5", "-n", "2")["samples"]
    assert all(len(items) == 5 and max(items) < 16 for items in points)


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("a.csv", "1,0\n0\n", "a.csv, line 2: it has 1 numbers, and the first 2"),
        ("b.csv", "1,0\n0,x\n", "b.csv, line 2: could not convert"),
        ("c.csv", "1,0\n", "c.csv must hold a square matrix"),
        ("d.csv", "1,5\n0,1\n", "d.csv: L must be symmetric"),
        ("e.npy", "no array", "e.npy cannot be read"),
        ("f.mat", "", "ends in .npy or .csv"),
    ],
)
def test_wrong_kernels_are_told_with_file_and_line(name: str, text: str, told: str, here: Path, capsys: Output) -> None:
    (here / name).write_text(text)
    assert told in refused(capsys, "sample", "dpp", "--kernel", name)
    assert "there is no such file" in refused(capsys, "sample", "dpp", "--kernel", "nowhere.csv")
    assert "at most 16" in refused(capsys, "sample", "dpp", "--kernel", "points:4", "--items", "17")


def test_a_complex_kernel_is_refused(here: Path, capsys: Output) -> None:
    """Its real part alone would be another process."""
    np.save(here / "complex.npy", np.eye(4) + 0.3j * (np.eye(4, k=1) - np.eye(4, k=-1)))
    assert "complex.npy holds complex numbers" in refused(capsys, "sample", "dpp", "--kernel", "complex.npy")


@pytest.mark.parametrize(
    "words",
    [
        ["tree", "--graph", "grid:6"],
        ["tree", "--graph", "complete:7"],
        ["dpp", "--kernel", "points:5"],
        ["matching", "--graph", "cycle:8"],
        ["matching", "--graph", "grid:4"],
        ["ising", "--size", "6", "--coupling", "0.6"],
    ],
    ids=" ".join,
)
def test_all_have_pictures(words: list[str], here: Path, capsys: Output) -> None:
    assert run(["sample", *words, "--out", "a.png", "-n", "2"]) == 0, capsys.readouterr().err
    assert "wrote a.png" in capsys.readouterr().out
    with Image.open(here / "a.png") as picture:
        assert min(picture.size) >= 300 and len(picture.convert("RGB").getcolors(100_000) or []) > 2


def test_a_picture_shows_what_was_drawn(here: Path, capsys: Output) -> None:
    """Where spins are up there is one colour, where they are down the other."""
    assert run(["sample", "ising", "--size", "4", "-n", "1", "--out", "a.png", "-q"]) == 0
    spins = da.sample(da.targets.Ising(4, 4), 1, seed=0).samples.view(4, 4)
    with Image.open(here / "a.png") as picture:
        image, gap = picture.convert("RGB"), 12
    side = (image.width - 2 * gap) / 4
    colours = {0: (0xE4, 0xDF, 0xD3), 1: (0x24, 0x56, 0x6B)}
    for i in range(4):
        for j in range(4):
            at = round(gap + (j + 0.5) * side), round(gap + (i + 0.5) * side)
            assert image.getpixel(at) == colours[int(spins[i, j])]


def test_jobs_know_the_file_they_were_begun_with(here: Path, capsys: Output) -> None:
    (here / "g.txt").write_text("a b\nb c\nc a\n")
    begin = ["sample", "tree", "--graph", "g.txt", "-n", "4", "--shard-size", "2", "--out", "job"]
    assert run(begin) == 0
    assert run(["report", "job"]) == 0 and "made from a file" in capsys.readouterr().out
    assert run(["report", "job", "--target", "tree"]) == 0
    assert "strokes" in (here / "job" / "report.html").read_text()
    resume = ["sample", "tree", "--out", "job", "--resume"]
    assert run(resume) == 0
    (here / "g.txt").write_text("a b\nb c\nc a 5\n")
    capsys.readouterr()
    assert "not the file that the job was begun with" in refused(capsys, *resume)
    assert run(["sample", "tree", "--graph", "grid:3", "-n", "2", "--out", "named", "-q"]) == 0
    assert run(["report", "named"]) == 0 and "made from a file" not in capsys.readouterr().out
    assert run(["sample", "dpp", "--kernel", "points:3", "-n", "2", "--out", "points", "-q"]) == 0
    assert run(["report", "points", "-q"]) == 0
    assert '<svg class="strokes"' in (here / "points" / "report.html").read_text()  # as points, not as digits
    # A page of a stranger's job builds little.
    forged(here / "named", lambda found: found["target"]["options"].update(graph="grid:300"))
    assert run(["report", "named"]) == 0 and "made from a file" in capsys.readouterr().out


def test_tilings_as_text() -> None:
    """Plain where there are no colours: a line along each domino, and nothing between them."""
    matching = da.tilings.dominoes("square", 4)
    result = da.sample(matching, 1, sampler=da.Separated(), seed=0)
    plain, wide = Console(width=80, color_system=None), Console(width=80, color_system="truecolor", force_terminal=True)
    view = view_of(da.TokenChain(matching))
    for console in (plain, wide):
        with console.capture() as shown:
            console.print(view.terminal(result, console))
        assert ("\x1b[" in shown.get()) == (console is wide)
    with plain.capture() as shown:
        plain.print(view.terminal(result, plain))
    lines = [line.ljust(8) for line in shown.get().splitlines()]
    across = {(i, j) for i, line in enumerate(lines) for j in range(4) if line[2 * j : 2 * j + 2] == "╺━"}
    down = {(i, j) for i, line in enumerate(lines) for j in range(4) if line[2 * j] == "╻"}
    found = {((i, j), (i, j + 1)) for i, j in across} | {((i, j), (i + 1, j)) for i, j in down}
    assert found == {tuple(sorted(pair)) for pair in matching.matchings(result.samples)[0]}
    with (narrow := Console(width=6, color_system=None)).capture() as shown:
        narrow.print(view.terminal(result, narrow))
    assert "too wide" in " ".join(shown.get().split())


def test_lines_are_for_grids_alone() -> None:
    console = Console(width=80)
    assert terminal.grid_lines([((0, 0), (1, 1))], console) is None
    assert terminal.grid_lines([("a", "b")], console) is None
    assert terminal.grid_lines([], console) is None


def test_subgraphs_appear_when_they_are_known() -> None:
    for target in (da.targets.SpanningTree.grid(3, 3), da.targets.PlanarMatching(nx.cycle_graph(6))):
        sample = da.sample(target, 1, seed=0).samples[0]
        view = Subgraphs(target)
        times = view.times(sample, torch.arange(1, target.length + 1))
        assert len(times) == len(view.picture(sample).lines) and min(times) >= 1


def test_wide_grids_are_exact() -> None:
    """The sum over all of a grid of 16 columns and 2 rows, by its transpose: another order of the same sites."""
    wide, high = da.targets.Ising(2, 16, 0.3, 0.1), da.targets.Ising(16, 2, 0.3, 0.1)
    evidence = torch.full((1, 32), da.HIDDEN)
    evidence[0, 3] = 1
    turned = evidence.view(1, 2, 16).mT.reshape(1, 32)
    answer = high.rows(turned).view(1, 16, 2, 2).transpose(1, 2).reshape(1, 32, 2)
    hidden = evidence[0] == da.HIDDEN
    assert torch.allclose(wide.rows(evidence)[0, hidden], answer[0, hidden], atol=1e-12)
    square = da.targets.Ising(16, 16, 0.2)
    known = torch.randint(2, (1, 256), generator=torch.Generator().manual_seed(0))
    known[0, 100] = da.HIDDEN  # all others known: its four neighbours decide
    field = 0.2 * float((2 * known[0, [84, 99, 101, 116]] - 1).sum())
    row = square.rows(known)[0, 100]
    assert float(row[1] - row[0]) == pytest.approx(2 * field)
