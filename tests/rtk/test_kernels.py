"""Kernels: steps are what the equations say, adjusted ones leave their law unchanged, all get there in the end."""

from __future__ import annotations

import doctest
import math
import sys
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from scipy.linalg import expm
from torch import Tensor
from torch.special import ndtr

import drawahead as da
from drawahead import rtk
from drawahead.rtk import (
    HMC,
    MALA,
    ULA,
    ULD,
    CentredStart,
    FunctionPotential,
    GaussianStart,
    LineIntegral,
    MarkovKernel,
    Noise,
    ProjectedMALA,
    RTKTarget,
    Segments,
    Start,
    State,
    kernels,
)
from tests.exactness import LEVEL
from tests.rtk.laws import (
    MIXTURE,
    ROWS,
    gaussian_case,
    integrated,
    mixture_case,
    normals,
    unadjusted_p_value,
)
from tests.rtk.mutants import (
    BALL,
    HMC_GAUSSIAN,
    MALA_GAUSSIAN,
    MALA_MIXTURE,
    MUTANTS,
    ULA_GAUSSIAN,
    ULD_GAUSSIAN,
    EulerForLeapfrog,
    InvertedProposalRatio,
    Mutant,
    NoProposalRatio,
    WrongVariance,
)

Check = Callable[[float], None]


def detailed_balance(kernel: MALA | ProjectedMALA, target: RTKTarget, old: Tensor, new: Tensor) -> Tensor:
    """log of pi(z) q(z, z') a(z, z') minus the same of the way back; pi and q written out here (rows,)."""
    t = torch.full((len(old),), target.time, dtype=torch.float64)

    def log_pi(z: Tensor) -> Tensor:
        quadratic = (target.x_prime - math.exp(-target.eta) * z).square().sum(1) / (2 * (1 - math.exp(-2 * target.eta)))
        return rtk.exact(MIXTURE).log_density(z, t) - quadratic

    def log_q(z: Tensor, to: Tensor) -> Tensor:
        return -(to - z + kernel.tau * target.gradient(z)).square().sum(1) / (4 * kernel.tau)

    one, other = (State(z, gradient=target.gradient(z)) for z in (old, new))
    forth, back = (kernel.log_acceptance(target, *pair).value.clamp(max=0) for pair in ((one, other), (other, one)))
    return log_pi(old) + log_q(old, new) + forth - log_pi(new) - log_q(new, old) - back


class TestAdjusted:
    def test_detailed_balance_on_random_pairs(self) -> None:
        target = mixture_case(500).target
        old, new = 1.5 * normals(500, 1, seed=1), 1.5 * normals(500, 1, seed=2)
        for kernel in (MALA(0.3, 1), MALA(0.02, 1), ProjectedMALA(0.3, 1, 1.0, 2.0)):
            assert float(detailed_balance(kernel, target, old, new).abs().max()) < 1e-9
        for mutant in (InvertedProposalRatio(0.3, 1), NoProposalRatio(0.3, 1)):
            assert float(detailed_balance(mutant, target, old, new).abs().mean()) > 0.1
        ball = ProjectedMALA(0.3, 1, 1.0, 2.0)  # a move is allowed if its reverse is, inside the ball
        here, there = State(old), State(new)
        inside = (old.abs() <= 2)[:, 0] & (new.abs() <= 2)[:, 0]
        assert torch.equal(ball.allows(here, there) & inside, ball.allows(there, here) & inside)

    @pytest.mark.parametrize(
        ("name", "kernel"),
        [
            ("mixture", MALA(*MALA_MIXTURE)),
            ("mixture", HMC(0.55, 3, 12)),
            ("ball", ProjectedMALA(*BALL)),
            ("gaussian", MALA(*MALA_GAUSSIAN)),
            ("gaussian", ProjectedMALA(0.25, 30, 1.5, 9.0)),
            ("gaussian", HMC(0.5, 2, 10)),
        ],
        ids=lambda value: value if isinstance(value, str) else repr(value),
    )
    def test_leaves_its_law_unchanged(self, name: str, kernel: MarkovKernel, check: Check) -> None:
        case = gaussian_case() if name == "gaussian" else mixture_case(radius=1.5 if name == "ball" else math.inf)
        check(case.stays_p_value(kernel, seed=1))

    def test_leaves_it_unchanged_with_energies_from_the_score_alone(self, check: Check) -> None:
        case = mixture_case()
        target = replace(case.target, score=rtk.exact(MIXTURE, energy=LineIntegral(6)))
        check(replace(case, target=target).stays_p_value(MALA(*MALA_MIXTURE), seed=2))

    def test_leapfrog_runs_backwards_and_keeps_volume(self) -> None:
        target = mixture_case(40).target
        kernel, z, v = HMC(0.3, 7, 1), normals(40, 1), normals(40, 1, seed=1)
        there = kernel.leapfrog(target, State(z, v, target.gradient(z)))
        assert there.velocity is not None
        back = kernel.leapfrog(target, replace(there, velocity=-there.velocity))
        assert torch.allclose(back.z, z, atol=1e-10) and back.velocity is not None
        assert torch.allclose(-back.velocity, v, atol=1e-10)
        small = mixture_case(1).target

        def trajectory(place: Tensor) -> Tensor:
            end = kernel.leapfrog(small, State(place[:1, None], place[1:, None], small.gradient(place[:1, None])))
            assert end.velocity is not None
            return torch.cat([end.z[0], end.velocity[0]])

        def volume() -> float:
            jacobian = torch.autograd.functional.jacobian(trajectory, torch.tensor([0.4, -0.7], dtype=torch.float64))
            return abs(float(torch.linalg.det(jacobian)))

        assert volume() == pytest.approx(1, abs=1e-10)
        kernel = EulerForLeapfrog(0.3, 7, 1)
        assert volume() != pytest.approx(1, abs=0.1)

    def test_no_move_leaves_the_balls_and_what_is_rejected_stays(self) -> None:
        case = gaussian_case(2000)
        kernel, noise = ProjectedMALA(0.3, 40, 1.1, 3.0), Noise.of_samples(0, 2000)
        z = case.exact(0)
        state = kernel.start(case.target, z * (2.99 / z.norm(dim=1, keepdim=True)).clamp(max=1), noise)
        share = []
        for s in range(kernel.steps):
            after, info = kernel.step(case.target, state, noise.at(s))
            moved, stayed = info.accepted == 1, info.accepted == 0
            assert float(after.z.norm(dim=1).max()) <= 3.0
            assert float((after.z - state.z).norm(dim=1).max()) <= 1.1
            assert torch.equal(after.z[stayed], state.z[stayed])
            assert bool((after.z[moved] != state.z[moved]).all())
            assert after.gradient is not None and torch.allclose(after.gradient, case.target.gradient(after.z))
            state = after
            share.append(float(moved.double().mean()))
        assert 0.1 < min(share) < max(share) < 0.9
        free = MALA(0.3, 40)  # without balls the same proposals leave them
        assert float((free.step(case.target, state, noise.at(99))[0].z - state.z).norm(dim=1).max()) > 1.1


