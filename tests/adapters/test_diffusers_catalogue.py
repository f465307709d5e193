"""Every class of pipelines that the study builds: one by one, the very path of its own loop."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

diffusers = pytest.importorskip("diffusers")
pytest.importorskip("transformers")
from studies.pipelines.beside import difference  # noqa: E402
from studies.pipelines.catalogue import CASES, Case  # noqa: E402

_FIRST = {case.what: case for case in reversed(CASES)}.values()
"""One for each mechanism."""
QUICK = {id(case) for case in _FIRST} | {id(case) for case in CASES if case.kind.startswith(("Flux", "Wan"))}
MARKED = [pytest.param(case, marks=() if id(case) in QUICK else pytest.mark.slow) for case in CASES]


@pytest.fixture(scope="module", autouse=True)
def _quiet() -> Iterator[None]:
    diffusers.logging.set_verbosity_error()
    with torch.random.fork_rng():
        yield


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("case", MARKED, ids=lambda case: f"{case.kind} {case.what}")
def test_it_takes_the_path_of_its_own_loop(case: Case) -> None:
    assert difference(case) < 1e-5  # some tables of schedulers are float32


def test_a_selection_covers_every_mechanism() -> None:
    assert 25 <= len(QUICK) <= 40 and len({case.kind for case in CASES}) >= 45
