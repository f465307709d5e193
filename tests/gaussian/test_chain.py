"""What a Gaussian chain accepts, keeps, refuses and counts; and that its targets denoise exactly."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from scipy import integrate
from torch import Tensor

import drawahead as da
from drawahead import CountingDenoiser, GaussianChain, InputError, Picard, Recursive, SamplingError, Sequential
from drawahead.errors import AnswerError
from drawahead.samplers import Sampler
from drawahead.schedules import Schedule, linear_betas
from drawahead.targets import DataSet, GaussianMixture, GaussianTarget, Hypercube
from tests.exactness import combined
from tests.gaussian.reference import (
    MEAN,
    SCHEDULES,
    VARIANCES,
    Walk,
    draws_for,
    innovations,
    linear_moments,
    normal_p_value,
    path_p_value,
    states,
    whole,
)
from tests.instances import PLAIN, VARIANTS
from tests.peak import PEAK

Check = Callable[[float], None]
EVERY = [*PLAIN, Picard()]
COVARIANCE = torch.tensor([[2.0, 0.9], [0.9, 0.6]], dtype=torch.float64)
KNOWN = torch.tensor([torch.nan, 0.8], dtype=torch.float64)
LINEAR = GaussianTarget(variances=VARIANCES, mean=MEAN)


def float64(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


# Known entries


@pytest.mark.parametrize("name", ["euler", "ou"])
@pytest.mark.parametrize("sampler", PLAIN, ids=repr)
def test_overwriting_has_the_law_of_the_sequential_procedure(sampler: Sampler, name: str, check: Check) -> None:
    """Entry 1 is known: each step sees a noised copy of it. Entry 0 then has a linear chain of its own."""
    chain = GaussianChain(GaussianTarget(covariance=COVARIANCE), SCHEDULES[name], known=KNOWN)
    plan, draws = chain.plan, 100 if isinstance(sampler, Recursive) else 5_000
    samples = da.sample(chain, draws, sampler=sampler, seed=0, max_live=draws).samples
    mean, variance = 0.0, plan.start**2
    for k in range(chain.steps):
        signal, noise = plan.signal[k], plan.noise[k]
        spread = signal**2 * COVARIANCE + noise**2 * torch.eye(2, dtype=torch.float64)
        gain = signal * torch.linalg.solve(spread, COVARIANCE)[:, 0] if float(signal) else torch.zeros(2)  # (2,)
        slope, other = plan.a[k] + plan.b[k] * gain[0], plan.b[k] * gain[1]
        mean = slope * mean + other * signal * KNOWN[1]
        variance = slope**2 * variance + (other * noise) ** 2 + plan.s[k] ** 2
    scale = plan.final
    p_values = [normal_p_value((samples[:, 0] / scale - mean) / variance**0.5)]
    copies = samples[:, 1] / scale - plan.signal[-1] * KNOWN[1]
    if float(plan.noise[-1]):
        p_values.append(normal_p_value(copies / plan.noise[-1]))
    else:
        assert torch.equal(samples[:, 1], KNOWN[1].expand(draws))  # the data itself, at the end
    check(combined(p_values))


@pytest.mark.parametrize("sampler", PLAIN, ids=repr)
def test_paths_with_known_entries(sampler: Sampler, check: Check) -> None:
    """The innovations of what is free, and the noise of the copies, are independent standard normals."""

    def denoiser(x: Tensor, k: Tensor) -> Tensor:
        return torch.stack(
            [0.8 * x[:, 1], torch.zeros_like(x[:, 1])], dim=1
        )  # entry 0 is pushed by the copy of entry 1

    known = float64(torch.nan, 0.0)
    chain = GaussianChain(denoiser, Walk((1.0,) * 4), (2,), known=known, record=[1, 2, 3], dtype=torch.float64)
    draws = 300 if isinstance(sampler, Recursive) else 5_000
    x = da.sample(chain, draws, sampler=sampler, seed=0, max_live=draws).samples
    xi = x[:, 1:, 0] - x[:, :-1, 0] - 0.8 * x[:, :-1, 1]
    check(path_p_value(torch.stack([xi, x[:, :-1, 1]], dim=-1)))


def test_known_entries_of_every_sample() -> None:
    known = torch.full((4, 2, 2), torch.nan, dtype=torch.float64)
    known[1, 0, 1], known[2] = 0.3, torch.arange(4).view(2, 2)
    chain = GaussianChain(lambda x, k: x / 2, SCHEDULES["euler"], (2, 2), known=known, dtype=torch.float64)
    for sampler in EVERY:
        samples = da.sample(chain, 4, sampler=sampler, seed=0).samples
        there = ~known.isnan()
        assert torch.equal(samples[there], known[there]) and samples.isfinite().all()
        again = GaussianChain(lambda x, k: x / 2, SCHEDULES["euler"], (2, 2), dtype=torch.float64)
        plain = da.sample(again, 4, sampler=sampler, seed=0).samples
        assert torch.allclose(samples[[0, 3]], plain[[0, 3]], atol=1e-12)  # where nothing is known, nothing changes


# Where a chain starts, and what it records


@pytest.mark.parametrize("sampler", PLAIN, ids=repr)
def test_a_start_that_is_given(sampler: Sampler, check: Check) -> None:
    start = float64(3.0, -1.0)
    chain, draws = whole(LINEAR, SCHEDULES["ou"], start), draws_for(sampler) // 2
    samples = da.sample(chain, draws, sampler=sampler, seed=0, max_live=draws).samples
    moments = linear_moments(chain.plan, start=start)
    z = (states(chain, samples)[:, -1] - moments.mean[-1]) / moments.variance[-1].sqrt()
    p_values = [normal_p_value(column) for column in z.T]
    check(combined([*p_values, path_p_value(innovations(chain, samples, start))]))


def test_a_start_for_every_sample() -> None:
    """With nothing random, the start is all there is."""
    start = torch.arange(6, dtype=torch.float64).view(3, 2)
    chain = GaussianChain(lambda x, k: x, Walk((0.0, 0.0)), (2,), start=start, dtype=torch.float64)
    for sampler in EVERY:
        assert torch.equal(da.sample(chain, 3, sampler=sampler, seed=0, max_live=2).samples, 4 * start)
    with pytest.raises(InputError, match="start has 3 rows, but num_samples is 4"):
        da.sample(chain, 4)


@pytest.mark.parametrize("sampler", EVERY, ids=repr)
def test_recording_changes_nothing(sampler: Sampler) -> None:
    plain = da.sample(GaussianChain(LINEAR, SCHEDULES["euler"]), 7, sampler=sampler, seed=3).samples
    some = da.sample(GaussianChain(LINEAR, SCHEDULES["euler"], record=[4, 2]), 7, sampler=sampler, seed=3).samples
    every = da.sample(whole(LINEAR, SCHEDULES["euler"]), 7, sampler=sampler, seed=3).samples
    assert some.shape == (7, 3, 2) and every.shape == (7, 6, 2)
    assert torch.equal(some[:, -1], plain) and torch.equal(every[:, -1], plain)
    assert torch.equal(some[:, :2], every[:, [3, 1]])


# Deterministic steps


def never_drafted(sampler: Sampler, schedule: Schedule) -> tuple[Tensor, da.Report]:
    chain = GaussianChain(GaussianMixture.random(3, components=4), schedule)
    result = da.sample(chain, 6, sampler=sampler, seed=0)
    return result.samples, result.report


@pytest.mark.parametrize("sampler", VARIANTS, ids=repr)
def test_deterministic_steps_are_never_speculated(sampler: Sampler) -> None:
    schedule = da.DDIM(linear_betas(9, 0.05, 0.5), eta=0.0)
    samples, report = never_drafted(sampler, schedule)
    reference, _ = never_drafted(Sequential(), schedule)
    assert torch.equal(samples, reference)
    assert report.drafted == 0 and report.rounds == report.steps == 9 and report.queries == 6 * 9


@pytest.mark.parametrize("sampler", PLAIN, ids=repr)
def test_a_deterministic_step_in_the_middle(sampler: Sampler, check: Check) -> None:
    draws = 150 if isinstance(sampler, Recursive) else 5_000
    schedule = Walk((1.0, 0.8, 0.0, 0.5, 0.0, 0.0, 0.7, 1.0))
    chain = GaussianChain(
        lambda x, k: torch.tanh(x.roll(1, -1)) - x / 4, schedule, (2,), record=range(1, 8), dtype=torch.float64
    )
    result = da.sample(chain, draws, sampler=sampler, seed=0, max_live=draws)
    xi = innovations(chain, result.samples)
    assert xi.shape == (draws, 5, 2) and xi.abs().max() < 10  # and deterministic steps are what they should be
    check(path_p_value(xi))


# What is refused


def test_a_learned_variance_needs_a_schedule_that_has_one() -> None:
    chain = GaussianChain(lambda x, k: torch.cat([x, x], dim=1), SCHEDULES["ddpm"], (3, 4, 4))
    with pytest.raises(SamplingError, match=r"learned variance; use a schedule that has one") as caught:
        da.sample(chain, 2, seed=0)
    assert isinstance(caught.value.__cause__, AnswerError)


WRONG: list[tuple[Callable[[Tensor], Any], str]] = [
    (lambda x: x[:, :1], r"must answer predictions of shape \(\d+, 3\), not \(\d+, 1\)"),
    (lambda x: x[:-1], "must answer predictions of shape"),
    (lambda x: x.numpy(), "must answer a tensor of shape .* not ndarray"),
    (lambda x: None, "not NoneType"),
]


@pytest.mark.parametrize("sampler", EVERY, ids=repr)
@pytest.mark.parametrize(("answer", "message"), WRONG, ids=range(len(WRONG)))
def test_a_wrong_answer_is_refused(answer: Callable[[Tensor], Any], message: str, sampler: Sampler) -> None:
    with pytest.raises(SamplingError, match=message):
        da.sample(GaussianChain(lambda x, k: answer(x), SCHEDULES["ddpm"], (3,)), 3, sampler=sampler, seed=0)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
@pytest.mark.parametrize("sampler", EVERY, ids=repr)
def test_a_prediction_that_is_no_number_is_located(sampler: Sampler, bad: float) -> None:
    """Sample 1 starts at 100 and stays there: at step 2 its prediction is bad."""

    def denoiser(x: Tensor, k: Tensor) -> Tensor:
        out = x / 10
        out[(k == 2) & (x[:, 0] > 50), 1] = bad
        return out

    start = torch.tensor([[0.0, 0.0], [100.0, 0.0], [0.0, 0.0]])
    chain = GaussianChain(denoiser, Walk((0.1,) * 5), (2,), start=start)
    with pytest.raises(SamplingError, match="prediction for sample 1 at step 2 is not finite"):
        da.sample(chain, 3, sampler=sampler, seed=0)


def identity(x: Tensor, k: Tensor) -> Tensor:
    return x


REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: GaussianChain(identity), "schedule= and shape="),
    (lambda: GaussianChain(identity, SCHEDULES["ou"]), "schedule= and shape="),
    (lambda: GaussianChain(identity, shape=(2,)), "schedule= and shape="),
    (lambda: GaussianChain(identity, SCHEDULES["ou"], ()), "shape"),
    (lambda: GaussianChain(identity, SCHEDULES["ou"], (3, 0)), "shape"),
    (lambda: GaussianChain(identity, SCHEDULES["ou"], (2,), start=torch.zeros(3)), "start must have shape"),
    (lambda: GaussianChain(identity, SCHEDULES["ou"], (2,), known=torch.zeros(2, 2, 2)), "known must have shape"),
    (lambda: GaussianChain(identity, SCHEDULES["ou"], (2,), record=[6]), "record"),
    (lambda: GaussianChain(identity, SCHEDULES["ou"], (2,), record=[0]), "record"),
    (lambda: GaussianTarget(), "variances"),
    (lambda: GaussianTarget(variances=-torch.ones(2)), "variances"),
    (lambda: GaussianTarget(covariance=torch.ones(2, 3)), "covariance"),
    (lambda: GaussianTarget(variances=torch.ones(2), mean=torch.ones(3)), "mean"),
    (lambda: GaussianMixture(torch.ones(3), 1.0), "means"),
    (lambda: GaussianMixture(torch.ones(3, 1), 1.0, torch.ones(2)), "weights"),
    (lambda: Hypercube(0), "d must"),
    (lambda: DataSet(torch.ones(3)), "points"),
    (lambda: DataSet(torch.full((3, 2), torch.nan)), "finite"),
    (lambda: Picard(tolerance=-1.0), "tolerance"),
]


@pytest.mark.parametrize(("make", "message"), REFUSED, ids=range(len(REFUSED)))
def test_bad_input_is_named(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


# Denoisers


@pytest.mark.parametrize("name", SCHEDULES)
def test_converters_agree_with_the_exact_denoiser(name: str) -> None:
    """The exact denoiser written as another prediction, and converted back."""
    schedule = SCHEDULES[name]
    plan, exact = schedule.plan(), GaussianMixture.random(3, components=4).denoiser(schedule)
    step_of = {float(time): k for k, time in enumerate(plan.time)}
    x = torch.randn(40, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    k = torch.arange(40) % len(plan.a)
    if not float(plan.signal[0]):
        k = k.clamp(min=1)  # before any signal there is nothing to convert

    def network(kind: str) -> Callable[[Tensor, Tensor], Tensor]:
        def forward(x: Tensor, time: Tensor) -> Tensor:
            k = torch.tensor([step_of[float(t)] for t in time])
            data, signal, noise = exact(x, k), plan.signal[k, None], plan.noise[k, None]
            epsilon = (x - signal * data) / noise
            return {
                "data": data,
                "epsilon": epsilon,
                "score": -epsilon / noise,
                "velocity": signal * epsilon - noise * data,
            }[kind]

        return forward

    converters = {"data": da.from_data_prediction, "epsilon": da.from_epsilon, "score": da.from_score}
    if torch.allclose(plan.signal**2 + plan.noise**2, torch.ones((), dtype=torch.float64)):
        converters["velocity"] = da.from_velocity
    for kind, convert in converters.items():
        assert torch.allclose(convert(network(kind), schedule)(x, k), exact(x, k), atol=1e-9), kind


def test_a_converted_network_draws_the_same_images() -> None:
    schedule = da.DDPM(linear_betas(8, 0.05, 0.5))
    exact = LINEAR.denoiser(schedule)
    plan = schedule.plan()

    def network(x: Tensor, time: Tensor) -> Tensor:
        k = 7 - time
        view = (-1, 1, 1)
        signal, noise = plan.signal[k].view(view), plan.noise[k].view(view)
        return (x - signal * exact(x.flatten(1), k).view(x.shape)) / noise

    one = GaussianChain(da.from_epsilon(network, schedule), schedule, (1, 2), dtype=torch.float64)
    other = GaussianChain(LINEAR, schedule)
    for sampler in EVERY:
        images = da.sample(one, 5, sampler=sampler, seed=0).samples
        assert images.shape == (5, 1, 2)
        assert torch.allclose(images[:, 0], da.sample(other, 5, sampler=sampler, seed=0).samples, atol=1e-9)


@pytest.mark.parametrize("sampler", [*VARIANTS, Picard(), Picard(window=3)], ids=repr)
def test_the_report_counts_what_the_denoiser_saw(sampler: Sampler) -> None:
    if sampler == Recursive(growth=7.0):
        pytest.skip("too many candidates")
    schedule = SCHEDULES["euler"]
    counting = CountingDenoiser(LINEAR.denoiser(schedule))
    chain = GaussianChain(counting, schedule, (2,), dtype=torch.float64)
    report = da.sample(chain, 9, sampler=sampler, seed=0).report
    assert (report.rounds, report.queries, report.passes) == (counting.calls, counting.queries, counting.queries)
    assert sum(report.committed) == 9 * 6 and report.queries == sum(report.widths)
    assert report.exact == (not isinstance(sampler, Picard))
    counting.calls = counting.queries = 0
    split = da.sample(chain, 9, sampler=sampler, seed=0, max_batch_size=2).report
    assert (split.rounds, split.queries) == (report.rounds, counting.queries) and counting.calls > report.rounds


@pytest.mark.parametrize("sampler", EVERY, ids=repr)
def test_a_sample_does_not_depend_on_its_batch(sampler: Sampler) -> None:
    chain = GaussianChain(GaussianMixture.random(3), da.StochasticLocalization(12, delta=0.1))
    few = isinstance(sampler, Recursive)
    many = da.sample(chain, 6 if few else 40, sampler=sampler, seed=5).samples
    for options in ({"max_live": 3}, {"max_batch_size": 5}, {"max_live": 1, "max_batch_size": 1}):
        other = da.sample(chain, 6, sampler=sampler, seed=5, **options).samples  # type: ignore[arg-type]
        assert torch.allclose(other, many[:6], rtol=1e-12, atol=1e-12)
    assert not torch.allclose(da.sample(chain, 6, sampler=sampler, seed=6).samples, many[:6])


@pytest.mark.parametrize("tolerance", [0.0, 1e-9])
@pytest.mark.parametrize("name", SCHEDULES)
def test_picard_to_no_tolerance_is_sequential(name: str, tolerance: float) -> None:
    chain = whole(GaussianMixture.random(3), SCHEDULES[name])
    result = da.sample(chain, 8, sampler=Picard(tolerance=tolerance), seed=2)
    reference = da.sample(chain, 8, sampler=Sequential(), seed=2).samples
    assert torch.allclose(result.samples, reference, atol=1e-6) and not result.report.exact


def test_picard_saves_rounds_and_stays_close() -> None:
    chain = GaussianChain(GaussianTarget(variances=torch.ones(64)), da.StochasticLocalization(256))
    result = da.sample(chain, 4, sampler=Picard(tolerance=0.05), seed=0)
    reference = da.sample(chain, 4, sampler=Sequential(), seed=0).samples
    assert result.report.rounds < 60 and 0 < (result.samples - reference).square().mean() < 0.1**2


# Targets


def tilted_mean(density: Callable[[float], float], x: float, t: float) -> float:
    """The mean of mu(y) exp(x y - t y^2 / 2) by quadrature."""

    def weight(y: float) -> float:
        return density(y) * torch.exp(torch.tensor(x * y - t * y * y / 2, dtype=torch.float64)).item()

    top, mass = (integrate.quad(lambda y, p=p: y**p * weight(y), -12, 12, limit=400)[0] for p in (1, 0))
    return float(top / mass)


def test_a_mixture_denoises_exactly() -> None:
    means, variances, weights = float64(-2.0, 0.5, 3.0), float64(0.4, 1.0, 0.2), float64(0.5, 0.2, 0.3)
    mixture = GaussianMixture(means[:, None], variances, weights)
    normals = torch.distributions.Normal(means, variances.sqrt())

    def density(y: float) -> float:
        return float((weights * normals.log_prob(torch.tensor(y, dtype=torch.float64)).exp()).sum())

    for x, t in ((0.0, 0.0), (1.3, 0.0), (-2.0, 0.7), (4.0, 2.0)):
        ours = float(mixture.mean(float64(x)[:, None], float64(t)))
        assert ours == pytest.approx(tilted_mean(density, x, t), abs=1e-7)


def test_other_targets_denoise_exactly() -> None:
    """As mixtures of points, or of one component, of which the mean is known."""
    generator = torch.Generator().manual_seed(0)
    x, t = torch.randn(20, 3, dtype=torch.float64, generator=generator) * 2, torch.linspace(0, 5, 20).double()
    corners = torch.cartesian_prod(*[float64(-1.0, 1.0)] * 3)
    points = GaussianMixture(corners, 0.0)
    assert torch.allclose(Hypercube(3).mean(x, t), points.mean(x, t))
    assert torch.allclose(DataSet(corners).mean(x, t), points.mean(x, t))
    one = GaussianMixture(float64(1.0, -0.5, 2.0)[None], 0.3)
    gaussian = GaussianTarget(variances=torch.full((3,), 0.3), mean=float64(1.0, -0.5, 2.0))
    assert torch.allclose(gaussian.mean(x, t), one.mean(x, t), atol=1e-6)
    covariance = torch.tensor([[2.0, 0.5, 0.1], [0.5, 1.0, 0.2], [0.1, 0.2, 0.7]], dtype=torch.float64)
    tilted = torch.stack(
        [torch.linalg.solve(torch.linalg.inv(covariance) + s * torch.eye(3), v) for v, s in zip(x, t, strict=True)]
    )
    assert torch.allclose(GaussianTarget(covariance=covariance).mean(x, t), tilted)


def test_a_data_set_is_a_softmax_over_its_points() -> None:
    generator = torch.Generator().manual_seed(0)
    points = torch.randn(57, 2, 5, dtype=torch.float64, generator=generator)
    x, t = torch.randn(30, 10, dtype=torch.float64, generator=generator) * 3, torch.linspace(0, 9, 30).double()
    flat = points.flatten(1)
    distance = ((x[:, None] / t.clamp(min=1e-3)[:, None, None] - flat) ** 2).sum(-1)  # of x / t from each point
    brute = (-t.clamp(min=1e-3)[:, None] / 2 * distance).softmax(1) @ flat
    whole_set = DataSet(points)
    assert whole_set.shape == (2, 5) and torch.allclose(whole_set.mean(x, t)[1:], brute[1:])
    for chunk in (1, 7, 57, 100):
        assert torch.allclose(DataSet(points, chunk=chunk).mean(x, t), whole_set.mean(x, t))
    far = DataSet(points).mean(x * 1e4, torch.full((30,), 1e4, dtype=torch.float64))
    assert far.isfinite().all()  # nothing overflows where one point has all the weight


def test_samples_of_a_data_set_are_its_points() -> None:
    points = torch.randn(20, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(1)) * 3
    schedule = da.DDPM(linear_betas(60, 1e-3, 0.3))
    samples = da.sample(GaussianChain(DataSet(points), schedule), 100, seed=0, max_live=100).samples
    distance, which = torch.cdist(samples, points).min(1)
    assert distance.max() < 0.1 and len(which.unique()) > 10


def test_a_large_data_set_fits_in_memory() -> None:
    """60 000 images of 784 pixels: the points alone are 0.35 GiB."""
    script = """