@pytest.mark.parametrize(
    ("name", "kernel"),
    [
        ("mixture", ULA(0.01, 150)),
        ("mixture", ULD(0.05, 3.0, 120)),
        ("mixture", MALA(*MALA_MIXTURE)),
        ("mixture", ProjectedMALA(0.3, 40, 2.5, 9.0)),
        ("mixture", HMC(0.4, 3, 12)),
        ("gaussian", HMC(*HMC_GAUSSIAN)),
        ("gaussian", MALA(*MALA_GAUSSIAN)),
    ],
    ids=lambda value: value if isinstance(value, str) else repr(value),
)
def test_many_steps_lead_to_the_kernel_from_where_they_start(name: str, kernel: MarkovKernel, check: Check) -> None:
    check((gaussian_case() if name == "gaussian" else mixture_case()).draw_p_value(kernel, seed=3))


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: f"{mutant.name}, {mutant.of}")
def test_a_mutant_is_rejected(mutant: Mutant) -> None:
    assert mutant.p_value() < LEVEL


class TestAlone:
    def test_the_example_in_the_documentation(self) -> None:
        result = doctest.testmod(kernels)
        assert result.attempted >= 7 and result.failed == 0
        result = doctest.testmod(sys.modules["drawahead.rtk.sample"])
        assert result.attempted >= 5 and result.failed == 0

    def test_a_law_without_energies(self) -> None:
        law, noise, z = FunctionPotential(lambda z: z), Noise.of_samples(0, 4), torch.zeros(4, 2, dtype=torch.float64)
        for kernel in (ULA(0.1, 3), ULD(0.1, 1.0, 3)):
            kernel.run(law, kernel.start(law, z, noise), noise)
        score = RTKTarget(rtk.learned(lambda x, t: -x, energy=None), 0.1, 0.1, z)
        for kernel in (MALA(0.1, 3), HMC(0.1, 2, 3), ProjectedMALA(0.1, 3, 1.0, 2.0)):
            with pytest.raises(da.InputError, match="needs energy differences: give energy= to FunctionPotential"):
                kernel.run(law, kernel.start(law, z, noise), noise)
            with pytest.raises(da.InputError, match=r"needs energy differences: give energy=LineIntegral\(\)"):
                kernel.draw(score, noise)

    @pytest.mark.parametrize(
        ("make", "message"),
        [
            (lambda: ULA(-0.1, 3), "tau must be a number above 0"),
            (lambda: ULA(0.1, 0), "steps must be at least 1"),
            (lambda: ULA(0.1, 2.5), "steps must be a whole number"),  # type: ignore[arg-type]
            (lambda: ULD(0.1, 0.0, 3), "gamma must be a number above 0"),
            (lambda: ULD(math.nan, 1.0, 3), "tau must be a number above 0"),
            (lambda: MALA(0.0, 3), "tau must be a number above 0"),
            (lambda: ProjectedMALA(0.1, 3, -1.0, 2.0), "reach must be a number above 0"),
            (lambda: ProjectedMALA(0.1, 3, 1.0, 0.0), "radius must be a number above 0"),
            (lambda: HMC(0.1, 0, 3), "leaps must be at least 1"),
            (lambda: GaussianStart(-1.0), "curvature must be a number not below 0"),
            (lambda: ULD.from_theory(-1.0, 2, 0.1), "smoothness must be a number above 0"),
            (lambda: MALA.from_theory(1.0, 0, 0.1), "d must be at least 1"),
            (lambda: rtk.ReverseSDE(0), "steps must be at least 1"),
            (lambda: rtk.ProbabilityFlow(0), "steps must be at least 1"),
            (lambda: rtk.DPOM(0.1, 2, predictor_steps=0), "predictor_steps must be at least 1"),
            (lambda: rtk.DPUM(0.1, 0.0, 2), "gamma must be a number above 0"),
            (lambda: rtk.PerSegment(lambda time, eta: rtk.ReverseSDE(), 0), "steps must be at least 1"),
        ],
    )
    def test_settings_that_make_no_sense(self, make: Callable[[], object], message: str) -> None:
        with pytest.raises(da.InputError, match=message):
            make()


