"""A call is short: it passes the files that the picture in docs/design.md names, and no others."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest
import torch
from torch import Tensor

import drawahead as da
from drawahead.chains import Chain

ROOT = Path(__file__).parents[1]
SOURCE = Path(da.__file__).parent
MOST = 18
LINES = (ROOT / "docs" / "design.md").read_text().split("## One call")[1].split("```")[1].splitlines()[2:]
CAPTURED = LINES[0].index("x", LINES[0].index("x") + 1)
"""The column of the picture that says whether captured rounds pass a file; packed ones have the one before."""


def tokens() -> Chain:
    table = torch.randn(9, 3, generator=torch.Generator().manual_seed(0)).log_softmax(-1)

    def rows(tokens: Tensor) -> Tensor:
        return table.expand(len(tokens), 9, 3)

    return da.TokenChain(rows, length=9, vocab_size=3)


def vectors() -> Chain:
    return da.GaussianChain(lambda x, k: x / 2, da.StochasticLocalization(30), (3,))


def passed(work: Callable[[], object]) -> list[str]:
    """The files of the package whose code runs, in the order in which it first does."""
    files: dict[str, None] = {}

    def note(frame: FrameType, event: str, argument: object) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(SOURCE):
            files.setdefault(path.relative_to(SOURCE).as_posix())

    gc.collect()  # what other tests left behind must not be closed meanwhile
    before, collects = sys.getprofile(), gc.isenabled()
    gc.disable()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
        if collects:
            gc.enable()
    return list(files)


@pytest.mark.parametrize(
    ("make", "graphs", "steps"), [(tokens, False, 9), (vectors, True, 30)], ids=["tokens, packed", "vectors, captured"]
)
def test_a_warm_call_passes_the_files_of_the_picture(make: Callable[[], Chain], graphs: bool, steps: int) -> None:
    chain = make()
    assert chain.steps == steps

    def call() -> da.Result:
        return da.sample(chain, 4, sampler=da.Coupled(), seed=0, graphs=graphs)

    first = call()
    files = passed(call)
    assert torch.equal(call().samples, first.samples)
    column = slice(CAPTURED, CAPTURED + 1) if graphs else slice(CAPTURED - 8, CAPTURED - 7)
    assert set(files) == {line.split()[0] for line in LINES if line[column] == "x"}
    assert len(files) <= MOST


def test_following_sees_what_a_call_passes() -> None:
    """A control: another sampler is another file, and work outside the package is none."""
    files = passed(lambda: da.sample(tokens(), 4, sampler=da.Stepwise(), seed=0))
    assert "samplers/stepwise.py" in files and "samplers/coupled.py" not in files
    assert passed(lambda: torch.zeros(3).sum()) == []
