"""The study of RTK: its target, distances and closed forms are right, and its page is made from what was measured."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import drawahead as da
from drawahead import rtk
from drawahead.targets import GaussianTarget
from drawahead.verification.statistics import two_sample_kolmogorov
from studies.rtk import compared, parallel, scaling
from studies.rtk.gaussian import RoundGaussian, distance, largest_ratio
from studies.rtk.methods import methods
from studies.rtk.ring import VARIANCE, Distances, Ring, from_smoothness, geometric, smoothness, truncation
from studies.rtk.study import STUDY, Plan, measured
from studies.study import Data, data_path, save
from tests.exactness import LEVEL, combined

TINY = Plan(
    dimensions=((2, 40, 20), (4, 20, 20)),
    budgets=(20, 40),
    most=40,
    step_sizes=(0.4,),
    parallel=((4,), 2),
    scaling=scaling.Plan(20, 4, (4, 8, 16), (0.4, 0.3, 0.2, 0.1), 400),
)


@pytest.mark.parametrize("d", [2, 5])
def test_the_ring_is_the_mixture_it_says(d: int) -> None:
    ring = Ring(d)
    mixture = rtk.exact(da.targets.GaussianMixture(torch.nn.functional.pad(ring.modes, (0, d - 2)), VARIANCE))
    old, new = torch.randn(2, 6, d, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    t = torch.tensor([0.0, 0.01, 0.1, 0.5, 1.0, 3.0], dtype=torch.float64)
    assert torch.allclose(ring(old, t), mixture(old, t))
    assert torch.allclose(ring.log_ratio(old, new, t).value, mixture.log_ratio(old, new, t).value)
    assert (ring.calls, ring.queries, ring.energy_calls) == (1, 6, 1)


@pytest.mark.parametrize("time", [0.0, 0.02, 0.3, 2.0])
def test_smoothness_is_the_largest_curvature(time: float) -> None:
    ring = Ring(2)
    grid = torch.linspace(-1.5, 1.5, 61, dtype=torch.float64)
    x = torch.cartesian_prod(grid, grid)
    t = torch.full((len(x),), time, dtype=torch.float64)
    hessian = torch.stack(
        [
            (ring(x + step, t) - ring(x - step, t)) / -2e-6
            for step in (torch.tensor([1e-6, 0.0]), torch.tensor([0.0, 1e-6]))
        ],
        1,
    )
    largest = float(torch.linalg.eigvalsh((hessian + hessian.mT) / 2).abs().max())
    assert largest <= smoothness(time) * 1.001
    assert largest >= smoothness(time) * (0.999 if smoothness(time) > 1.1 / VARIANCE else 0.7)


def test_segments_reach_from_noise_to_data() -> None:
    for segments in (geometric(3.0, 7), from_smoothness(3.0)):
        assert segments.times[0] == 3.0 and segments.times[-1] == 0.0
    lengths = from_smoothness(3.0).lengths
    ends = from_smoothness(3.0).times[1:]
    assert all(eta <= math.log1p(1 / (2 * smoothness(t))) / 2 * 1.0001 for eta, t in zip(lengths, ends, strict=True))


def test_distances_see_what_is_wrong() -> None:
    ring = Ring(4)
    distances = Distances(ring)
    assert float(distances.plane.sum()) == pytest.approx(1) and float(distances.masses[3].sum()) == pytest.approx(1)
    exact = ring.draw(4000, seed=0)
    floor = distances(exact)
    assert floor["marginal accuracy"] > 0.95 and floor["total variation"] < 0.1 and floor["wasserstein"] < 0.03
    half = exact[exact[:, 0] > 0]  # half of the ring: total variation 1/2
    assert distances.total_variation(half) == pytest.approx(0.5, abs=0.05)
    shifted = exact + torch.tensor([0.0, 0.0, 0.2, 0.0])
    assert distances.total_variation(shifted) == floor["total variation"]  # not in the plane: the others see it
    assert distances.marginal(shifted) > 0.15 and distances.wasserstein(shifted) > 0.05
    one = distances.directions[:, 0].abs().mean()  # a shift by 3 along an axis moves a projection by 3 |cosine|
    assert distances.wasserstein(exact + torch.tensor([3.0, 0, 0, 0])) == pytest.approx(3 * float(one), rel=0.02)


def test_total_variation_of_round_gaussians() -> None:
    ratio, d = 1.7, 1
    edge = math.sqrt(math.log(ratio) / (1 - 1 / ratio))  # in one dimension: where the densities cross
    normal = [math.erf(edge / math.sqrt(2 * variance)) for variance in (1, ratio)]
    assert distance(ratio, d) == pytest.approx(normal[0] - normal[1])
    assert distance(1 / ratio, 5) == pytest.approx(distance(ratio, 5))
    assert distance(largest_ratio(0.03, 40), 40) == pytest.approx(0.03)
    assert truncation(3.0, 50) < 0.01 < truncation(1.0, 2)


TARGET, D = RoundGaussian(0.5), 6
SEGMENTS = rtk.Segments.even(0.9, 4)


def squares(kernel: rtk.Kernel) -> torch.Tensor:
    target = da.targets.GaussianTarget(variances=torch.full((D,), TARGET.variance))
    samples = rtk.sample(target, kernel=kernel, segments=SEGMENTS, num_samples=20_000, seed=5).samples
    return samples.square().sum(1)


def test_closed_forms_are_what_the_kernels_draw(check: Callable[[float], None]) -> None:
    uld = rtk.ULD(0.25, 4.0, 4)
    p_values = []
    for kernel, variance in ((rtk.ReverseSDE(), TARGET.ddpm(SEGMENTS)), (uld, TARGET.uld(uld, SEGMENTS)[-1])):
        z = float((squares(kernel) / variance).mean() - D) * math.sqrt(20_000 / (2 * D))
        p_values.append(math.erfc(abs(z) / math.sqrt(2)))
    wrong = float((squares(uld) / TARGET.uld(uld, SEGMENTS)[-2]).mean() - D) * math.sqrt(20_000 / (2 * D))
    assert math.erfc(abs(wrong) / math.sqrt(2)) < LEVEL  # one step fewer would be seen
    check(combined(p_values))


def test_lengths_of_mala_have_the_law_of_its_samples(check: Callable[[float], None]) -> None:
    kernel = rtk.MALA(0.15, 3)
    drawn = squares(kernel)
    for other, right in ((kernel, True), (rtk.MALA(0.15, 2), False)):
        simulated = torch.from_numpy(TARGET.mala(other, SEGMENTS, D, 20_000, seed=0))
        p_value = two_sample_kolmogorov(drawn, simulated)
        if right:
            check(p_value)
        else:
            assert p_value < LEVEL


def test_no_method_spends_more_than_its_budget() -> None:
    ring = Ring(3)
    for method in methods():
        for budget in (20, 470) if method.grid == "from L" else (20, 61):
            run = method.plan(budget, 0.2, 3)
            if run is not None:
                report = rtk.sample(ring, kernel=run.kernel, segments=run.segments, num_samples=2, seed=0).report
                spent = report.calls + report.energy_calls
                assert budget * 0.6 < spent <= budget, method.label


@pytest.fixture(scope="module")
def tiny() -> Data:
    return measured(TINY, lambda label, done, total: None) | {"versions": {"drawahead": "0"}, "seconds": 1.0}


def test_the_page_is_made_from_what_was_measured(tiny: Data, tmp_path: Path) -> None:
    save(tiny, data_path(tmp_path, "rtk"))
    page, *figures = STUDY.write(tmp_path)
    assert all(path.stat().st_size > 0 for path in (page, *figures))
    text = page.read_text()
    assert text == STUDY.render(STUDY.data(tmp_path))
    assert max(len(line) for line in text.splitlines() if not line.startswith("|")) <= 120
    for path in figures:
        assert f"figures/{path.name}" in text
    for name in re.findall(r"`(?:rtk\.)?([A-Z]\w+)\(", text):
        assert hasattr(rtk, name), name


def test_words_follow_the_numbers(tiny: Data) -> None:
    data = json.loads(json.dumps(tiny))
    key = {"method": "RTK-ULD", "grid": "even", "d": 2, "budget": 20}
    row = next(row for row in data["rows"] if all(row[name] == value for name, value in key.items()))
    for accuracy, word in ((1.0, "better at 20"), (0.0, "worse at 20")):
        row["marginal accuracy"] = accuracy
        said = " ".join(" ".join(compared.findings(data)).split())
        own = said.split("RTK-ULD on even segments, beside DDPM in even steps.")[1]
        assert word in own.split("d = 2:")[1].split(";")[0]


def test_fewest_calls() -> None:
    spent = [scaling.Spent(1, n, 1 / n, 1 + 1 / n) for n in (10, 20, 40, 80)]
    best = scaling.fewest(spent, 16, 0.1)
    assert best is not None and distance(best.ratio, 16) <= 0.1 < distance(1 + 2 / best.steps, 16)
    assert scaling.fewest(spent, 16, 1e-5) is None


def test_every_sampler_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [(case.name, case.target.shape) for case in parallel.cases()][:2] == [("ring", (2,)), ("gaussian", (2,))]
    small = parallel.Case("small", GaussianTarget(variances=torch.ones(2)), 1.0)
    monkeypatch.setattr(parallel, "cases", lambda: [small])
    rows = parallel.rounds_of_parallel_uld(steps=(16,), samples=3)
    assert [row["sampler"] for row in rows] == 2 * list(parallel.SAMPLERS)
    assert all(row["segments"] * row["steps"] == 128 <= row["queries"] and row["rounds"] < 32 for row in rows)
