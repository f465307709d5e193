"""Cases for every kind of file that commands read: good ones, damaged in all ways, and wrong from the start."""

from __future__ import annotations

import gzip
import io
import json
import random
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.fuzz.judge import Case

DESIGN = ("design", "--out", "new", "--num", "1", "--model", "weights.pt", "-q")
READERS: dict[str, tuple[tuple[str, ...], ...]] = {
    "one.pdb": ((*DESIGN, "one.pdb"),),
    "one.cif": ((*DESIGN, "one.cif"),),
    "weights.pt": ((*DESIGN, "one.pdb"),),
    "bias.jsonl": ((*DESIGN, "one.pdb", "--bias-file", "bias.jsonl"),),
    "fixed.jsonl": ((*DESIGN, "one.pdb", "--fixed", "fixed.jsonl"),),
    "chains.jsonl": ((*DESIGN, "one.pdb", "--chains", "chains.jsonl"),),
    "tied.jsonl": ((*DESIGN, "one.pdb", "--tied", "tied.jsonl"),),
    "omit.jsonl": ((*DESIGN, "one.pdb", "--omit-at", "omit.jsonl"),),
    "letters.jsonl": ((*DESIGN, "one.pdb", "--bias", "letters.jsonl"),),
    "pssm.jsonl": ((*DESIGN, "one.pdb", "--pssm", "pssm.jsonl", "--pssm-share", "0.5", "--pssm-log-odds"),),
    "edges.txt": (("sample", "tree", "--graph", "edges.txt"), ("sample", "matching", "--graph", "edges.txt")),
    "edges.graphml": (("sample", "tree", "--graph", "edges.graphml"),),
    "kernel.npy": (("sample", "dpp", "--kernel", "kernel.npy"),),
    "kernel.csv": (("sample", "dpp", "--kernel", "kernel.csv", "--items", "1"),),
    "model.py": (("verify", "model.py:model", "--num", "50", "-q"),),
}
"""By the name of a good file in the template: commands that read it."""
FOLDERS: dict[str, tuple[tuple[str, ...], ...]] = {
    "job": (
        *(("status", "job"), ("check", "job"), ("report", "job", "--films", "1"), ("export", "job", "--to", "npz")),
        ("sample", "pairs", "--out", "job", "--resume", "-q"),
    ),
    "designs": (
        *(("status", "designs"), ("check", "designs"), ("report", "designs")),
        ("export", "designs", "--to", "fasta"),
        ("design", "one.pdb", "--model", "weights.pt", "--num", "2", "--out", "designs", "--resume", "-q"),
    ),
}
"""The same for folders, any file of which may be the damaged one."""
NUMBERS = (
    "0",
    "-1",
    "1e999",
    "nan",
    "NaN",
    "-Infinity",
    "1" + 30 * "0",
    "9" * 5000,
    "0.5",
    "true",
    "null",
    '"x"',
    "[]",
)
SCRAPS = (
    *(b"\0", b"\xff", b"\x1b[31m", b"\r", b"\n\n", b"=1+1", b"{", b"[", b'"', b",", b"\xef\xbb\xbf", b"\xe2\x80\xae"),
    *(b"nan", b"inf", b"1e999", b"9" * 400, b"<!ENTITY a 'b'>", b"../", b"%s%n", b" " * 200, b"A" * 5000),
)
WHOLE: tuple[bytes, ...] = (
    *(b"", b"\0" * 100, b"\xff\xfe" * 50, b"[" * 100_000, b"{}", b"[]", b"null", b"1", b'"x"', b"nonsense\n"),
    *(b"\x93NUMPY", b"PK\x03\x04", b"%PDF-1.4", b"\x1f\x8b\x08\x00", b"\x80\x04.", b"8" * 100),
    *(b"\xff" * 8 + b"{}", b'{"a":' * 5000, b"\n" * 1000),
)
Change = Callable[[bytes, random.Random], bytes]


