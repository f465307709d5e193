"""How fuzz tests are made: strange values, and the promises that doors keep.

Whatever a file holds, the answer is a result or an error of drawahead's own with a message. So it is for an argument of
Python's; but where it is of a type that no argument there is, Python's own TypeError says so as clearly. Quick runs are
the same every time; `-m slow` runs the same tests on many more examples, different each time.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import drawahead as da
from drawahead.errors import DrawaheadError

DEEP = 40
"""How many times as many examples a slow run has."""
_CHECKS = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


def fuzzed(examples: int, **given_: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A test on so many examples of these strategies, and a slow one on many more."""

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        quick = settings(max_examples=examples, derandomize=True, database=None, deadline=None)
        deep = settings(max_examples=DEEP * examples, database=None, deadline=None, print_blob=True)

        def run(profile: settings) -> None:
            settings(profile, suppress_health_check=_CHECKS)(given(**given_)(test))()

        run.__name__, run.__doc__, run.__module__ = test.__name__, test.__doc__, test.__module__
        deeper = pytest.param(deep, marks=pytest.mark.slow, id="deep")
        return pytest.mark.parametrize("profile", [pytest.param(quick, id="quick"), deeper])(run)

    return decorate


@contextlib.contextmanager
def only_our_errors() -> Iterator[None]:
    """Errors of drawahead's own are as good as a result, if they say something; all others are failures."""
    told = "nothing went wrong"
    try:
        yield
    except DrawaheadError as error:
        told = str(error)
    assert told.strip(), "an error without a message"
    assert len(told) < 5000, "a message that nobody can read"


@contextlib.contextmanager
def clear_errors(usual: Mapping[str, Any], odd: Mapping[str, Any]) -> Iterator[None]:
    """As `only_our_errors`; but where one of the odd arguments is of another type than usual, what Python itself says
    of it (it cannot be called, compared or iterated over, or lacks an attribute) passes, too; and what torch and numpy
    say of a tensor or an array in place of a switch."""
    foreign = any(type(value) is not type(usual[name]) for name, value in odd.items())
    try:
        with only_our_errors():
            yield
    except (TypeError, AttributeError, RuntimeError, ValueError) as error:
        plain = isinstance(error, TypeError | AttributeError) or "is ambiguous" in str(error)
        if not (foreign and plain):
            raise


@contextlib.contextmanager
def elsewhere() -> Iterator[Path]:
    """Work in a new folder, alone in another new one: a path may be any text."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as around:
        here = Path(around) / "here"
        here.mkdir()
        os.chdir(here)
        try:
            yield here
        finally:
            os.chdir(before)


_DTYPES = (torch.float64, torch.float32, torch.float16, torch.int64, torch.int8, torch.bool, torch.complex64)


@st.composite
def tensors(draw: st.DrawFn) -> torch.Tensor:
    """Small tensors of any dtype and up to three axes, some of them empty, some of them not finite."""
    shape = draw(st.lists(st.integers(0, 4), max_size=3))
    fill = draw(st.sampled_from([0.0, 1.0, -1.0, 0.5, 3.0, float("nan"), float("inf")]))
    return torch.full(shape, fill, dtype=torch.float64).nan_to_num(7.0).to(draw(st.sampled_from(_DTYPES))) + (
        0 if fill == fill and abs(fill) != float("inf") else torch.full(shape, fill)
    )


class Strange:
    """Something that no argument is."""

    def __repr__(self) -> str:
        return "<strange>"


plain = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 9),
    st.sampled_from([-(2**70), -(2**63)]),
    st.floats(),
    st.sampled_from([0.0, -0.0, 1e-320, 1e-9, 0.5, 1.0, 1e300]),
    st.text(max_size=4),
    st.complex_numbers(max_magnitude=3),
)
strange = st.one_of(
    plain,
    st.lists(plain, max_size=4),
    st.lists(plain, max_size=3).map(tuple),
    st.lists(st.lists(st.integers(-1, 3) | st.floats(), max_size=3), max_size=3),
    st.dictionaries(st.text(max_size=2), plain, max_size=2),
    tensors(),
    tensors().map(lambda t: t.numpy()),
    st.sampled_from([Strange(), object, len, b"bytes", {1, 2}, range(3), slice(2), numpy.float64(2.0), numpy.int64(3)]),
    st.sampled_from([torch.float16, torch.device("cpu"), torch.Generator(), lambda *_: None, da.Block(), da.DDPM()]),
)
"""Values of every kind. Large positive integers are not among them: who asks for 2^60 positions asks for memory."""
huge = st.sampled_from([2**31, 2**32 + 1, 2**62, 2**63 - 1, 2**63, 2**64, 2**64 + 1, 2**70])
"""For seeds and numbers of samples, which are not sizes of anything until they are drawn."""
vast = st.sampled_from([2**50, 2**62, 2**63 - 1, 2**63, 2**64 + 1, 2**70])
"""For numbers of samples: more than any memory holds, so that nobody begins to draw them."""
