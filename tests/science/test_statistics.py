"""Samples as results: exact while few, close to it when many, and as many as a tolerance asks for."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

import drawahead as da
from tests.exactness import LEVEL
from tests.peak import PEAK


def lognormal(scale: float = 1.0, shape: tuple[int, ...] = (2,)) -> da.GaussianChain:
    """A chain whose samples are exp(scale xi): skew, and known in closed form."""

    def model(x: Tensor, k: Tensor) -> Tensor:
        return torch.where((k == 1).view(-1, *(1,) * len(shape)), (scale * x).exp(), 0.0)

    def table(*values: float) -> Tensor:
        return torch.tensor(values, dtype=torch.float64)

    steps = da.schedules.Plan(
        table(0, 0), table(0, 1), table(1, 0), table(1, 1, 1), table(1, 1, 1), table(0, 1), start=1.0
    )
    return da.GaussianChain(model, da.schedules.Given(steps), shape, dtype=torch.float64)


def test_few_draws_are_summed_up_exactly() -> None:
    result = da.sample(lognormal(shape=(3, 2)), 501, sampler="sequential", seed=0)
    found, samples = da.summary(result, quantiles=(0.1, 0.5, 0.9)), result.samples.numpy()
    np.testing.assert_allclose(found.quantiles, np.quantile(samples, [0.1, 0.5, 0.9], axis=0), rtol=1e-12)
    np.testing.assert_allclose(found.mean, samples.mean(0), rtol=1e-12)
    np.testing.assert_allclose(found.spread, samples.std(0, ddof=1), rtol=1e-12)
    np.testing.assert_allclose(found.mean_error, samples.std(0, ddof=1) / math.sqrt(501), rtol=1e-12)
    assert found.rank_error == 0 and found.number == 501
    torch.testing.assert_close(found.median, found.quantile(0.5))
    torch.testing.assert_close(found[1, :].mean, found.mean[1])


def test_many_draws_need_little_memory() -> None:
    generator, added, values = torch.Generator().manual_seed(0), da.science.Draws(), []
    for size in [1000, 1, 70_000, 333, 200_000]:
        values.append(torch.randn(size, 2, generator=generator).exp())
        added.add(values[-1])
    found, held = added.summary(), sum(len(part) for part in added._held)
    assert held < 40_000 < found.number == 271_334
    assert 0 < found.rank_error < 0.003
    everything = torch.cat(values).double()
    for level, value in zip(found.levels, found.quantiles, strict=True):
        off = ((everything <= value).double().mean(0) - level).abs()
        assert bool((off <= found.rank_error + 1e-5).all())
    torch.testing.assert_close(found.mean, everything.mean(0), rtol=1e-10, atol=0)
    torch.testing.assert_close(found.spread, everything.std(0), rtol=1e-10, atol=0)


def covered(n: int, count: int = 2000) -> Tensor:
    """How many of its errors each quantile (the median, and the upper one) of `n` draws is off (count, 2)."""
    draws = torch.randn(n, count, generator=torch.Generator().manual_seed(1), dtype=torch.float64).exp()
    found = da.summary(draws, quantiles=(0.5, 0.84))
    truth = torch.tensor([0.0, 0.994457883209753], dtype=torch.float64).exp()
    return ((found.quantiles - truth[:, None]) / found.quantile_errors).T


def test_errors_are_as_large_as_they_say() -> None:
    """About 68% within one error and 95% within two, whatever the shape of the distribution."""
    for n in (64, 1000):
        off = covered(n).abs()
        assert bool(((off < 1).double().mean(0) - 0.66).abs().max() < 0.06)
        assert bool((off < 2).double().mean(0).min() > 0.9)


def test_draws_of_each_row_share_rounds_and_not_memory() -> None:
    shown: list[int] = []

    def denoiser(x: Tensor, k: Tensor, level: Tensor) -> Tensor:
        shown.append(len(level))
        return torch.tanh(x + level)

    schedule = da.DDPM(da.schedules.linear_betas(20, 0.01, 0.3))
    levels = torch.tensor([[-2.0], [0.0], [2.0]])
    chain = da.GaussianChain(denoiser, schedule, (1,), condition={"level": levels})
    many = da.science.repeated(chain, 40)
    result = da.sample(many, 120, sampler=da.Coupled(4), seed=0)
    laid = da.GaussianChain(denoiser, schedule, (1,), condition={"level": levels.repeat_interleave(40, 0)})
    torch.testing.assert_close(result.samples, da.sample(laid, 120, sampler=da.Coupled(4), seed=0).samples)
    assert many.condition["row"].shape == (120,)
    found = da.summary(result, draws=40)
    assert found.mean.shape == (3, 1) and found.number == 40
    torch.testing.assert_close(found.mean[1], result.samples[40:80].double().mean(0))
    with pytest.raises(da.InputError, match=r"repeated\(chain, draws\)"):
        da.sample(chain, 120, seed=0)
    with pytest.raises(da.InputError, match="does not divide the 120 samples"):
        da.summary(result, draws=50)


def test_until_reaches_its_tolerance_and_says_so() -> None:
    chain = lognormal()
    found = da.until(chain, 0.05, sampler="sequential", seed=3, pilot=128, batch=2000)
    assert found.reached and found.summary.number >= 2000
    assert len(found.reports) == 1 + -(-found.summary.number // 2000)
    again = da.until(chain, 0.05, sampler="sequential", seed=3, pilot=128, batch=2000)
    torch.testing.assert_close(again.summary.mean, found.summary.mean)
    numbers = da.sample(chain, found.summary.number, first=128, sampler="sequential", seed=3).samples
    torch.testing.assert_close(found.summary.mean, numbers.mean(0))  # none of the pilot
    with pytest.raises(da.InputError, match=r"asks for about .* draws, and most=500"):
        da.until(chain, 0.001, sampler="sequential", seed=3, most=500)


def means(rule: Callable[[Tensor], float], runs: int = 3000) -> Tensor:
    """What a rule makes of each of many streams of draws."""
    streams = torch.randn(runs, 1000, generator=torch.Generator().manual_seed(2), dtype=torch.float64).exp()
    return torch.tensor([rule(stream) for stream in streams], dtype=torch.float64)


def z_score(found: Tensor) -> float:
    return float((found.mean() - math.exp(0.5)) / (found.std() / math.sqrt(len(found))))


def p_value(found: Tensor) -> float:
    return math.erfc(abs(z_score(found)) / math.sqrt(2))


def test_a_number_of_draws_that_a_pilot_chose_gives_no_bias(check: Callable[[float], None]) -> None:
    chain = lognormal(shape=(1,))
    found = []
    for seed in range(400):
        estimate = da.until(chain, 0.3, quantiles=(0.5,), sampler="sequential", seed=seed, pilot=16, batch=64)
        found.append(float(estimate.summary.mean[0]))
    check(p_value(torch.tensor(found, dtype=torch.float64)))


def test_stopping_when_the_error_is_small_gives_a_bias() -> None:
    """The mutant: look after every batch of 16, and stop when the error of the mean is below a tolerance."""

    def stops_early(stream: Tensor) -> float:
        for n in range(16, 1000, 16):
            if float(stream[:n].std()) / math.sqrt(n) < 0.3:
                return float(stream[:n].mean())
        return float(stream.mean())

    assert p_value(means(stops_early)) < LEVEL
    assert z_score(means(stops_early)) < 0  # too small: large draws keep it going


def test_bands_and_files(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    found = da.summary(da.sample(lognormal(0.3, (8,)), 200, sampler="sequential", seed=0))
    figure = found.plot(tmp_path / "bands.png", x=torch.linspace(0.1, 1, 8), xlabel="k", log=True)
    assert (tmp_path / "bands.png").stat().st_size > 1000
    labels = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert labels == ["95% of draws", "68% of draws", "median"]
    found.save(tmp_path / "found.npz")
    with np.load(tmp_path / "found.npz") as file:
        np.testing.assert_array_equal(file["quantiles"], found.quantiles)
        assert int(file["number"]) == 200


def test_what_is_wrong_is_said_in_one_line() -> None:
    with pytest.raises(da.InputError, match="tokens have no quantiles"):
        da.summary(torch.zeros(4, 2, dtype=torch.int64))
    with pytest.raises(da.InputError, match="at least two draws"):
        da.summary(torch.zeros(1, 2))
    with pytest.raises(da.InputError, match="look for NaN"):
        da.summary(torch.full((4, 2), math.nan))
    with pytest.raises(da.InputError, match="between 0 and 1"):
        da.summary(torch.zeros(4, 2), quantiles=(0.5, 1.0))
    with pytest.raises(da.InputError, match="is not among"):
        da.summary(torch.zeros(4, 2)).quantile(0.3)
    with pytest.raises(da.InputError, match="choose entries"):
        da.summary(torch.zeros(4, 2, 3)).plot()
    with pytest.raises(da.InputError, match="tolerance must be above 0"):
        da.until(lognormal(), 0.0)
    with pytest.raises(da.InputError, match="does not broadcast to a sample"):
        da.until(lognormal(), torch.ones(5), sampler="sequential", seed=0)
    with pytest.raises(da.InputError, match="needs no rows"):
        da.science.repeated(lognormal(), 3)


def test_a_large_condition_is_held_once() -> None:
    """400 draws for four rows of 4 MB: laid out for every draw they would be 1.6 GB."""
    script = (
        PEAK
        + """
