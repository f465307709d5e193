"""Laws in float32, for devices that have nothing else: the same law tests and mutants, within its rounding."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

import drawahead as da
from drawahead import Block, Coupled, GaussianChain, InputError, Sequential, Stepwise, TokenChain
from drawahead.randomness import Purpose, Stream
from drawahead.samplers import Sampler
from drawahead.verification.statistics import kolmogorov
from tests.exactness import chi_square, combined

NARROW = torch.float32
SAMPLERS: list[Sampler] = [Sequential(), Coupled(), Coupled(4), Block(), Stepwise()]
DRAWS = 6_000


def normal_cdf(x: Tensor) -> Tensor:
    return 0.5 * torch.special.erfc(-x / 2**0.5)


# Noise


@pytest.mark.parametrize("rows", [1, 3, 4000])
def test_noise_has_the_first_bits_of_the_same_numbers(rows: int) -> None:
    wide, narrow = (Stream.of_samples(5, torch.arange(rows), dtype) for dtype in (torch.float64, NARROW))
    step = torch.arange(3).expand(rows, 3)
    one, other = (stream.uniform(Purpose.VALUE, step, size=7) for stream in (wide, narrow))
    assert other.dtype == NARROW and bool(((other > 0) & (other < 1)).all())
    assert float((one - other.double()).abs().max()) <= 2.0**-24
    assert torch.allclose(
        wide.normal(Purpose.VALUE, step, size=7), narrow.normal(Purpose.VALUE, step, size=7).double(), atol=1e-2
    )


def test_no_uniform_is_zero_or_one() -> None:
    """Not even where all bits are the same: the logarithm of both is taken."""
    for words in (0.5 * 2.0**-52, 1 - 2.0**-53):
        unit = Stream(torch.zeros(1, 2, dtype=torch.int64), NARROW)._narrowed(
            torch.tensor([words], dtype=torch.float64)
        )
        assert 0 < float(unit) < 1 and bool(torch.isfinite(-torch.log(-torch.log(unit))))


# Laws


def linear(**options: Any) -> GaussianChain:
    schedule = da.DDPM(da.schedules.linear_betas(30, 0.01, 0.3))
    return GaussianChain(lambda x, k: 0.7 * x, schedule, (2,), dtype=torch.float64, **options)


def spread() -> float:
    """The standard deviation of the samples of the chain above."""
    plan, variance = linear().plan, 1.0
    for a, b, s in zip(plan.a.tolist(), plan.b.tolist(), plan.s.tolist(), strict=True):
        variance = (a + 0.7 * b) ** 2 * variance + s**2
    return float(variance**0.5)


@pytest.mark.parametrize(
    ("sampler", "graphs"),
    [(sampler, False) for sampler in SAMPLERS]
    + [
        pytest.param(sampler, True, marks=pytest.mark.slow if isinstance(sampler, Block | Stepwise) else ())
        for sampler in SAMPLERS
    ],
    ids=str,
)
def test_the_law_of_vectors(sampler: Sampler, graphs: bool, check: Any) -> None:
    chain = linear(law_dtype=NARROW)
    result = da.sample(chain, DRAWS, sampler=sampler, seed=1, graphs=graphs, max_live=DRAWS)
    assert "float32" in result.report.choice and result.report.exact
    check(combined([kolmogorov(normal_cdf(column / spread())) for column in result.samples.T]))


@pytest.mark.parametrize("sampler", SAMPLERS, ids=repr)
def test_the_law_of_tokens(sampler: Sampler, check: Any) -> None:
    target = da.targets.Ising.grid(2, 3)
    samples = da.sample(TokenChain(target, law_dtype=NARROW), DRAWS, sampler=sampler, seed=2, max_live=DRAWS).samples
    code = (samples * 2 ** torch.arange(6)).sum(1)
    states = torch.arange(64)[:, None] // 2 ** torch.arange(6) % 2
    energy = torch.stack([log_probability(target, state) for state in states])
    check(chi_square(torch.bincount(code, minlength=64), energy.softmax(0)))


def log_probability(target: da.TokenOracle, state: Tensor) -> Tensor:
    """By the chain rule, in float64."""
    tokens, total = torch.full((1, 6), da.HIDDEN), torch.zeros((), dtype=torch.float64)
    for i in range(6):
        total = total + target.rows(tokens)[0, i, state[i]]
        tokens[0, i] = state[i]
    return total


@pytest.mark.parametrize("graphs", [False, True], ids=["packed", "captured"])
@pytest.mark.parametrize("sampler", [Coupled(), Coupled(3)], ids=repr)
def test_tokens_are_those_of_one_by_one(sampler: Sampler, graphs: bool) -> None:
    chain = TokenChain(da.targets.Ising.grid(3, 4), law_dtype=NARROW)
    one, other = (da.sample(chain, 40, sampler=s, seed=3, graphs=graphs).samples for s in (sampler, Sequential()))
    assert torch.equal(one, other)


def test_what_it_does_to_samples_is_rounding() -> None:
    """Orders are drawn in float64 all the same; a token differs where two were nearly tied, a vector by rounding."""
    ising = da.targets.Ising.grid(3, 4)
    one, other = (
        da.sample(TokenChain(ising, law_dtype=d), 2000, sampler=Sequential(), seed=3).samples for d in (None, NARROW)
    )
    assert float((one != other).any(1).double().mean()) < 1e-3
    one, other = (da.sample(linear(law_dtype=d), 500, sampler=Sequential(), seed=3).samples for d in (None, NARROW))
    assert float((one - other).abs().max()) < 1e-2 and float((one - other).abs().median()) < 1e-5


class AlwaysKept(Coupled):
    """A mutant: what was guessed is committed."""

    def judge(self, window: Any) -> Any:
        _, values = super().judge(window)
        return window.width, torch.cat([window.guess, values[:, -1:]], dim=1)


def test_a_mutant_is_rejected() -> None:
    chain, broken = linear(law_dtype=NARROW), AlwaysKept(secant=False)
    samples = da.sample(chain, DRAWS, sampler=broken, seed=1, max_live=DRAWS).samples
    assert kolmogorov(normal_cdf(samples[:, 0] / spread())) < 1e-6


# Devices without float64


class NoFloat64(TorchDispatchMode):
    """Refuses to compute in float64, as Apple's MPS does."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for tensor in out if isinstance(out, tuple | list) else (out,):
            if isinstance(tensor, Tensor) and tensor.dtype == torch.float64 and "copy" not in str(func):
                raise AssertionError(f"{func} answers float64")
        return out


