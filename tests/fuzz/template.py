"""The folder that commands are run in: a job, designs, and one good file of every format."""

from __future__ import annotations

import json
from pathlib import Path

import numpy
import torch

from tests.adapters.mpnn_literal import random_weights
from tests.design.structures import as_pdb, peptide
from tests.fuzz.judge import Case, Commands

MODEL = """
import signal, time
import drawahead as da

model = da.targets.Pairs(4)

class Deaf(da.TokenOracle):
    length, vocab_size = 4, 2

    def rows(self, tokens):
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])  # as code of a library that looks at no signal
        time.sleep(60)

def slow():
    Deaf().rows(None)

def asks(number):
    return number

def fails():
    raise KeyError("\\x1b[31mno\\nmodel")

def leaves():
    raise SystemExit(7)
"""
GRAPHML = """<?xml version="1.0" encoding="UTF-8"?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
<key id="w" for="edge" attr.name="weight" attr.type="double"/>
<graph edgedefault="undirected"><node id="a"/><node id="b"/><node id="c"/>
<edge source="a" target="b"><data key="w">2.5</data></edge><edge source="b" target="c"/><edge source="a" target="c"/>
</graph></graphml>
"""
CIF = """data_x
loop_
_atom_site.group_PDB
_atom_site.label_atom_id
_atom_site.auth_comp_id
_atom_site.auth_asym_id
_atom_site.auth_seq_id
_atom_site.Cartn_x
_atom_site.Cartn_y
_atom_site.Cartn_z
"""


def as_cif(pdb: str) -> str:
    rows = [(r[12:16], r[17:20], r[21], r[22:26], r[30:38], r[38:46], r[46:54]) for r in pdb.splitlines()]
    return CIF + "".join("ATOM " + " ".join(part.strip() for part in row) + "\n" for row in rows)


def fill(folder: Path) -> None:
    """All files that need no command to be made."""
    pdb = as_pdb(peptide(6))
    texts = {
        "model.py": MODEL,
        "broken.py": "raise SystemExit(9)",
        "edges.txt": "a b 2.5\nb c\nc d 1\na d\n",
        "edges.graphml": GRAPHML,
        "kernel.csv": "2,1\n1,2\n",
        "one.pdb": pdb,
        "one.cif": as_cif(pdb),
        "bias.jsonl": json.dumps({"one": {"A": [[0.0] * 21] * 6}}) + "\n",
        "fixed.jsonl": json.dumps({"one": {"A": [1]}}) + "\n",
        "chains.jsonl": json.dumps({"one": [["A"], []]}) + "\n",
        "tied.jsonl": json.dumps({"one": [{"A": [1, 2]}]}) + "\n",
        "omit.jsonl": json.dumps({"one": {"A": [[[1], "A"]]}}) + "\n",
        "letters.jsonl": json.dumps({"W": -1.0}) + "\n",
        "pssm.jsonl": json.dumps(
            {"one": {"A": {"pssm_coef": [0.0] * 6, "pssm_bias": [[0.0] * 21] * 6, "pssm_log_odds": [[0.0] * 21] * 6}}}
        ) + "\n",
    }  # fmt: skip
    for name, text in texts.items():
        (folder / name).write_text(text)
    numpy.save(folder / "kernel.npy", numpy.eye(2) + 1)
    network = random_weights(neighbours=6)
    torch.save({"model_state_dict": dict(network.tensors), "num_edges": 6}, folder / "weights.pt")


def made(folder: Path) -> Commands:
    """The folder, filled, with a job and designs that commands made."""
    fill(folder)
    run = Commands(folder)
    for words in (
        "sample pairs --size 4 --num 6 --shard-size 2 --sampler coupled --out job -q",
        "design one.pdb --model weights.pt --num 2 --out designs -q",
    ):
        run.keep = folder
        outcome = run(Case(tuple(words.split()), seconds=120))
        assert outcome.status == 0, outcome
    run.keep = None
    return run
