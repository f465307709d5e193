"""rtk.sample: the segments together, what they cost, and what is refused."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor
from torch.special import ndtr

import drawahead as da
from drawahead import rtk
from drawahead.randomness import Purpose, Stream
from drawahead.rtk import HMC, MALA, ULA, ULD, Info, Kernel, LineIntegral, MarkovKernel, Noise, ProjectedMALA, Segments
from drawahead.targets import GaussianMixture, Hypercube
from drawahead.verification.statistics import kolmogorov
from tests.exactness import combined
from tests.rtk.laws import (
    COVARIANCE,
    GAUSSIAN,
    MEAN,
    MIXTURE,
    gaussian_kernel,
    gaussian_uniforms,
    generator,
    normals,
)

Check = Callable[[float], None]
RING = GaussianMixture(torch.tensor([[2.0, 0.0], [-2.0, 0.0], [0.0, 1.0]]), 0.3)
KERNELS = [ULA(0.05, 4), ULD(0.2, 2.0, 4), MALA(0.2, 4), ProjectedMALA(0.2, 4, 1.5, 5.0), HMC(0.2, 3, 4)]
BASELINES = [rtk.ReverseSDE(2), rtk.ProbabilityFlow(), rtk.DPOM(0.02, 2), rtk.DPUM(0.1, 2.0, 2)]
MIXED = rtk.PerSegment(lambda time, eta: rtk.ReverseSDE(2 if time < 0.2 else 1), steps=2)
SEGMENTS = Segments.even(2.0, 3, last=0.1)
CALLS = {ULA: 12, ULD: 12, MALA: 15, ProjectedMALA: 15, HMC: 39, rtk.ReverseSDE: 6, rtk.ProbabilityFlow: 3, rtk.DPOM: 9}
CALLS |= {rtk.DPUM: 9, rtk.PerSegment: 4}
"""Of the score in all three segments: four steps in each, of one gradient or three leaps; baselines have two or one."""


@dataclass(frozen=True)
class ExactKernel(Kernel):
    """Draws the reverse transition kernel of the Gaussian of these tests exactly: no Markov chain at all."""

    steps: int = 1

    def draw(self, target: rtk.RTKTarget, noise: Noise) -> tuple[Tensor, Info]:
        precision, pull = gaussian_kernel(target.x_prime, target.time, target.eta)
        covariance = torch.linalg.inv(precision)
        z = pull @ covariance + noise.normal(3) @ torch.linalg.cholesky(covariance).T
        return z, Info.sure(z)


@dataclass(frozen=True)
class Nothing(Kernel):
    """Leaves the state where it is."""

    steps: int = 1

    def draw(self, target: rtk.RTKTarget, noise: Noise) -> tuple[Tensor, Info]:
        return target.x_prime, Info.sure(target.x_prime)


def law_at(t: float) -> tuple[Tensor, Tensor]:
    """Mean and covariance of the Gaussian at time t."""
    signal = math.exp(-t)
    return signal * MEAN, signal**2 * COVARIANCE + (1 - signal**2) * torch.eye(3, dtype=torch.float64)


class TestTheLaw:
    def test_exact_kernels_carry_the_first_law_to_the_last(self, check: Check) -> None:
        """From p_T to p_last; and from a standard normal to what the kernels' means and covariances say."""
        mean, covariance = law_at(1.2)
        first = mean + normals(20_000, 3) @ torch.linalg.cholesky(covariance).T
        settings = {"kernel": ExactKernel(), "segments": Segments((1.2, 0.7, 0.3, 0.05)), "num_samples": 20_000}
        from_law = rtk.sample(GAUSSIAN, **settings, start=first, seed=1).samples
        from_noise = rtk.sample(GAUSSIAN, **settings, seed=2).samples
        mean, covariance = torch.zeros(1, 3, dtype=torch.float64), torch.eye(3, dtype=torch.float64)
        for later, earlier in ((1.2, 0.7), (0.7, 0.3), (0.3, 0.05)):
            kernel = torch.linalg.inv(gaussian_kernel(mean, earlier, later - earlier)[0])
            slope = kernel * math.exp(later - earlier) / math.expm1(2 * (later - earlier))
            mean = gaussian_kernel(mean, earlier, later - earlier)[1] @ kernel
            covariance = kernel + slope @ covariance @ slope.T
        uniforms = [*gaussian_uniforms(from_law, *law_at(0.05)), *gaussian_uniforms(from_noise, mean, covariance)]
        check(combined([kolmogorov(u) for u in uniforms]))

    @pytest.mark.parametrize("kernel", [MALA(0.12, 25), ULD(0.1, 3.0, 60)], ids=repr)
    def test_from_the_first_law_of_a_mixture_to_the_last(self, kernel: Kernel, check: Check) -> None:
        which = torch.multinomial(MIXTURE.log_weights.exp(), 10_000, replacement=True, generator=generator())
        data = MIXTURE.means[which] + MIXTURE.variances[which, None].sqrt() * normals(10_000, 1, seed=1)
        first = math.exp(-1.5) * data + math.sqrt(1 - math.exp(-3)) * normals(10_000, 1, seed=2)
        segments = Segments((1.5, 0.9, 0.55, 0.3, 0.15, 0.05))
        z = rtk.sample(MIXTURE, kernel=kernel, segments=segments, num_samples=10_000, start=first, seed=3).samples
        signal = math.exp(-0.05)
        scale = (signal**2 * MIXTURE.variances + 1 - signal**2).sqrt()
        check(kolmogorov((ndtr((z - signal * MIXTURE.means.T) / scale) * MIXTURE.log_weights.softmax(0)).sum(1)))

    @pytest.mark.slow
    def test_from_noise_to_data(self, check: Check) -> None:
        """From a standard normal at time 6 to time 0, by ten times as many draws."""
        segments = Segments((6.0, 3.0, 1.5, 0.9, 0.55, 0.3, 0.15, 0.08, 0.04, 0.0))
        z = rtk.sample(MIXTURE, kernel=MALA(0.08, 60), segments=segments, num_samples=100_000, seed=4).samples
        each = ndtr((z - MIXTURE.means.T) / MIXTURE.variances.sqrt())
        check(kolmogorov((each * MIXTURE.log_weights.softmax(0)).sum(1)))


