"""Cases for every option of every command: which there are is read from the help texts, so that none is left out."""

from __future__ import annotations

import functools
import itertools
import random
import re
from collections.abc import Iterator

from tests.fuzz.judge import Case, Commands

HUGE = "1000000000000000000"
NUMBERS = (
    *("0", "1", "-1", "2", "3", "", " ", "nan", "-inf", "1e400", "1.5", HUGE, f"1{HUGE}", "10000000", "0x10", "1_0"),
    *("\u0663", "\u00bd", " 1 ", "one", "1e-320", "0.0", "-0.0", "1e308", "0.5", "1,2", "2,nan", "\x1b[31m"),
)
PLAIN = """
- -- .. . /dev/null /dev/null/x no-such no-such.json a/b.json =1+1 ~ $HOME %s {} [ null None True 0 -1 nan
: :: a: :a a:b:c os:system builtins:breakpoint builtins:exit os:abort no.such:x model.py model.py: model.py:no
model.py:fails model.py:leaves broken.py:x job auto coupled pairs dpp random cpu cuda float16
A A1 A1-5 A9-1 A1=C A1=B1 W=-1 W=nan W=1e400 A,B , =, grid:3 grid:0 grid:99999x99999 complete:1000 cycle:100000
points:99 random:4000 line:0 ray:0 ray:100000000 ray:-1 ray:x ray:1:1 one.pdb weights.pt edges.txt edges.graphml
kernel.csv kernel.npy bias.jsonl out.json out.npz out.png out.txt out.html out.gif npz zarr parquet png txt csv fasta
"""
WORDS = (
    *("", " ", "x" * 300, "x" * 5000, "\udcff", "\udcff.json", "caf\u00e9", "\U0001f469\u200d\U0001f467"),
    *("\x1b]0;x\x07", "\u202e.json", "a\nb", "a\rb", f"A1-{HUGE}", f"A{HUGE}", f"grid:{HUGE}"),
    *PLAIN.split(),
)
SAMPLED = ("pairs", "--size", "4", "--num", "2")
DESIGNED = ("one.pdb", "--model", "weights.pt", "--num", "1", "--out", "new")
BASES: dict[str, tuple[tuple[str, ...], ...]] = {
    "sample": (
        SAMPLED,
        ("text", "--size", "4", "--num", "1"),
        ("tree", "--graph", "grid:3"),
        ("dpp", "--kernel", "line:4"),
        ("fashion", "--steps", "2", "--num", "1", "--out", "out.npz"),
        (*SAMPLED, "--out", "new"),
        ("pairs", "--out", "job", "--resume"),
        ("model.py:model", "--num", "2"),
    ),
    "design": (DESIGNED, (*DESIGNED, "--score-only"), ("one.pdb", "--out", "designs", "--resume")),
    "report": (("job",), ("designs",)),
    "demo": (("--no-such",),),  # a whole one takes half a minute
    "status": (("job",), ("designs",)),
    "check": (("job",), ("designs",)),
    "export": (("job", "--to", "npz"), ("designs", "--to", "npz")),
    "compare": (("pairs", "--size", "4", "--num", "2"),),
    "verify": (("model.py:model", "--num", "50"),),
    "time": (("model.py:model",), ("model.py:asks", "--steps", "3", "--rounds", "2")),
    "doctor": (("model.py:model",),),
    "targets": ((),),
    "samplers": ((),),
    "models": ((),),
    "explain": (("block",),),
}
"""By command: arguments with which it gets to its work."""
ENDLESS = {("status", "--watch"): 1.0, ("sample", "--compile"): 1.5}
"""What goes on until Ctrl-C, or for longer than anybody waits here, and after how many seconds that comes."""
_ROW = re.compile(r"^[│ *]+(--[a-z-]+)(?: +-[a-z])?(?: +(\S+)(?= \[|  ))?", re.MULTILINE)


def commands_of(run: Commands) -> list[str]:
    """All commands, as the help says."""
    text = run(Case(("--help",))).out.decode()
    return re.findall(r"^│ ([a-z]+) +[A-Z]", text, re.MULTILINE)


@functools.cache
def options_of(run: Commands, command: str) -> dict[str, str]:
    """Its options, each with what stands for its value: nothing for a flag."""
    text = run(Case((command, "--help"))).out.decode()
    return {name: value for name, value in _ROW.findall(text) if name != "--help"}


def values_of(shown: str) -> tuple[str, ...]:
    """Values for an option, by what stands for one in the help."""
    if not shown:
        return ()
    return NUMBERS if shown[0] in "NXK" and not shown.startswith("NAME") else WORDS


def cases_of(run: Commands, command: str) -> Iterator[Case]:
    """Every option with every value, and every argument."""
    bases = BASES[command]
    for base in bases:
        yield Case((command, *base))
        for word in WORDS:
            yield Case((command, word, *base[1:]))
    for option, shown in options_of(run, command).items():
        seconds = ENDLESS.get((command, option), 10.0)
        for base in bases:
            if not shown:
                yield Case((command, *base, option), seconds=seconds)
            for value in values_of(shown):
                yield Case((command, *base, option, value))


def few(run: Commands, command: str, each: int, seed: int = 0) -> list[Case]:
    """So many for each option, the same ones every time, and as many for the argument."""
    dice = random.Random(f"{command} {seed}")
    chosen: list[Case] = []
    for _, group in itertools.groupby(cases_of(run, command), lambda case: _option(case, command)):
        cases = [*group]
        chosen += dice.sample(cases, min(each, len(cases)))
    return chosen


def _option(case: Case, command: str) -> str:
    """The option that a case is about, or nothing."""
    last = [word for word in case.arguments[-2:] if word.startswith("--") and len(word) > 3]
    bases = [len(base) for base in BASES[command]]
    return last[-1] if last and len(case.arguments) - 1 > min(bases) else ""


def mixed(run: Commands, dice: random.Random) -> Case:
    """A command with several options at once, of any values."""
    command = dice.choice([name for name in BASES if name != "demo"])
    words = [command, *dice.choice(BASES[command])]
    for option, shown in dice.choices(sorted(options_of(run, command).items()), k=dice.randrange(1, 4)):
        if (command, option) not in ENDLESS:
            words += [option, *([dice.choice(values_of(shown))] if shown else [])]
    if dice.random() < 0.3:
        words.insert(dice.randrange(1, len(words) + 1), dice.choice(WORDS + NUMBERS))
    return Case(tuple(words))
