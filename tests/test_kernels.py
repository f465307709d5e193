"""What a GPU works out by kernels of its own is what torch works out step by step.

Where there is no GPU, Triton interprets the kernels on the CPU, if it is there (`pip install triton`); where it is not,
only what stands around them is tested.
"""

from __future__ import annotations

import importlib
from typing import Any

import pytest
import torch
from torch import Tensor

import drawahead as da
from drawahead import randomness
from drawahead.chains import affine_queries, moves
from drawahead.laws import Gaussian, gaussian
from drawahead.laws.gaussian import _BISECTIONS, _residual_quantile
from drawahead.randomness import Purpose, Stream

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
TIGHT = {torch.float64: 1e-12, torch.float32: 1e-5}


def made_of(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def slow(keys: Tensor, purpose: int, step: Tensor, attempt: Any, width: int, *, normal: bool) -> Tensor:
    """What a kernel is to give, a number at a time."""
    plain = Stream(keys)._many(Purpose(purpose), step, attempt, width, numpy=False).view(step.numel(), 2 * width)
    if not normal:
        return plain
    radius, angle = (-2 * plain[:, ::2].log()).sqrt(), 2 * torch.pi * plain[:, 1::2]
    return torch.stack([radius * angle.cos(), radius * angle.sin()], dim=-1).flatten(1)


@pytest.mark.parametrize("size", [1, 2, 7])
@pytest.mark.parametrize("steps", [0, 1, 3])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_numbers_of_a_kernel_have_their_place(
    size: int, steps: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many steps there are, none included."""
    stream = Stream.of_samples(3, torch.arange(4), dtype)
    step, attempt = torch.arange(steps).expand(4, -1) + torch.arange(4)[:, None], torch.tensor([0, 5, 1, 2])
    draws: list[Any] = [stream.uniform, stream.normal]
    expected = [draw(Purpose.VALUE, step, attempt, size=size) for draw in draws]
    asked = []

    def kernel(*arguments: Any, **options: Any) -> Tensor:
        asked.append(arguments)
        return slow(*arguments, **options)

    monkeypatch.setattr(randomness, "_kernel", lambda device: kernel)
    for draw, value in zip(draws, expected, strict=True):
        torch.testing.assert_close(draw(Purpose.VALUE, step, attempt, size=size), value, rtol=0, atol=TIGHT[dtype])
    assert len(asked) == 2


@pytest.mark.parametrize("normal", [False, True])
@pytest.mark.parametrize("attempt", [0, torch.tensor([0, 5, 2**31])])
def test_random_numbers(attempt: Any, normal: bool) -> None:
    pytest.importorskip("triton")
    from drawahead.randomness.philox_cuda import numbers

    keys = Stream.of_samples(2**64 - 1, torch.tensor([0, 1, 2**40])).keys
    step = torch.tensor([[0, 1, 7], [2, 3, 2**31], [5, 9, 8]])
    expected = slow(keys, Purpose.CORRECT, step, attempt, 5, normal=normal)
    there = attempt if isinstance(attempt, int) else attempt.to(DEVICE)
    found = numbers(keys.to(DEVICE), int(Purpose.CORRECT), step.to(DEVICE), there, 5, normal=normal).cpu()
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-13 if normal else 0.0)


@pytest.mark.skipif(DEVICE.type == "cpu", reason="its functions are CUDA's own, which are not interpreted")
def test_quantiles_of_residuals() -> None:
    pytest.importorskip("triton")
    from drawahead.laws.gaussian_cuda import residual_quantile

    delta = torch.tensor([0.0, 1e-3, 0.05, 0.3, 2.0, 9.0], dtype=torch.float64)[:, None]
    log_weight, normal = torch.tensor([0.0, -0.5], dtype=torch.float64), made_of(6, 2)
    expected = _residual_quantile(delta, log_weight.expand(6, 2), normal)
    found = residual_quantile(*(t.to(DEVICE) for t in (delta, log_weight, normal)), _BISECTIONS).cpu()
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize(("rows", "width", "d"), [(1, 4, 5), (3, 4, 64), (2, 2, 1500)])
def test_couplings_and_secants(rows: int, width: int, d: int, dtype: torch.dtype) -> None:
    """In tables cut out of wider ones, with a step that has no noise, equal means and steps that were never asked."""
    pytest.importorskip("triton")
    from drawahead.laws import gaussian_cuda

    scale = made_of(rows, width + 1, seed=1, dtype=dtype).abs() + 0.1
    scale[0, 0] = 0
    whole = Gaussian(made_of(rows, width + 2, d, dtype=dtype)[:, :-1], scale)
    target = whole.first(width)
    apart = made_of(rows, width, d, seed=2, dtype=dtype) * torch.tensor([0, 1, 0.5, 4], dtype=dtype)[:width, None]
    states, moved = made_of(rows, width + 1, d, seed=3, dtype=dtype)[:, :-1], made_of(rows, width, d, dtype=dtype)
    moved[0, 1] = 0
    slope = made_of(rows, width, seed=4, dtype=dtype)
    slope[-1, 0] = torch.nan
    draft = Gaussian(target.mean + apart / d**0.5, target.scale, slope, states + moved)
    noise = made_of(rows, width + 2, d, seed=5, dtype=dtype)[:, :-1]
    guess, uniform = draft.draw(noise[:, :width]), made_of(rows, width, seed=6, dtype=dtype).sigmoid()
    agrees = target.couple(draft, guess, noise[:, :width], uniform)[1]
    assert bool(agrees.any()) and not bool(agrees.all())
    for columns in ([width] * rows, [width - 1, 0, width][:rows], [1] * rows):
        widths = torch.tensor(columns)
        values, kept = whole.refined(draft, guess, noise, uniform, widths)
        there = [t.to(DEVICE) for t in (whole.mean, draft.mean, whole.scale, guess, noise, uniform, widths)]
        found, count = gaussian_cuda.refined(*there)
        assert count.tolist() == kept.tolist()
        torch.testing.assert_close(found.cpu(), values, rtol=TIGHT[dtype], atol=TIGHT[dtype])

    low, high = -torch.full_like(slope, 0.3), torch.full_like(slope, 0.2)
    columns = torch.tensor([width, 1, 2])[:rows]
    expected = target.secants(states, draft, (low, high), columns)
    assert draft.anchor is not None
    there = [t.to(DEVICE) for t in (states, target.mean, draft.anchor, draft.mean, slope, low, high, columns)]
    leans = gaussian_cuda.secant(*there).cpu()
    torch.testing.assert_close(leans, expected, rtol=TIGHT[dtype], atol=TIGHT[dtype])
    assert bool((leans != 0).any())


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize(("rows", "width", "d"), [(1, 1, 3), (3, 9, 5), (2, 16, 70)])
def test_walks_along_a_draft(rows: int, width: int, d: int, dtype: torch.dtype) -> None:
    """In tables cut out of wider ones, beyond the last step, with a step that was never asked about."""
    pytest.importorskip("triton")
    from drawahead.chains import moves_cuda
    from drawahead.chains.affine_queries import NOTHING

    chain = da.GaussianChain(lambda x, k: x, da.DDPM(timesteps=range(990, 900, -10)), (d,), law_dtype=dtype)
    moves: Any = chain.moves
    slope = made_of(rows, width + 1, seed=1, dtype=dtype)[:, :-1] / 3
    slope[0, 0] = torch.nan
    mean, anchor = (made_of(rows, width + 2, d, seed=seed, dtype=dtype)[:, :width] for seed in (2, 3))
    scale = made_of(rows, width + 1, 2, seed=4, dtype=dtype).abs()[:, :-1, 1]
    x, noise = made_of(rows, d, seed=5, dtype=dtype), made_of(rows, width + 1, d, seed=6, dtype=dtype)[:, :-1]
    step = torch.arange(width) + torch.arange(rows)[:, None] + 3
    draft = Gaussian(mean, scale, slope, anchor)
    there = Gaussian(*(part.to(DEVICE) for part in (mean, scale, slope, anchor)))
    tables = [part.to(DEVICE) for part in (noise, step, moves.factors)]
    found = moves_cuda.followed(x.to(DEVICE), there, *tables)
    for one, other in zip(found, moves.follow(x, draft, noise, step, NOTHING), strict=True):
        torch.testing.assert_close(one.cpu(), other, rtol=TIGHT[dtype], atol=TIGHT[dtype])
    states = moves_cuda.walked(x.to(DEVICE), *tables).cpu()
    torch.testing.assert_close(states, moves._rolled(x, step, noise), rtol=TIGHT[dtype], atol=TIGHT[dtype])
    for count in (torch.arange(rows), (chain.steps - step[:, 0]).clamp(max=width)):
        way = (x, states[:, :width], noise, step[:, 0], count)
        reached = moves_cuda.reached(*(part.to(DEVICE) for part in way), moves.factors.to(DEVICE)).cpu()
        torch.testing.assert_close(reached, moves.reached(*way, NOTHING), rtol=TIGHT[dtype], atol=TIGHT[dtype])


@pytest.mark.parametrize("d", [3, 1500])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_answers_that_are_not_finite(d: int, dtype: torch.dtype) -> None:
    """They become zeros, and are told of unless they are padding."""
    pytest.importorskip("triton")
    from drawahead.chains.moves_cuda import settled

    count, plain = torch.tensor([3, 0, 2]), made_of(12, d, dtype=dtype)
    for cell, value, told in (
        (2, torch.nan, True),
        (8, -torch.inf, True),
        (3, torch.inf, False),
        (4, torch.nan, False),
    ):
        flat = plain.clone()
        flat[cell, d - 1] = value
        there = flat.to(DEVICE)
        assert bool(settled(there, count.to(DEVICE), 4)) is told
        assert torch.equal(there.cpu(), flat.nan_to_num(0.0, 0.0, 0.0))
    assert not bool(settled(plain.to(DEVICE), count.to(DEVICE), 4))


def sharp(x: Tensor, step: Tensor) -> Tensor:
    return torch.tanh(4 * x)


KNOWN = torch.tensor([0.3, torch.nan, -1.0, torch.nan, torch.nan])
FLOAT32 = {"law_dtype": torch.float32}
CHAINS: dict[str, dict[str, Any]] = {"plain": {}, "known entries": {"known": KNOWN}, "float32": FLOAT32}
KERNELS = {"followed", "reached", "refined", "secant", "settled", "walked"}


@pytest.mark.skipif(DEVICE.type != "cpu", reason="on a GPU all tests of captured rounds are tests of this")
@pytest.mark.parametrize("kind", CHAINS)
def test_samples_that_kernels_draw(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole samples are those that torch's operations draw, round for round."""
    pytest.importorskip("triton")
    chain = da.GaussianChain(sharp, da.DDPM(timesteps=range(950, 0, -50)), (5,), **CHAINS[kind])
    expected = da.sample(chain, 3, sampler=da.Coupled(12), seed=1, graphs=True)
    met: set[str] = set()

    class Noting:
        def __init__(self, module: str) -> None:
            self.module = importlib.import_module(module)

        def __getattr__(self, name: str) -> Any:
            met.add(name)
            return getattr(self.module, name)

    for part in (moves, affine_queries, gaussian):
        monkeypatch.setattr(part, "kernels", lambda module, device: Noting(module))
    found = da.sample(chain.replace(), 3, sampler=da.Coupled(12), seed=1, graphs=True)
    torch.testing.assert_close(found.samples, expected.samples, rtol=1e-5, atol=1e-5)
    assert found.report.rounds == expected.report.rounds
    assert met == KERNELS - ({"reached"} if kind == "known entries" else set())