class TestAddresses:
    @pytest.mark.parametrize("kernel", [*KERNELS, *BASELINES], ids=lambda kernel: type(kernel).__name__)
    def test_a_sample_depends_on_its_number_and_the_seed_alone(self, kernel: Kernel) -> None:
        settings = {"kernel": kernel, "segments": SEGMENTS}
        whole = rtk.sample(RING, **settings, num_samples=50, seed=7).samples
        split = rtk.sample(RING, **settings, num_samples=50, seed=7, max_batch_size=7).samples
        fewer = rtk.sample(RING, **settings, num_samples=3, seed=7).samples
        other = rtk.sample(RING, **settings, num_samples=3, seed=8).samples
        assert torch.allclose(whole, split, rtol=1e-9, atol=1e-9)
        assert torch.allclose(whole[:3], fewer, rtol=1e-9, atol=1e-9)
        assert not torch.allclose(fewer, other, atol=0.01)
        assert len(torch.unique(whole[:, 0])) == 50

    def test_the_first_state_is_the_noise_of_the_start(self) -> None:
        samples = rtk.sample(RING, kernel=Nothing(), segments=SEGMENTS, num_samples=5, seed=3).samples
        stream = Stream.of_samples(3, torch.arange(5))
        assert torch.equal(samples, stream.normal(Purpose.START, torch.zeros(5, dtype=torch.int64), size=2))
        given = normals(5, 2)
        same = rtk.sample(RING, kernel=Nothing(), segments=SEGMENTS, num_samples=5, start=given).samples
        assert torch.equal(same, given)
        one = rtk.sample(RING, kernel=Nothing(), segments=SEGMENTS, num_samples=5, start=given[0]).samples
        assert torch.equal(one, given[:1].expand(5, 2))

    def test_inner_step_s_of_segment_k_is_step_k_times_s(self) -> None:
        """What another way of running the same chain relies on: by hand, from the stream alone."""
        kernel = ULD(0.2, 2.0, 2)
        drawn = rtk.sample(RING, kernel=kernel, segments=SEGMENTS, num_samples=4, seed=5).samples
        stream, c = Stream.of_samples(5, torch.arange(4)), kernel.coefficients

        def normal(purpose: Purpose, step: int, size: int) -> Tensor:
            return stream.normal(purpose, torch.full((4,), step), size=size)

        x = normal(Purpose.START, 0, 2)
        for k, eta in enumerate(SEGMENTS.lengths):
            target = rtk.RTKTarget(rtk.exact(RING), SEGMENTS.times[k + 1], eta, x)
            first = normal(Purpose.KNOWN, 2 * k, 4)
            slope, scale = kernel.begin.coefficients(eta)
            z, v = slope * x + scale * first[:, :2], first[:, 2:]
            for s in range(2):
                u, gradient = normal(Purpose.VALUE, 2 * k + s, 4), target.gradient(z)
                z, v = (
                    z + c.drift * v - c.z_push * gradient + c.z_u1 * u[:, :2],
                    c.keep * v - c.v_push * gradient + c.v_u1 * u[:, :2] + c.v_u2 * u[:, 2:],
                )
            x = z
        assert torch.equal(x, drawn)


