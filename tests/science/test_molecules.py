"""Molecules with their centre of mass at zero: the network of the example, its loop, its law, and a broken version."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

import drawahead as da
from drawahead.schedules import linear_betas
from examples import molecules
from examples.molecules import ATOMS, Equivariant, centred, conformers, dihedrals, shares
from tests.exactness import LEVEL
from tests.gaussian.reference import path_p_value
from tests.science import noise

Check = Callable[[float], None]
SCHEDULE = da.DDPM(linear_betas(8, 0.1, 0.6))
SIZE = 3 * ATOMS


def network() -> Equivariant:
    """One that has learned nothing, and bends a lot."""
    torch.manual_seed(0)
    return Equivariant(SCHEDULE).double().eval().requires_grad_(False)


def chain(**changes: object) -> da.GaussianChain:
    made = molecules.chain_of(network(), SCHEDULE)
    return made.replace(**({"dtype": torch.float64, "record": range(1, 8)} | changes))


def test_it_takes_the_steps_of_its_own_loop() -> None:
    """As equivariant diffusion models are sampled: the first state and all noise are centred."""
    net, plan, draw = network(), SCHEDULE.plan(), noise.steps(3, SIZE)
    x = centred(noise.first(3, SIZE).view(3, ATOMS, 3))
    for k in range(8):
        signal, level = plan.signal[k], plan.noise[k]
        eps = centred(net(x, torch.full((3,), 7 - k)))
        data = (x - level * eps) / signal
        x = plan.a[k] * x + plan.b[k] * data + plan.s[k] * centred(draw().view(3, ATOMS, 3))
    samples = da.sample(chain(record=()), 3, sampler=da.Sequential(), seed=noise.SEED).samples
    torch.testing.assert_close(samples, x, rtol=1e-9, atol=1e-9)


def p_value(tested: da.GaussianChain) -> float:
    """Of the noise in paths drawn ahead: standard normal in the subspace, and nothing outside of it."""
    x = da.sample(tested, 2000, sampler=da.Coupled(4), seed=1, max_live=2000).samples  # (m, 8, atoms, 3)
    basis = torch.linalg.svd(torch.ones(1, ATOMS, dtype=torch.float64))[2][1:]  # (atoms - 1, atoms)
    if float(x.mean(2).abs().max()) > 1e-9:
        return 0.0
    plan, noises = SCHEDULE.plan(), []
    for k in range(1, 7):  # the last step has no noise
        mean = plan.a[k] * x[:, k - 1] + plan.b[k] * centred(tested.denoiser(x[:, k - 1], torch.full((len(x),), k)))
        noises.append((basis @ (x[:, k] - mean) / plan.s[k]).flatten(1))
    return path_p_value(torch.stack(noises, dim=1))


def test_drawn_ahead_it_has_its_law(check: Check) -> None:
    check(p_value(chain()))


def too_little(x: Tensor) -> Tensor:
    """Noise as a mean over atoms would have it, were the sum over one atom less."""
    return x - x.sum(1, keepdim=True) / (ATOMS - 1)


def test_noise_that_is_not_projected_is_rejected() -> None:
    assert p_value(chain(project=None)) < LEVEL


def test_a_projection_that_is_none_is_refused() -> None:
    with pytest.raises(da.InputError, match="orthogonal projection"):
        chain(project=too_little)


def test_the_network_turns_with_its_molecule() -> None:
    net, t = network(), torch.tensor([0, 3, 7])
    x = torch.randn(3, ATOMS, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    turn, _ = torch.linalg.qr(torch.randn(3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1)))
    torch.testing.assert_close(net(x @ turn, t), net(x, t) @ turn)


def test_conformers_follow_their_law() -> None:
    x = conformers(20_000, torch.Generator().manual_seed(0))
    assert float(x.mean(1).abs().max()) < 1e-6
    torch.testing.assert_close(shares(x), molecules.WEIGHTS / molecules.WEIGHTS.sum(), atol=0.012, rtol=0)
    mirrored = x * torch.tensor([1.0, 1.0, -1.0])
    torch.testing.assert_close(dihedrals(mirrored), -dihedrals(x), atol=1e-2, rtol=0)


def test_the_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.setattr("sys.argv", ["molecules.py", "--draws", "12", "--out", str(tmp_path / "few.png")])
    molecules.main()
    assert "rounds instead of 250" in capsys.readouterr().out and (tmp_path / "few.png").stat().st_size > 5000
