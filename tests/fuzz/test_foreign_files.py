"""Files of other programs, damaged: structures, weights, checkpoints."""

from __future__ import annotations

import functools
import io
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import strategies as st

import drawahead as da
from drawahead import ardiffusion as ar
from drawahead.proteins.structures.files import read_pdb
from tests.fuzz.fuzzing import fuzzed, only_our_errors
from tests.fuzz.test_job_folders import changed, damaged, values

PDB = (Path(__file__).parents[1] / "adapters/data/1ubi.pdb").read_bytes()
ATOMS = b"\n".join([line for line in PDB.splitlines() if line.startswith(b"ATOM")][:30])


def read(data: bytes, use: Callable[[Path], object]) -> None:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "file"
        path.write_bytes(data)
        with only_our_errors():
            use(path)


@fuzzed(150, data=st.data())
def test_structures(data: st.DataObject) -> None:
    lines = ATOMS.splitlines()
    for at in data.draw(st.lists(st.integers(0, len(lines) - 1), min_size=1, max_size=3)):
        column = data.draw(st.integers(0, 60))
        other = data.draw(st.binary(min_size=1, max_size=4) | st.sampled_from([b"nan", b" inf", b"   A", b"9999"]))
        lines[at] = lines[at][:column] + other + lines[at][column + len(other) :]
    read(b"\n".join(lines), read_pdb)


@fuzzed(30, text=st.binary(max_size=200))
def test_anything_as_a_structure(text: bytes) -> None:
    read(text, read_pdb)


@functools.cache
def saved() -> bytes:
    """What torch.save writes."""
    file = io.BytesIO()
    torch.save({"model_state_dict": {"W_s.weight": torch.ones(2, 2)}, "num_edges": 3}, file)
    return file.getvalue()


@fuzzed(60, data=st.data())
def test_weights(data: st.DataObject) -> None:
    content = data.draw(st.binary(max_size=60) | st.just(None))
    read(damaged(saved(), data) if content is None else content, da.proteins.mpnn.encoder.Weights.load)


Folder = dict[str, bytes]


class Enough(Exception):
    pass


def train(folder: str, on_progress: Callable[[ar.Progress], None] | None = None) -> None:
    config = ar.ModelConfig(ar.Parts((4,), (2,)), ar.MLPEncoder(4, 1), ar.MLPDenoiser(4, 1))
    training = ar.Training(steps=2, batch=2, block=1, save_every=1)
    ar.train(config, torch.ones(3, 4), training=training, out=folder, on_progress=on_progress)


@functools.cache
def trained() -> Folder:
    """The folder of a training that was stopped half-way."""

    def stop(progress: ar.Progress) -> None:
        raise Enough

    with tempfile.TemporaryDirectory() as name:
        with pytest.raises(Enough):
            train(name, stop)
        return {path.name: path.read_bytes() for path in Path(name).iterdir()}


def state_changed(data: st.DataObject) -> Folder:
    tree: Any = changed(json.loads(trained()["state.json"]), data)
    return {**trained(), "state.json": json.dumps(tree).encode()}


def state_replaced(data: st.DataObject) -> Folder:
    text = data.draw(st.binary(max_size=60) | values.map(lambda value: json.dumps(value).encode()))
    return {**trained(), "state.json": text}


def file_damaged(data: st.DataObject) -> Folder:
    name = data.draw(st.sampled_from(sorted(trained())))
    return {**trained(), name: damaged(trained()[name], data)}


@fuzzed(100, make=st.sampled_from([state_changed, state_changed, state_replaced, file_damaged]), data=st.data())
def test_trainings(make: Callable[[st.DataObject], Folder], data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as name:
        for file, content in make(data).items():
            (Path(name) / file).write_bytes(content)
        with only_our_errors():
            ar.sample(ar.load(name), 1, inner=da.OUExponential((1.0, 0.5)), sampler=da.Coupled(), seed=0)
        with only_our_errors():
            train(name)
