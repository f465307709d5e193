"""Random sequences of calls on one object against fresh objects: what is remembered between calls must not show.

In CI some with fixed seeds, those among them that found a fault once. `make test-deep` draws fresh ones for as long as
it is told to; what fails names its seed, and DRAWAHEAD_DEEP=1 DRAWAHEAD_DEEP_SEED=<seed> repeats it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from tests.differential.chain_sequences import judge_chains
from tests.differential.test_differential import deep_seeds

diffusers = pytest.importorskip("diffusers")
pytest.importorskip("transformers")
from tests.differential.pipeline_sequences import judge_pipelines  # noqa: E402
from tests.differential.policy_sequences import judge_policies  # noqa: E402

JUDGES: dict[str, tuple[Callable[..., None], dict[str, tuple[int, ...]]]] = {
    "chains": (
        judge_chains,
        {"gaussian": (*range(10), 12), "stacked": (*range(6), 17, 18, 30), "tokens": (*range(8),)},
    ),
    "pipelines": (judge_pipelines, {"plain": (*range(3), 28, 32, 33, 35), "text": (0, 1, 13, 30)}),
    "policies": (judge_policies, {"lerobot": (*range(5),), "unet": (*range(5),), "transformer": (*range(4),)}),
}
"""What judges sequences of each sort, and the seeds of each kind in CI."""
CASES = [(sort, kind, seed) for sort, (_, kinds) in JUDGES.items() for kind, seeds in kinds.items() for seed in seeds]


@pytest.fixture(scope="module", autouse=True)
def _quiet() -> Iterator[None]:
    diffusers.logging.set_verbosity_error()
    with torch.random.fork_rng():
        yield


def judge(sort: str, kind: str, seed: int, *broken: Any) -> None:
    JUDGES[sort][0](seed, kind, *broken)


@pytest.mark.parametrize(("sort", "kind", "seed"), CASES)
def test_calls_in_a_row_draw_what_fresh_objects_draw(sort: str, kind: str, seed: int) -> None:
    judge(sort, kind, seed)


@pytest.mark.slow
@pytest.mark.parametrize("sort", JUDGES)
def test_deep(sort: str) -> None:
    """The kinds in turn."""
    kinds = sorted(JUDGES[sort][1])
    for seed in deep_seeds():
        judge(sort, kinds[seed % len(kinds)], seed)
