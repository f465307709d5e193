"""The command line with any words: an exit status that it documents, a line on stderr, never a traceback."""

from __future__ import annotations

import contextlib
import io
import json

from hypothesis import strategies as st

from drawahead.cli.app import run
from tests.fuzz.fuzzing import elsewhere, fuzzed

STATUSES = {0, 1, 2, 3, 130}
words = st.one_of(
    st.text(max_size=6),
    st.sampled_from(
        [
            *("", "-", "--", "-n", "-q", "--help", "--version", "--json", "--quiet", "--resume", "--any-version"),
            *(
                "..",
                "../x",
                "/",
                ".",
                "/dev/null/x",
                "a\0b",
                "\udcff",
                "x" * 300,
                "out.json",
                "out.npz",
                "out.png",
                "a/b.json",
            ),
            *(
                "0",
                "1",
                "-1",
                "2",
                "nan",
                "inf",
                "1e400",
                "99999999999999999999",
                "0x10",
                "1_0",
                "٣",
                " 1 ",
                "True",
                "None",
            ),
            *("pairs", "product", "table", "text:x", "os:system", "no.such:x", "job", "report.html", "auto", "coupled"),
        ]
    ),
)
options = st.sampled_from(
    [
        *("--num", "--seed", "--size", "--sampler", "--window", "--max-batch-size", "--order", "--out", "--shard-size"),
        *("--graph", "--kernel", "--items", "--coupling", "--gif"),
        *(
            "--prompt",
            "--guidance",
            "--temperature",
            "--steps",
            "--device",
            "--dtype",
            "--level",
            "--films",
            "--target",
            "--no-such",
            "--gif",
        ),
    ]
)
small = st.sampled_from(
    [
        ["--num", "2"],
        ["--num", "50"],
        ["--seed", "7"],
        ["--sampler", "block"],
        ["--sampler", "recursive"],
        ["--window", "2"],
        ["--window", "99999999999999999999"],
        ["--seed", "99999999999999999999"],
        ["--out", "out.json"],
        ["--out", "job"],
        ["--out", "\udcff.json"],
        ["--max-batch-size", "1"],
        ["--json"],
        ["--quiet"],
        ["--resume"],
    ]
)
rest = st.lists(
    st.one_of(small, small, st.tuples(options, words).map(list), words.map(lambda word: [word])), max_size=4
)
# A whole demonstration takes half a minute: it only gets an option it does not have.
commands = st.one_of(
    st.sampled_from([["sample", "pairs"], ["sample", "product"], ["sample", "table"]]).map(
        lambda words: [*words, "--size", "4", "--num", "3"]
    ),
    st.sampled_from(
        [["sample", "tree", "--graph", "grid:3"], ["sample", "dpp", "--kernel", "line:4"], ["explain", "block"]]
    ),
    st.sampled_from([["verify", "pairs", "--num", "50"], ["compare", "pairs", "--size", "4", "--num", "2"]]),
    st.sampled_from([["report"], ["report", "job"], ["targets"], ["samplers"], ["models"], ["sample"], ["verify"], []]),
    st.sampled_from([["demo", "--no-such"], ["no-such"]]),
)


def called(arguments: list[str]) -> tuple[int, str, str]:
    """The exit status, and what was printed on a terminal that knows UTF-8."""
    streams = [
        io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors=errors) for errors in ("strict", "backslashreplace")
    ]
    with contextlib.redirect_stdout(streams[0]), contextlib.redirect_stderr(streams[1]):
        status = run(arguments)
    for stream in streams:
        stream.flush()
        stream.seek(0)
    return status, streams[0].read(), streams[1].read()


@fuzzed(60, command=commands, more=rest)
def test_any_words(command: list[str], more: list[list[str]]) -> None:
    arguments = [*command, *(word for part in more for word in part)]
    with elsewhere() as here:
        status, printed, complaint = called(arguments)
        beside = [path.name for path in here.parent.iterdir()]
    assert status in STATUSES
    assert "Traceback" not in complaint
    if status in (1, 2):
        assert complaint.startswith("drawahead: ") and complaint.count("\n") == 1
    if status == 0 and "--json" in arguments and "--help" not in arguments and "--version" not in arguments:
        json.loads(printed)
    if not any(word.startswith(("..", "/")) for word in arguments):
        assert beside == ["here"]
