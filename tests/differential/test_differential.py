"""Random chains, samplers and arrangements against the literal loops of tests/literal.py.

In CI two hundred cases with fixed seeds. `make test-deep` draws fresh ones for as long as it is told to; what fails
names its seed, and DRAWAHEAD_DEEP=1 DRAWAHEAD_DEEP_SEED=<seed> repeats it.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import drawahead as da
from drawahead.errors import InputError
from tests.differential.cases import coupled, dice, sampler
from tests.differential.gaussian import closed_form_p_value, gaussian_p_value, judge_gaussian
from tests.differential.gaussian_cases import gaussian_case
from tests.differential.judge import packs
from tests.differential.stacked import judge_stacked, stacked_case, stacked_p_value
from tests.differential.tokens import judge_tokens, outcomes_p_value, token_case, token_p_value
from tests.exactness import LEVEL, combined

Check = Callable[[float], None]

MAKE: dict[str, Callable[..., Any]] = {"tokens": token_case, "gaussian": gaussian_case, "stacked": stacked_case}
JUDGE: dict[str, Callable[..., None]] = {"tokens": judge_tokens, "gaussian": judge_gaussian, "stacked": judge_stacked}
LAW: dict[str, Callable[..., float]] = {
    "tokens": token_p_value,
    "gaussian": gaussian_p_value,
    "stacked": stacked_p_value,
}
CASES = {"tokens": 60, "gaussian": 100, "stacked": 30}
"""In CI."""
COMPANY, FEW, LONG = 5, 4, 24
"""Samples of a case that is compared path by path; of one with many steps; and how many are many."""
DRAWS, FEW_DRAWS = 800, 40
"""Samples of a case whose law is judged; Recursive takes longest."""
BLOCK, BLOCKS = 5, {"tokens": 8, "gaussian": 8, "stacked": 4}
"""Cases whose laws share one p-value, and how many such."""


@contextlib.contextmanager
def naming(kind: str, seed: int, case: Any) -> Iterator[None]:
    """Whatever goes wrong, say on which case."""
    try:
        yield
    except Exception as error:
        error.add_note(f"{kind} case {seed}: {case}")
        raise


def steps_of(case: Any) -> int:
    return int(getattr(case, "steps", 0) or case.length)


def judge(kind: str, seed: int) -> None:
    """One case, by Sequential, by Coupled and, unless it is long, by some other sampler."""
    d = dice("judge", seed)
    long = steps_of(MAKE[kind](seed, 1)) > LONG
    case = MAKE[kind](seed, FEW if long else COMPANY)
    others = [] if long else [sampler(d, steps_of(case))]
    with naming(kind, seed, case):
        JUDGE[kind](case, [coupled(d), *others], d)


def law(kind: str, seed: int, p_value: Callable[..., float], **options: Any) -> float:
    """The p-value of one case, drawn by a sampler that is not compared path by path, in some arrangement."""
    d = dice("law", seed)
    by = sampler(d, steps_of(MAKE[kind](seed, 1, **options)), literal=False, refining=kind != "tokens")
    case = MAKE[kind](seed, FEW_DRAWS if isinstance(by, da.Recursive) else DRAWS, **options)
    with naming(kind, seed, f"{case} by {by}"):
        packed = d.choice([{}, {"max_live": DRAWS // 2}])
        return p_value(case, by, **{"graphs": True} if packs(by) and d.chance(0.5) else packed)


@pytest.mark.parametrize(("kind", "seed"), [(kind, seed) for kind, count in CASES.items() for seed in range(count)])
def test_a_chain_is_drawn_as_the_loop_draws_it_and_in_any_company(kind: str, seed: int) -> None:
    judge(kind, seed)


def laws(kind: str, start: int, block: int, p_value: Callable[..., float], check: Check, **options: Any) -> None:
    """One check of the laws of a block of cases."""
    seeds = range(start + BLOCK * block, start + BLOCK * (block + 1))
    p_values = [law(kind, seed, p_value, **options) for seed in seeds]
    with naming(kind, seeds[p_values.index(min(p_values))], p_value.__name__):
        check(combined(p_values))


@pytest.mark.parametrize(("kind", "block"), [(kind, block) for kind, count in BLOCKS.items() for block in range(count)])
def test_what_a_step_adds_is_fresh_noise(kind: str, block: int, check: Check) -> None:
    laws(kind, 1000, block, LAW[kind], check)


@pytest.mark.parametrize("block", range(4))
def test_linear_chains_have_their_gaussian_law(block: int, check: Check) -> None:
    laws("gaussian", 2000, block, closed_form_p_value, check, linear=True)


@pytest.mark.parametrize("block", range(4))
def test_sequences_have_the_law_of_the_chain_rule(block: int, check: Check) -> None:
    laws("tokens", 3000, block, outcomes_p_value, check, small=True)


@pytest.mark.parametrize("seed", range(3))
def test_another_seed_is_other_noise_or_refused(seed: int) -> None:
    """Seeds have 64 bits: one that has more must not be taken for one that has not."""
    case = gaussian_case(4000 + seed, COMPANY)
    for other in (case.asked.seed + 2**64, case.asked.seed - 2**64):
        with pytest.raises(InputError, match="seed"):
            da.sample(case.chain(), sampler=da.Sequential(), seed=other)


def deep_seeds() -> Iterator[int]:
    """Fresh seeds, as many, or for as long, as DRAWAHEAD_DEEP says: 200, 90s, 20m or 3h. A minute if it is not set."""
    amount = os.environ.get("DRAWAHEAD_DEEP", "60s")
    first = int(os.environ.get("DRAWAHEAD_DEEP_SEED", random.SystemRandom().randrange(10**6, 10**12)))
    seconds = {"s": 1, "m": 60, "h": 3600}.get(amount[-1])
    end = time.monotonic() + (0 if seconds is None else float(amount[:-1]) * seconds)
    for i in itertools.count():
        if time.monotonic() > end if seconds is not None else i >= int(amount):
            return
        yield first + i


def deep_p_value(kind: str, seed: int) -> float:
    """Of all that is known about the laws of such a case."""
    p_values = [law(kind, seed, LAW[kind])]
    if kind == "gaussian":
        p_values.append(law(kind, seed, closed_form_p_value, linear=True))
    if kind == "tokens":
        p_values.append(law(kind, seed, outcomes_p_value, small=True))
    return combined(p_values)


@pytest.mark.slow
@pytest.mark.parametrize("kind", MAKE)
def test_deep(kind: str, check: Check) -> None:
    """Path by path, and the laws: the i-th case may raise a share of 1 / i (i + 1) of this test's false alarms."""
    smallest = 1.0
    for i, seed in enumerate(deep_seeds(), start=1):
        judge(kind, seed)
        smallest = min(smallest, i * (i + 1) * deep_p_value(kind, seed))
        if smallest < LEVEL:
            with naming(kind, seed, "its law"):
                check(smallest)
    check(smallest)