class Counting:
    """A network that counts for itself."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.times: set[float] = set()

    def __call__(self, x: Tensor, t: Tensor) -> Tensor:
        self.asked.append(len(x))
        self.times |= set(t.tolist())
        return -x


class TestTheReport:
    @pytest.mark.parametrize("kernel", [*KERNELS, *BASELINES, MIXED], ids=lambda kernel: type(kernel).__name__)
    def test_every_call_is_counted(self, kernel: Kernel) -> None:
        network = Counting()
        score = rtk.learned(network, energy=LineIntegral(3))
        score(torch.zeros(2, 2), torch.ones(2))  # what was asked before does not count
        network.asked.clear()
        result = rtk.sample(
            score, kernel=kernel, segments=SEGMENTS, num_samples=10, shape=(2,), max_batch_size=4, seed=0
        )
        report = result.report
        # Three batches of 4, 4 and 2.
        in_segments = CALLS[type(kernel)]
        assert report.calls == 3 * in_segments
        assert report.queries == 10 * in_segments and report.queries_per_sample == in_segments
        differences = isinstance(kernel, MALA | ProjectedMALA | HMC)
        assert report.energy_calls == 3 * 3 * 4 * differences
        assert report.energy_queries_per_sample == 3 * 4 * 3 * differences
        assert len(network.asked) == report.calls + report.energy_calls
        assert sum(network.asked) == report.queries + report.energy_queries
        if isinstance(kernel, MarkovKernel):
            assert len(network.times) == 4  # once 1, then the ends of the segments
        assert len(report.acceptance) == 3 and all(0 < share <= 1 for share in report.acceptance)
        assert result.samples.dtype == torch.float32

    def test_exact_energies_are_counted_too(self) -> None:
        report = rtk.sample(RING, kernel=MALA(0.2, 4), segments=SEGMENTS, num_samples=10).report
        assert (report.energy_calls, report.energy_queries, report.energy_error) == (12, 240, 0.0)

    def test_the_error_of_energies_is_reported(self) -> None:
        settings = {"kernel": MALA(0.2, 4), "segments": SEGMENTS, "num_samples": 10}
        rough, fine = (
            rtk.sample(rtk.exact(RING, energy=LineIntegral(nodes)), **settings).report.energy_error for nodes in (3, 8)
        )
        assert 0 < fine < 0.1 * rough

    def test_it_reads_well_and_goes_into_json(self) -> None:
        report = rtk.sample(RING, kernel=MALA(0.2, 4), segments=SEGMENTS, num_samples=10, seed=3).report
        text = str(report)
        assert "MALA: 10 samples, 3 x 4 steps, seed 3" in text
        assert "15 calls, 15.0 queries per sample" in text and "energies    12 calls" in text and "acceptance" in text
        assert json.loads(json.dumps(report.to_dict()))["queries_per_sample"] == 15.0
        assert "acceptance" not in str(rtk.sample(RING, kernel=ULA(0.2, 4), segments=SEGMENTS).report)


class TestInputs:
    def test_a_network_over_images(self) -> None:
        shapes = set()

        def network(x: Tensor, t: Tensor) -> Tensor:
            shapes.add(tuple(x.shape[1:]))
            return -x

        samples = rtk.sample(
            rtk.learned(network, (3, 4, 4)), kernel=ULA(0.1, 2), segments=SEGMENTS, num_samples=2
        ).samples
        assert samples.shape == (2, 3, 4, 4) and shapes == {(3, 4, 4)}

    def test_a_plain_callable_and_a_target(self) -> None:
        settings = {"kernel": ULA(0.1, 2), "segments": SEGMENTS, "num_samples": 2}
        assert rtk.sample(lambda x, t: -x, **settings, shape=(5,)).samples.shape == (2, 5)
        assert rtk.sample(Hypercube(4), **settings).samples.shape == (2, 4)

    def test_the_global_generator_is_left_alone(self) -> None:
        before = torch.get_rng_state()
        rtk.sample(RING, kernel=MALA(0.1, 2), segments=SEGMENTS, num_samples=2)
        assert torch.equal(before, torch.get_rng_state())

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"num_samples": 0}, "num_samples must be at least 1"),
            ({"seed": 1.5}, "seed must be a whole number"),
            ({"shape": (3,)}, r"shape is \(3,\), but the score answers about states of shape \(2,\)"),
            ({"score": lambda x, t: -x}, "shape= must give the sizes"),
            ({"score": lambda x, t: -x, "shape": (0,)}, "positive numbers"),
            ({"score": lambda x, t: -x, "shape": (2, 2)}, "learned"),
            ({"start": torch.zeros(3)}, r"start must have shape \(2,\) or \(num_samples, \*\(2,\)\), not \(3,\)"),
            ({"start": torch.tensor([0.0, math.nan])}, "start must be finite"),
            ({"start": torch.zeros(3, 2)}, r"start must have shape .* not \(3, 2\)"),
            ({"max_batch_size": 0}, "max_batch_size must be at least 1"),
        ],
    )
    def test_refusals(self, change: dict[str, object], message: str) -> None:
        settings: dict[str, object] = {"score": RING, "kernel": ULA(0.1, 2), "segments": SEGMENTS, **change}
        with pytest.raises(da.InputError, match=message):
            rtk.sample(**settings)  # type: ignore[arg-type]

    def test_what_is_finished_is_kept_when_the_score_fails(self) -> None:
        calls = 0

        def network(x: Tensor, t: Tensor) -> Tensor:
            nonlocal calls
            calls += 1
            return -x if calls <= 20 else x / 0

        with pytest.raises(da.SamplingError, match=r"9 of 100 samples finished.*NaN") as caught:
            rtk.sample(
                network, kernel=ULA(0.1, 2), segments=SEGMENTS, num_samples=100, shape=(2,), max_batch_size=3, seed=1
            )
        result = caught.value.result
        assert isinstance(caught.value.__cause__, da.AnswerError) and isinstance(result, rtk.RTKResult)
        whole = rtk.sample(lambda x, t: -x, kernel=ULA(0.1, 2), segments=SEGMENTS, num_samples=9, shape=(2,), seed=1)
        assert torch.equal(result.samples, whole.samples) and result.report.num_samples == 9

    def test_steps_that_are_too_long(self) -> None:
        with pytest.raises(da.SamplingError, match="smaller tau"):
            rtk.sample(RING, kernel=ULA(50.0, 600), segments=SEGMENTS)