import torch
from drawahead.targets import DataSet
torch.set_num_threads(1)
data = DataSet(torch.rand(60_000, 28, 28, dtype=torch.float32))
mean = data.mean(torch.randn(4, 784, dtype=torch.float64), torch.full((4,), 2.0, dtype=torch.float64))
assert mean.shape == (4, 784) and mean.isfinite().all()
print(peak() / 2**30)
"""
    done = subprocess.run([sys.executable, "-c", PEAK + script], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 4


def test_a_start_for_other_samples_is_where_they_start() -> None:
    """Also on a chain that begins around an image."""
    schedule = da.DDPM(timesteps=da.schedules.spaced(10, 1000))
    chain = GaussianChain(lambda x, k: torch.tanh(x), schedule, (2,), around=torch.full((2,), 100.0))
    there = chain.for_samples(start=torch.zeros(2))
    plain = GaussianChain(lambda x, k: torch.tanh(x), schedule, (2,), start=torch.zeros(2))
    for sampler in (Sequential(), da.Coupled()):
        one, other = (da.sample(c, 3, seed=0, sampler=sampler).samples for c in (there, plain))
        assert torch.equal(one, other)
    assert there.replace().around is None and chain.for_samples().around is not None


@pytest.mark.parametrize("graphs", [False, True], ids=["packed", "captured"])
@pytest.mark.parametrize("bad", [torch.inf, -torch.inf, torch.nan])
def test_a_prediction_that_is_not_finite_is_refused_before_it_is_clipped(bad: float, graphs: bool) -> None:
    threshold = da.schedules.Threshold(0.9, most=2.0)
    for limit in ({"clip": 1.0}, {"threshold": threshold}):
        schedule = da.DDPM(timesteps=da.schedules.spaced(10, 1000), **limit)  # type: ignore[arg-type]
        chain = GaussianChain(lambda x, k: torch.where(k[:, None] == 6, bad, x), schedule, (2,))
        for sampler in (Sequential(), da.Coupled(3)):
            with pytest.raises(SamplingError, match="not finite"):
                da.sample(chain, 2, seed=0, sampler=sampler, graphs=graphs)
