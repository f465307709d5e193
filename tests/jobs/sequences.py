"""Sequences of calls on one folder: settings changed between start and resume, manifests edited, folders replaced.

Each case says what a fresh folder would hold, and fails unless the folder holds that, or the call was refused and has
changed nothing. `test_sequences` runs them, and puts back what once let them through.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import drawahead as da
from drawahead.oracles.tokens import HIDDEN
from tests.jobs.forging import old, sealed

NUM, SIZE = 6, 2
MANIFEST = "manifest.json"
Case = Callable[[Path], None]
REQUEST: dict[str, Any] = {
    "num_samples": NUM,
    "name": "sequence",
    "options": {"coupling": 0.4},
    "sampler": da.Coupled(window=3),
    "seed": 5,
    "shard_size": SIZE,
    "max_batch_size": 50,
    "max_live": 7,
    "graphs": False,
}


def tokens() -> da.TokenChain:
    evidence = torch.tensor([1, *[HIDDEN] * 3])
    return da.TokenChain(da.targets.Pairs(4), order=[3, 1, 0, 2], evidence=evidence, numbers=torch.arange(NUM))


def half(x: Tensor, k: Tensor) -> Tensor:
    return x / 2


def centred(x: Tensor) -> Tensor:
    return x - x.mean(1, keepdim=True)


def still(x: Tensor) -> Tensor:
    return torch.cat([x[:, :1] * 0, x[:, 1:]], 1)


STEPS = {"timesteps": range(900, -1, -300)}


def vectors(**given: Any) -> da.GaussianChain:
    return da.GaussianChain(half, da.DDPM(**STEPS, clip=5.0), (3,), dtype=torch.float64, **given)


def plan(push: float = 0.5) -> da.StackedPlan:
    eye = torch.eye(2, dtype=torch.float64).expand(3, 2, 2)
    return da.StackedPlan(
        0.9 * eye, torch.full((3, 2), push), 0.3 * eye, start=torch.ones(2), final=torch.tensor([1.0, 0.0])
    )


def lanes() -> da.StackedChain:
    return da.StackedChain(lambda x, k: x.mean(1), plan(), (2,), dtype=torch.float64)


CHANGED: dict[str, tuple[Callable[[], Any], dict[str, Any]]] = {
    "evidence": (tokens, {"evidence": torch.tensor([0, *[HIDDEN] * 3])}),
    "order": (tokens, {"order": [0, 1, 2, 3]}),
    "order left open": (tokens, {"order": None}),
    "order spread": (tokens, {"order": "spread"}),
    "numbers": (tokens, {"numbers": torch.arange(NUM) + 1}),
    "law_dtype": (tokens, {"law_dtype": torch.float32}),
    "start": (lambda: vectors(start=torch.zeros(3)), {"start": torch.tensor([0.0, 0.0, 1e-9])}),
    "start for each": (lambda: vectors(start=torch.zeros(NUM, 3)), {"start": torch.eye(NUM)[:, :3]}),
    "known": (lambda: vectors(known=torch.tensor([1.0, torch.nan, torch.nan])), {"known": torch.full((3,), torch.nan)}),
    "around": (lambda: vectors(around=torch.zeros(3)), {"around": torch.ones(3)}),
    "clean": (lambda: vectors(known=torch.tensor([1.0, torch.nan, torch.nan])), {"clean": True}),
    "record": (lambda: vectors(record=[1]), {"record": [2]}),
    "law_dtype of vectors": (vectors, {"law_dtype": torch.float32}),
    "dtype": (vectors, {"dtype": torch.float32}),
    "schedule": (vectors, {"schedule": da.DDPM(timesteps=range(900, -1, -300), betas=[0.011] * 1000, clip=5.0)}),
    "clip": (vectors, {"schedule": da.DDPM(timesteps=range(900, -1, -300), clip=6.0)}),
    "project": (lambda: vectors(project=centred), {"project": still}),
    "project left out": (lambda: vectors(project=centred), {"project": None}),
    "plan": (lanes, {"plan": plan(0.6)}),
    "start of lanes": (lanes, {"start": torch.ones(2, 2)}),
}
"""What is changed of a chain, by what it is called in the message: its first word, or that of a plan."""
ASKED: dict[str, Any] = {
    "num_samples": NUM + 1,
    "name": "another",
    "options": {"coupling": 0.5},
    "sampler": da.Coupled(window=4),
    "seed": 6,
    "shard_size": SIZE + 1,
    "max_batch_size": 51,
    "max_live": 8,
    "graphs": True,
}


class Until:
    """Stops a job once so many shards are there."""

    def __init__(self, folder: Path, shards: int) -> None:
        self.folder, self.shards = folder, shards

    def is_set(self) -> bool:
        return len([*self.folder.glob("shards/0*")]) >= self.shards


def draw(folder: Path, chain: Any, shards: int | None = None, **more: Any) -> da.jobs.Job:
    stop = None if shards is None else Until(folder, shards)
    given = {**REQUEST, **more}
    return da.jobs.draw(folder, chain, given.pop("num_samples"), resume=True, stop=stop, **given)


def bytes_of(folder: Path) -> dict[str, bytes]:
    """All files but the lock, which tells who came last, and what a run says about itself."""
    found = (path for path in folder.rglob("*") if path.is_file() and path.name not in ("lock", "status.json"))
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


@contextmanager
def refused(words: str = "") -> Iterator[None]:
    with pytest.raises((da.InputError, da.JobError)) as caught:
        yield
    assert words in str(caught.value) and "\n" not in str(caught.value)


def assert_as_fresh(folder: Path, chain: Any, **more: Any) -> None:
    """The folder is complete, and holds what one that was left alone does, shard by shard."""
    fresh = draw(folder.with_name(f"fresh {folder.name}"), chain, **more)
    job = da.jobs.read(folder)
    job.verify()
    assert job.complete and [shard.sha256 for shard in job.shards] == [shard.sha256 for shard in fresh.shards]
    assert torch.equal(job.samples().nan_to_num(), fresh.samples().nan_to_num())
    assert all(part.seed == job.config.seed for part in [job.report])


def another_chain(what: str) -> Case:
    make, change = CHANGED[what]

    def case(folder: Path) -> None:
        draw(folder, make(), shards=2)
        before = bytes_of(folder)
        name = "adjust" if what == "clip" else what.split()[0]
        with refused(f"{name} is "):
            draw(folder, make().replace(**change))
        assert bytes_of(folder) == before
        draw(folder, make())
        assert_as_fresh(folder, make())

    return case


def another_request(what: str) -> Case:
    def case(folder: Path) -> None:
        draw(folder, tokens(), shards=2)
        before = bytes_of(folder)
        chain = tokens().replace(numbers=torch.arange(NUM + 1)) if what == "num_samples" else tokens()
        with refused("option coupling" if what == "options" else f"{what.removesuffix('_samples')} is "):
            draw(folder, chain, **{what: ASKED[what]})
        assert bytes_of(folder) == before
        draw(folder, tokens())
        assert_as_fresh(folder, tokens())

    return case


EDITS: dict[str, Callable[[Any], Any]] = {
    "seed": lambda seed: seed + 1,
    "target/name": lambda name: "another",
    "target/options/coupling": lambda coupling: 0.5,
    "sampler/text": lambda text: "Coupled(window=4)",
    "sampler/kind/settings/window": lambda window: 4,
    "sampler/choice": lambda choice: "it was chosen",
    "num": lambda num: num - 1,
    "shard_size": lambda size: size + 1,
    "device": lambda device: "cuda",
    "max_batch_size": lambda size: size + 1,
    "max_live": lambda size: size + 1,
    "graphs": lambda graphs: True,
    "steps": lambda steps: steps + 1,
    "shape/0": lambda size: size + 1,
    "dtype": lambda dtype: "float64",
    "condition": lambda condition: "0" * 64,
    "chain/order": lambda order: "spread",
    "chain/evidence": lambda evidence: "",
    "chain/numbers": lambda numbers: "0" * 16,
    "chain/law_dtype": lambda dtype: "torch.float32",
    "created": lambda created: "1970-01-01T00:00:00+00:00",
    "versions/0/torch": lambda version: "1.0",
    "seconds": lambda seconds: seconds + 1,
    "oracle_seconds": lambda seconds: seconds + 1,
    "records": lambda records: {"000000.safetensors": "0" * 64},
}
"""How each value of a manifest is edited."""
HARMLESS = ("created", "seconds", "oracle_seconds", "records", "sampler/choice", "versions/0/torch")
"""Those that decide no sample, nor say which there are: with a checksum that agrees they may be what they like."""


def edit_of(what: str) -> Callable[[Any], None]:
    *parts, last = [int(part) if part.isdecimal() else part for part in what.split("/")]

    def edit(found: Any) -> None:
        for part in parts:
            found = found[part]
        found[last] = EDITS[what](found[last])

    return edit


def as_told(folder: Path) -> dict[str, Any]:
    """What the manifest says was asked for: whoever resumes a job by what it tells asks for that."""
    found = json.loads((folder / MANIFEST).read_text())
    asked = {key: found[key] for key in ("seed", "shard_size", "max_batch_size", "max_live", "graphs")}
    sampler = found["sampler"]["kind"]["settings"]["window"]
    asked |= {"num_samples": found["num"], **found["target"], "sampler": da.Coupled(window=sampler)}
    return asked


def edited(what: str, agreeing: bool, earlier: bool = False) -> Case:
    """The manifest is edited: by hand, or by somebody who makes its checksum agree; in a folder of an earlier version,
    there is none."""

    def case(folder: Path) -> None:
        if earlier:
            old("unsealed", folder)
        else:
            draw(folder, tokens(), shards=2)
        text = (folder / MANIFEST).read_text()
        if agreeing or earlier:
            sealed(folder, edit_of(what))
        else:
            found = json.loads(text)
            edit_of(what)(found)
            (folder / MANIFEST).write_text(json.dumps(found))
        before = bytes_of(folder)
        if what in HARMLESS and (agreeing or earlier):
            draw(folder, tokens(), any_version=True)
        else:
            with refused():
                draw(folder, tokens(), **as_told(folder), any_version=True)
            with refused():
                da.jobs.read(folder).verify()
            assert bytes_of(folder) == before
            (folder / MANIFEST).write_text(text)
            draw(folder, tokens(), any_version=True)
        if not earlier:
            assert_as_fresh(folder, tokens())
        assert torch.equal(da.jobs.read(folder).samples(), draw(folder.with_name("again"), tokens()).samples())

    return case


def replaced(ours: int, theirs: int, how: Callable[[Path], object]) -> Case:
    """Once our job has so many shards, its folder goes, and another job draws so many into a new one in its place."""

    def case(folder: Path) -> None:
        went = []

        def replace(report: da.Report) -> None:
            if went or da.jobs.read(folder).finished < ours * SIZE:
                return
            went.append(how(folder))
            if theirs >= 0:
                draw(folder, tokens(), shards=theirs, seed=99)

        with refused("was deleted or replaced"):
            draw(folder, tokens(), on_round=replace)
        assert went
        if theirs < 0:
            assert not folder.exists()
            return
        assert da.jobs.read(folder).finished >= theirs * SIZE
        draw(folder, tokens(), seed=99)
        assert_as_fresh(folder, tokens(), seed=99)

    return case


def moved(folder: Path) -> None:
    folder.rename(folder.with_name("moved"))


def foreign_lines(folder: Path) -> None:
    """What another job has left behind in the journal of an earlier version is not ours."""
    old("journal", folder)
    journal = folder / "journal.jsonl"
    line = json.loads(journal.read_text().splitlines()[0])
    foreign = line | {"file": "000000.safetensors", "first": 0, "sha256": "0" * 64, "job": "1" * 64}
    journal.write_text("".join(json.dumps(each) + "\n" for each in (line, foreign)))
    assert da.jobs.read(folder).damaged() == []
    draw(folder, tokens(), any_version=True)
    assert torch.equal(da.jobs.read(folder).samples(), draw(folder.with_name("again"), tokens()).samples())


def foreign_shard(folder: Path) -> None:
    """A shard of another job, whole as it is, is not ours: neither to use nor to draw again."""
    other = folder.with_name("other")
    draw(other, tokens(), seed=99)
    draw(folder, tokens())
    shutil.copy(other / "shards" / "000001.safetensors", folder / "shards")
    before = bytes_of(folder)
    for use in (lambda: draw(folder, tokens()), da.jobs.read(folder).verify, lambda: da.jobs.mend(folder, tokens())):
        with refused("of another job: it was drawn with seed 99, not 5"):
            use()
    assert bytes_of(folder) == before


def old_folder(kind: str) -> Case:
    """One of an earlier version opens, is verified, resumes, and is complete; damage is found before and after."""

    def case(folder: Path) -> None:
        old(kind, folder)
        earlier = da.jobs.read(folder)
        earlier.verify()
        assert earlier.finished == 2 * SIZE and earlier.report.num_samples == 2 * SIZE and earlier.report.seconds > 0
        damage(folder, 0)
        assert [shard.file for shard in da.jobs.read(folder).damaged()] == ["000000.safetensors"]
        with pytest.warns(RuntimeWarning, match=r"drawn again: 000000\.safetensors"):
            after = draw(folder, tokens(), any_version=True)
        assert after.complete and json.loads((folder / MANIFEST).read_text())["format"] == 2
        assert sorted(path.name for path in folder.iterdir()) == ["lock", MANIFEST, "shards"]
        again = draw(folder.with_name("again"), tokens())
        assert torch.equal(after.samples(), again.samples()) and after.report.widths == again.report.widths
        damage(folder, 1)
        assert [shard.file for shard in da.jobs.mend(folder, tokens())] == ["000001.safetensors"]
        assert not da.jobs.read(folder).damaged() and not json.loads((folder / MANIFEST).read_text())["records"]

    return case


def damage(folder: Path, index: int) -> None:
    path = folder / "shards" / f"{index:06d}.safetensors"
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))


CASES: dict[str, Case] = {
    **{f"another {what}": another_chain(what) for what in CHANGED},
    **{f"other request: {what}": another_request(what) for what in ASKED},
    **{f"edited by hand: {what}": edited(what, agreeing=False) for what in EDITS},
    **{f"edited to agree: {what}": edited(what, agreeing=True) for what in EDITS},
    **{f"edited, of old: {what}": edited(what, agreeing=False, earlier=True) for what in ("seed", "created")},
    **{f"replaced at {i} by {j}": replaced(i, j, shutil.rmtree) for i in (0, 1, 2) for j in (0, 1, 3)},
    **{f"deleted at {i}": replaced(i, -1, shutil.rmtree) for i in (0, 2)},
    "moved away": replaced(1, -1, moved),
    "moved away, and another in its place": replaced(1, 2, moved),
    "foreign lines": foreign_lines,
    "foreign shard": foreign_shard,
    **{f"old folder: {kind}": old_folder(kind) for kind in ("sealed", "journal", "unsealed")},
}
