"""Every command with every option, and every file that one reads: 0, or one line on stderr, whatever is given.

Some hundred fixed cases here; `make test-deep` runs new ones for as long as it is told. Commands and options are read
from the help texts: one that is added is covered from then on.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.differential.test_differential import deep_seeds
from tests.fuzz import formats, options
from tests.fuzz.judge import Case, Commands, Outcome, fault, faults
from tests.fuzz.template import made

EACH, FILES = 2, 7
"""Cases for each option, and for each file."""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Commands]:
    commands = made(tmp_path_factory.mktemp("template"))
    yield commands
    commands.close()


def test_every_command_and_option_is_known(run: Commands) -> None:
    listed = options.commands_of(run)
    assert len(listed) > 10 and {*listed} == {*options.BASES}
    shown = options.options_of(run, "sample")
    assert shown["--num"] == "N" and shown["--quiet"] == "" and shown["--order"] == "random|spread"
    assert sum(len(options.options_of(run, command)) for command in listed) > 90


@pytest.mark.parametrize("command", options.BASES)
def test_every_option(command: str, run: Commands) -> None:
    assert not faults(run, options.few(run, command, EACH))


@pytest.mark.parametrize("name", [*formats.READERS, *formats.FOLDERS])
def test_every_file(name: str, run: Commands) -> None:
    good = formats.READERS.get(name, ())
    for words in good:
        assert run(Case(words)).status == 0  # or what follows would fail for other reasons
    assert not faults(run, formats.few(run.template, name, FILES))


DEAF = (
    *("sample model.py:Deaf", "sample model.py:slow", "sample model.py:Deaf --out new", "compare model.py:Deaf"),
    *("verify model.py:Deaf", "time model.py:Deaf", "time model.py:slow", "sample dpp --kernel random:4000"),
    *("sample text --num 100000 --out new", "design one.pdb --model weights.pt --num 1000000 --out new"),
)
"""What takes long, in Python or in code that looks at no signal."""


@pytest.mark.parametrize("words", DEAF)
def test_ctrl_c_is_heard(words: str, run: Commands) -> None:
    case = Case(tuple(words.split()), seconds=0.7)
    outcome = run(case)
    assert not fault(case, outcome) and outcome.status == 130 and outcome.heard is not None


ENCODING = b'<?xml version="1.0" encoding="no-such"?><graphml/>'
HEADER = b"\x93NUMPY\x01\x00v\x00" + b"{'descr': '<f8', 'shape': (2,".ljust(118)
PUT_BACK = {
    "Ctrl-C waits for a library": (
        Case(("time", "model.py:slow"), seconds=0.7),
        "import drawahead.cli.interrupts as m; m.listen = lambda: None",
    ),
    "a name of Python's own is called": (
        Case(("verify", "os:abort")),
        "import drawahead.cli.own as m; m._is_pythons = lambda thing: False",
    ),
    "GraphML in an encoding that nobody has": (
        Case(("sample", "tree", "--graph", "edges.graphml"), {"edges.graphml": ENCODING}),
        "import networkx, drawahead.counting.commands.graphs as m; m._graphml = networkx.read_graphml",
    ),
    "a header that numpy reads as Python": (
        Case(("sample", "dpp", "--kernel", "kernel.npy"), {"kernel.npy": HEADER}),
        "import numpy, drawahead.counting.commands.kernels as m; m._read = numpy.load",
    ),
    "escapes reach the terminal": (
        Case(("sample", "tree", "--graph", "\x1b[31m")),
        "import drawahead.cli.saying as m; m.printable = lambda text: text",
    ),
    "an endless line": (
        Case(("sample", "x" * 5000)),
        "import drawahead.cli.saying as m; m._LONGEST = 10**9",
    ),
}
"""Faults that users had met, each with a case that finds it."""


@pytest.mark.parametrize("name", PUT_BACK)
def test_a_fault_that_is_put_back_is_found(name: str, run: Commands) -> None:
    case, patch = PUT_BACK[name]
    broken = replace(case, patch=patch, late=1.0)  # deaf commands are: to wait for long shows nothing more
    assert not fault(case, run(case)) and fault(broken, run(broken))


def test_what_is_judged_can_fail() -> None:
    def judged(words: str = "sample x", status: int = 0, out: bytes = b"", err: bytes = b"", **more: object) -> str:
        given = {"seconds": 0.1, "heard": None, "beside": ("here", "stderr", "stdout"), "written": {}} | more
        return fault(Case(tuple(words.split())), Outcome(status, out, err, **given))  # type: ignore[arg-type]

    line = b"drawahead: no\n"
    assert not judged() and not judged(status=1, err=line) and not judged(err=line) and not judged("verify x", 3)
    assert not judged("x --json", out=b"{}") and not judged(status=130, err=line, heard=0.5)
    assert judged(status=1) and judged(status=1, err=2 * line) and judged(status=-11) and judged(status=3)
    assert judged(err=b"Traceback (most recent call last):\n") and judged(status=70) and judged("x --json", out=b"x")
    assert judged(out=b"\x1b[31m") and judged(status=1, err=b"drawahead: \x07\n") and judged(err=b"warning\n")
    assert judged(heard=30.0, status=130, err=line) and judged(status=130, err=line)
    assert judged(written={"a.csv": "\u202e".encode()}) and judged(beside=("here", "stderr", "stdout", "x"))
    assert judged(status=1, err=b"drawahead: " + 5000 * b"x" + b"\n")


@pytest.mark.slow
def test_for_as_long_as_one_likes(run: Commands) -> None:
    """New cases every time; what fails names its seed, and DRAWAHEAD_DEEP=1 DRAWAHEAD_DEEP_SEED=<seed> repeats it."""
    for seed in deep_seeds():
        dice = random.Random(seed)
        name = dice.choice([*formats.READERS, *formats.FOLDERS])
        cases = [options.mixed(run, dice), formats.case(run.template, name, dice)]
        assert not faults(run, cases), f"seed {seed}"