PAIRS = [(2.0, 0.1), (1.0, 0.1), (3.0, 0.5), (1e-6, 1e-3), (0.01, 0.1), (1.0, 0.5), (1.0, 0.49999), (25.0, 2.0)]


class TestOneStepOfULD:
    @pytest.mark.parametrize(("gamma", "tau"), [*PAIRS, (1e-9, 1e-6), (1e4, 1e-9), (1e-3, 1e3), (40.0, 1.0)])
    def test_noise_and_mean_are_the_integrals(self, gamma: float, tau: float) -> None:
        step, truth = ULD(tau, gamma, 1).coefficients, integrated(gamma, tau)
        var_z, cov, var_v = step.covariance
        found = {**vars(step), "var_z": var_z, "cov": cov, "var_v": var_v}
        assert {name: found[name] for name in truth} == pytest.approx(truth, rel=1e-12, abs=0)

    @pytest.mark.parametrize(("gamma", "tau"), [(2.0, 0.1), (1.0, 0.1), (3.0, 0.5), (0.2, 0.5), (5.0, 1.0)])
    def test_they_solve_the_equations(self, gamma: float, tau: float) -> None:
        """The same by matrix exponentials: of the drift, and (Van Loan) of drift and noise together."""
        drift = torch.tensor([[0.0, 1.0], [0.0, -gamma]], dtype=torch.float64)
        noise = torch.tensor([[0.0, 0.0], [0.0, 2 * gamma]], dtype=torch.float64)
        both = torch.cat([torch.cat([-drift, noise], 1), torch.cat([torch.zeros_like(drift), drift.T], 1)])
        flow = torch.from_numpy(expm(tau * both.numpy()))
        covariance = flow[2:, 2:].T @ flow[:2, 2:]
        step = ULD(tau, gamma, 1).coefficients
        expected = float(covariance[0, 0]), float(covariance[0, 1]), float(covariance[1, 1])
        assert step.covariance == pytest.approx(expected, rel=1e-8)
        assert (step.drift, step.keep) == pytest.approx(flow[2:, 2:].T[:, 1].tolist(), rel=1e-9)

    @pytest.mark.parametrize("gamma", [1e-8, 1e-4, 1e-2, 1.0, 50.0, 1e4])
    def test_the_noise_is_always_a_law(self, gamma: float) -> None:
        for power in range(-8, 4):
            step = ULD(10.0**power, gamma, 1).coefficients
            var_z, cov, var_v = step.covariance
            assert step.v_u2 > 0 and var_z > 0 and var_z * var_v > cov**2

    def test_a_well_known_mistake_shows(self) -> None:
        """A factor misplaced in Var z: right at gamma = 2, no variance at all at gamma = 1."""
        assert WrongVariance(0.1, 2.0, 1).coefficients.covariance == pytest.approx(
            ULD(0.1, 2.0, 1).coefficients.covariance, rel=1e-9
        )
        wrong = WrongVariance(0.5, 3.0, 1).coefficients.covariance
        assert wrong[0] != pytest.approx(integrated(3.0, 0.5)["var_z"], rel=0.1)
        with pytest.raises(ValueError, match="math domain error"):
            _ = WrongVariance(0.1, 1.0, 1).coefficients