import torch, drawahead as da
def denoiser(x, k, field):
    return torch.tanh(x + field.mean(1, keepdim=True))
schedule = da.DDPM(da.schedules.linear_betas(3, 0.1, 0.5))
fields = torch.linspace(-2, 2, 4)[:, None].repeat(1, 2**20)
chain = da.GaussianChain(denoiser, schedule, (1,), condition={"field": fields})
many = da.science.repeated(chain, 100)
da.sample(many, 2, sampler=da.Sequential(), seed=0)
before = peak()
found = da.summary(da.sample(many, 400, sampler=da.Sequential(), seed=0, max_live=4), draws=100)
assert found.mean.shape == (4, 1) and bool((found.mean.diff(dim=0) > 0).all())
print(peak() - before)
"""
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 200e6


def labelled() -> da.science.Summary:
    return da.summary(torch.randn(50, 2, 3, generator=torch.Generator().manual_seed(0)))


def test_tables_take_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is no xarray, what it would be handed."""

    class Module:
        Dataset = staticmethod(lambda *parts: parts)

    monkeypatch.setitem(sys.modules, "xarray", Module)
    found = labelled()
    tables, coords, facts = found.to_xarray(["z", "k"], {"k": [0.1, 0.2, 0.4]})
    assert {name: axes for name, (axes, _) in tables.items()} == {
        **dict.fromkeys(("mean", "mean_error", "spread"), ("z", "k")),
        **dict.fromkeys(("quantiles", "quantile_errors"), ("level", "z", "k")),
    }
    assert all(table.shape[-2:] == (2, 3) for _, table in tables.values())
    assert coords["k"] == [0.1, 0.2, 0.4] and tuple(coords["level"]) == found.levels
    assert facts == {"number": 50, "rank_error": 0.0}
    with pytest.raises(da.InputError, match="dims must name the 2 axes"):
        found.to_xarray(["k"])


def test_xarray_labels_are_written_and_read(tmp_path: Path) -> None:
    xarray = pytest.importorskip("xarray")
    found = labelled()
    found.to_xarray(["z", "k"], {"k": [0.1, 0.2, 0.4]}).to_netcdf(tmp_path / "found.nc", engine="h5netcdf")
    with xarray.open_dataset(tmp_path / "found.nc", engine="h5netcdf") as read:
        np.testing.assert_array_equal(read["quantiles"].sel(level=0.5, k=0.2), found.median[:, 1])


def test_without_xarray_labels_are_refused_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xarray", None)
    with pytest.raises(da.InputError, match="pip install xarray"):
        labelled().to_xarray(["z", "k"])


def test_bands_need_a_value_of_x_for_each_entry() -> None:
    pytest.importorskip("matplotlib")
    with pytest.raises(da.InputError, match="x must have 3 values"):
        labelled()[0].plot(x=[1.0, 2.0])
