"""ULA and ULD: a step is what the equations say, and many have the law that their steps say."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from scipy.linalg import expm

from drawahead.rtk import (
    ULA,
    ULD,
    CentredStart,
    GaussianStart,
)
from tests.rtk.laws import (
    integrated,
    unadjusted_p_value,
)
from tests.rtk.mutants import (
    ULA_GAUSSIAN,
    ULD_GAUSSIAN,
    WrongVariance,
)

Check = Callable[[float], None]
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