def flipped(data: bytes, dice: random.Random) -> bytes:
    """Some bits changed."""
    found = bytearray(data)
    for _ in range(dice.choice((1, 1, 2, 8))):
        if found:
            found[dice.randrange(len(found))] ^= 1 << dice.randrange(8)
    return bytes(found)


def cut(data: bytes, dice: random.Random) -> bytes:
    """A piece missing at the end, or inside."""
    start = dice.randrange(len(data) + 1)
    return data[:start] + (b"" if dice.random() < 0.5 else data[start + dice.randrange(1, 60) :])


def grafted(data: bytes, dice: random.Random) -> bytes:
    """A scrap put in, or put over what was there."""
    place, scrap = dice.randrange(len(data) + 1), dice.choice(SCRAPS)
    return data[:place] + scrap + data[place + (len(scrap) if dice.random() < 0.5 else 0) :]


def doubled(data: bytes, dice: random.Random) -> bytes:
    """Lines repeated, swapped or left out."""
    lines = data.split(b"\n")
    for _ in range(dice.choice((1, 3))):
        one, other = dice.randrange(len(lines)), dice.randrange(len(lines))
        lines[one] = dice.choice((lines[other], lines[one] + b"\n" + lines[one], b""))
    return b"\n".join(lines)


def renumbered(data: bytes, dice: random.Random) -> bytes:
    """A number that is none, or another one."""
    places = [match.span() for match in re.finditer(rb"-?\d+(\.\d+)?", data)]
    if not places:
        return grafted(data, dice)
    start, end = dice.choice(places)
    return data[:start] + dice.choice(NUMBERS).encode() + data[end:]


def retyped(data: bytes, dice: random.Random) -> bytes:
    """JSON with one value of another type, or one key more or less."""
    try:
        tree = json.loads(data)
    except (ValueError, RecursionError):
        return renumbered(data, dice)
    place: Any = [tree]
    here: Any = place
    key: Any = 0
    while isinstance(here[key], dict | list) and here[key] and dice.random() < 0.8:
        here = here[key]
        key = dice.choice([*here]) if isinstance(here, dict) else dice.randrange(len(here))
    value = dice.choice(
        (None, True, -1, 0, 1e308, 10**30, "", "\x1b[31m", [], {}, [[]], {"a": None}, "x" * 3000, [1] * 50)
    )
    if isinstance(here, dict) and dice.random() < 0.3:
        here[dice.choice(("", "\x1b]0;x\x07", "more", "=1+1"))] = here.pop(key) if dice.random() < 0.5 else value
    else:
        here[key] = value
    return json.dumps(place[0]).encode()


def replaced(data: bytes, dice: random.Random) -> bytes:
    return dice.choice(WHOLE)


def packed(data: bytes, dice: random.Random) -> bytes:
    """Something else by the same name."""
    if dice.random() < 0.5:
        return gzip.compress(data)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("data.pkl", data)
    return file.getvalue()


CHANGES: tuple[Change, ...] = (flipped, cut, grafted, doubled, renumbered, retyped, replaced, packed)


def case(folder: Path, name: str, dice: random.Random) -> Case:
    """A damaged file, and a command that reads it."""
    commands = READERS.get(name) or FOLDERS[name]
    if name in FOLDERS:
        inside = [path for path in folder.joinpath(name).rglob("*") if path.is_file() and path.suffix != ".html"]
        name = str(dice.choice(sorted(inside)).relative_to(folder))
    data = (folder / name).read_bytes()
    for _ in range(dice.choice((1, 1, 1, 3))):
        data = dice.choice(CHANGES)(data, dice)
    return Case(dice.choice(commands), {name: data})


def few(folder: Path, name: str, number: int) -> list[Case]:
    """So many for one file, the same ones every time."""
    dice = random.Random(name)
    return [case(folder, name, dice) for _ in range(number)]