@pytest.mark.parametrize("sampler", [Sequential(), Coupled(3), Block(), Stepwise()], ids=repr)
def test_no_round_needs_float64(sampler: Sampler, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the CPU noise is made in float64 and cut; a device that has none makes it in float32, as here."""
    monkeypatch.setattr(Stream, "_words", words_without_float64)
    chain = GaussianChain(lambda x, k: 0.5 * x, da.DDPM(da.schedules.linear_betas(9)), (2,), law_dtype=NARROW)
    with NoFloat64():
        da.sample(chain, 2, sampler=sampler, seed=0, graphs=True)
    with NoFloat64(), pytest.raises((AssertionError, da.SamplingError), match="float64"):
        da.sample(chain.replace(law_dtype=torch.float64), 2, sampler=sampler, seed=0, graphs=True)
    weight = torch.randn(6, 6, 2, generator=torch.Generator().manual_seed(0))

    def rows(tokens: Tensor) -> Tensor:
        return torch.einsum("mn,nkq->mkq", tokens.clamp(min=0).float(), weight).log_softmax(-1)

    tokens = TokenChain(rows, length=6, vocab_size=2, law_dtype=NARROW, order=range(6))
    keys = torch.arange(6.0).expand(2, 6)
    monkeypatch.setattr("drawahead.chains.tokens.order_keys", lambda *asked: keys)
    with NoFloat64():
        da.sample(tokens, 2, sampler=sampler, seed=0, graphs=True)


def words_without_float64(self: Stream, purpose: Purpose, step: Tensor, attempt: Tensor | int, size: int) -> Tensor:
    width = (size + 1) // 2
    from drawahead import randomness

    rows = torch.arange(len(step)).repeat_interleave(step[:1].numel())
    tries = attempt[rows][:, None] if isinstance(attempt, Tensor) else attempt
    keys = self.keys[rows]
    words = randomness.philox(keys[:, :1], keys[:, 1:], torch.arange(width), step.reshape(-1, 1), tries, int(purpose))
    pair = [randomness._unit(words[0], words[1], NARROW), randomness._unit(words[2], words[3], NARROW)]
    return torch.stack(pair, -1).view(*step.shape, 2 * width)[..., :size]


def test_what_is_refused() -> None:
    with pytest.raises(InputError, match="law_dtype"):
        linear(law_dtype=torch.float16)
    with pytest.raises(InputError, match="law_dtype"):
        TokenChain(da.targets.Ising.grid(2, 2), law_dtype="float32")  # type: ignore[arg-type]


def test_the_default_of_a_device_without_float64() -> None:
    from drawahead.validate import law_precision

    assert (
        law_precision(None, torch.device("mps")) == NARROW and law_precision(None, torch.device("cpu")) == torch.float64
    )
    with pytest.raises(InputError, match="mps"):
        law_precision(torch.float64, torch.device("mps"))


def test_verify_takes_it() -> None:
    assert da.verify(linear(law_dtype=NARROW), 60, seed=0).passed
    assert da.verify(TokenChain(da.targets.Ising.grid(2, 3), law_dtype=NARROW), 60, seed=0).passed