class TestUnadjusted:
    """On a Gaussian, whatever the steps: the law of (z, v) after all of them, by a linear recursion."""

    @pytest.mark.parametrize(
        "kernel",
        [
            ULA(*ULA_GAUSSIAN),
            ULD(*ULD_GAUSSIAN),
            ULD(0.5, 0.6, 5, CentredStart()),
            ULD(0.2, 8.0, 20, GaussianStart(6.0)),
        ],
        ids=repr,
    )
    def test_has_the_law_that_its_steps_say(self, kernel: ULA | ULD, check: Check) -> None:
        check(unadjusted_p_value(kernel))


class TestTheory:
    EPS = 0.1

    @pytest.mark.parametrize(
        "make", [ULD.from_theory, MALA.from_theory, ProjectedMALA.from_theory], ids=["ULD", "MALA", "ball"]
    )
    def test_the_error_is_at_most_eps(self, make: Callable[[float, int, float], MarkovKernel], check: Check) -> None:
        """In total variation, so in Kolmogorov's distance D: P(D > eps + u) <= 2 exp(-2 n u^2) if it is (Massart)."""
        smoothness = 6.0
        grid = torch.linspace(-6, 6, 2001, dtype=torch.float64)[:, None].requires_grad_()
        score = rtk.exact(MIXTURE)(grid, torch.full((2001,), 0.15, dtype=torch.float64))
        (curvature,) = torch.autograd.grad(score.sum(), grid)
        assert float(curvature.abs().max()) < smoothness
        case = mixture_case(eta=math.log(1 + 1 / (2 * smoothness)) / 2)
        kernel = make(smoothness, 1, self.EPS)
        u = case.uniforms(kernel.draw(case.target, Noise.of_samples(0, ROWS))[0])[0].sort().values
        ranks = torch.arange(ROWS + 1, dtype=torch.float64) / ROWS
        distance = float(torch.maximum(ranks[1:] - u, u - ranks[:-1]).max())
        check(min(1.0, 2 * math.exp(-2 * ROWS * max(0.0, distance - self.EPS) ** 2)))

    def test_what_the_constructors_choose(self) -> None:
        uld = ULD.from_theory(4.0, d=9, eps=0.1, second_moment=16.0)
        log = math.log(2 * 4 * 25 / 0.01)
        assert uld.tau == pytest.approx(0.1 / math.sqrt(9 * 4 * log)) and uld.gamma == 4.0
        assert uld.steps == math.ceil(log / (2 * uld.tau)) and uld.begin == CentredStart()
        mala, ball = (make(4.0, d=9, eps=0.1) for make in (MALA.from_theory, ProjectedMALA.from_theory))
        assert mala.tau == ball.tau == pytest.approx(1 / 108)
        assert mala.steps == ball.steps == math.ceil(27 * (9 * math.log(2) + math.log(10)))
        assert mala.begin == ball.begin == GaussianStart(8.0)

    def test_starts(self) -> None:
        """The start of the theorem on MALA: N(exp(-eta) (2 L + 1) / (4 L) x', I / (4 L)) at its eta."""
        smoothness = 3.0
        eta = math.log(1 + 1 / (2 * smoothness)) / 2
        slope, scale = GaussianStart(2 * smoothness).coefficients(eta)
        assert slope == pytest.approx(math.exp(-eta) * (2 * smoothness + 1) / (4 * smoothness))
        assert scale == pytest.approx(1 / math.sqrt(4 * smoothness))
        assert CentredStart().coefficients(eta) == pytest.approx((0, math.sqrt(math.exp(2 * eta) - 1)))
        assert GaussianStart(1.0).coefficients(eta) == pytest.approx(
            (math.exp(-eta), math.sqrt(1 - math.exp(-2 * eta)))
        )


def test_the_default_start_is_the_closest_when_steps_are_few() -> None:
    """Two steps of MALA in each of many segments: Kolmogorov's distance to the last law, from 2000 samples."""
    smoothness, last = 9.0, 0.05
    segments = Segments.from_smoothness(smoothness, 3.0, last)
    signal = math.exp(-last)
    scale = (signal**2 * MIXTURE.variances + 1 - signal**2).sqrt()

    def distance(begin: Start) -> float:
        kernel = MALA(1 / (3 * smoothness), 2, begin)
        z = rtk.sample(MIXTURE, kernel=kernel, segments=segments, num_samples=2000).samples
        u = (ndtr((z - signal * MIXTURE.means.T) / scale) * MIXTURE.log_weights.softmax(0)).sum(1).sort().values
        return float((u - torch.arange(2000) / 2000).abs().max())

    default, centred, theory = (distance(begin) for begin in (GaussianStart(), CentredStart(), GaussianStart(18.0)))
    assert 3 * default < min(centred, theory)
