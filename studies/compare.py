"""What people use instead: few-step solvers, Picard iteration and parallel unmasking beside exact samplers.

Two targets whose law is known: a Gaussian mixture, whose denoiser is a formula, and Ising grids. The page compare.md
also shows what other studies have recorded.
"""

from __future__ import annotations

import argparse
import itertools
import math
from collections.abc import Callable, Iterator
from importlib.metadata import version
from typing import Any

import torch
from torch import Tensor

from drawahead import schedules
from drawahead.chains import GaussianChain
from drawahead.oracles.tokens import HIDDEN
from drawahead.randomness import seeded
from drawahead.report import Report
from drawahead.sample import sample
from drawahead.samplers import Block, Coupled, Picard, Sampler, Sequential
from drawahead.targets import GaussianMixture, Ising
from studies.rivals import page as beside
from studies.study import Data, Stamp, Study, Watch, origin, quick_option
from studies.tables import table

# Diffusion

DIMENSION, STEPS, BINS = 16, 1000, 20
KARRAS = "DPM-Solver++ (2M), Karras levels"
SOLVERS = {"DDIM": (10, 20, 50), "DPM-Solver++ (2M)": (10, 20, 50), KARRAS: (10, 20, 50)}


def mixture() -> GaussianMixture:
    """Six narrow components of different weights."""
    means = torch.randn(6, DIMENSION, dtype=torch.float64, generator=seeded(1))
    return GaussianMixture(means, 0.02, torch.tensor([6.0, 5.0, 4.0, 3.0, 2.0, 1.0]))


def edges(target: GaussianMixture) -> Tensor:
    """Where to cut the first coordinate into bins of equal mass."""
    grid = torch.linspace(-8, 8, 160_001, dtype=torch.float64)
    scaled = (grid[:, None] - target.means[:, 0]) / target.variances.sqrt()
    below = torch.special.ndtr(scaled) @ target.log_weights.softmax(0)
    return grid[torch.searchsorted(below, torch.arange(1, BINS) / BINS)]


def distance(samples: Tensor, cuts: Tensor) -> float:
    """Total variation between the bins' masses and those of the target."""
    counts = torch.bincount(torch.bucketize(samples[:, 0].contiguous(), cuts), minlength=BINS)
    return float((counts / len(samples) - 1 / BINS).abs().sum() / 2)


def drawn_directly(target: GaussianMixture, number: int) -> Tensor:
    """Samples of the mixture itself: what `distance` shows where nothing is wrong."""
    generator = seeded(2)
    weights = target.log_weights.exp()
    component = torch.multinomial(weights, number, replacement=True, generator=generator)
    noise = torch.randn(number, DIMENSION, dtype=torch.float64, generator=generator)
    return target.means[component] + target.variances[component].sqrt()[:, None] * noise


def solved(target: GaussianMixture, solver: str, steps: int, number: int) -> Tensor:
    """Samples by a scheduler of diffusers without noise, told the denoiser's answers."""
    import diffusers

    settings = {"beta_schedule": "linear", "prediction_type": "sample", "timestep_spacing": "trailing"}
    scheduler = (
        diffusers.DDIMScheduler(clip_sample=False, **settings)
        if solver == "DDIM"
        else diffusers.DPMSolverMultistepScheduler(
            algorithm_type="dpmsolver++", solver_order=2, use_karras_sigmas=solver == KARRAS, **settings
        )
    )
    scheduler.set_timesteps(steps)
    x = torch.randn(number, DIMENSION, dtype=torch.float64, generator=seeded(3))
    for t in scheduler.timesteps:
        level = _level(scheduler, t)
        clean = target.mean(x * level.sqrt() / (1 - level), (level / (1 - level)).expand(number))
        x = scheduler.step(clean, t, x).prev_sample
    return x


def _level(scheduler: Any, t: Tensor) -> Tensor:
    """The share of the data in the variance at this step; Karras levels lie between those of the timesteps."""
    if not hasattr(scheduler, "sigmas"):
        return scheduler.alphas_cumprod[t].double()
    at = 0 if scheduler.step_index is None else scheduler.step_index
    return 1 / (1 + scheduler.sigmas[at].double() ** 2)


def diffusion(number: int, few: int, watch: Callable[[str], None]) -> list[Data]:
    """Rounds, queries and distance of every way to draw from the mixture; `few` samples for rounds alone."""
    target = mixture()
    cuts, rows = edges(target), []

    def row(name: str, family: str, steps: int, samples: Tensor, report: Report | None = None) -> None:
        watch(name)
        cost = (steps, steps) if report is None else (report.mean_rounds, report.queries_per_sample)
        rows.append(
            {"name": name, "family": family, "steps": steps, "rounds": cost[0], "queries": cost[1]}
            | {"distance": distance(samples, cuts), "samples": len(samples)}
        )

    row("drawn from the mixture itself", "direct", 0, drawn_directly(target, number))
    ways: list[tuple[str, str, int, Sampler]] = [
        ("DDPM, one by one", "ddpm", STEPS, Sequential()),
        ("DDPM, `Coupled`", "drawahead", STEPS, Coupled()),
        ("DDPM, `Picard(0.1)`", "picard", STEPS, Picard(0.1)),
        ("DDPM, `Picard(1.0)`", "picard", STEPS, Picard(1.0)),
        ("DDPM, `Picard(0.01)`", "picard", STEPS, Picard(0.01)),
        ("DDPM, one by one", "ddpm", 50, Sequential()),
        ("DDPM, `Coupled`", "drawahead", 50, Coupled()),
    ]
    for name, family, steps, sampler in ways:
        chain = GaussianChain(target, schedules.DDPM(timesteps=schedules.spaced(steps, STEPS)))
        drawn = sample(chain, number, sampler=sampler, seed=0, max_live=number)
        alone = sample(chain, few, sampler=sampler, seed=1)
        row(name, family, steps, drawn.samples, alone.report)
    for solver, counts in SOLVERS.items():
        for steps in counts:
            row(solver, "solver", steps, solved(target, solver, steps, number))
    return rows


# Tokens

SIDE, COUPLING = 3, 0.6
LARGE = 8
TOGETHER = (2, 3, 5)
SHARES = (8, 16)
"""Of the large grid: how many positions are unmasked at once."""
CONFIDENCE = 0.9
_HIDDEN = 2
"""How a hidden site is written in a table of partly known grids."""


def answers(grid: Ising) -> Tensor:
    """For every partly known grid the law of every site: (3, ..., 3, sites, 2)."""
    n = grid.length
    known = torch.cartesian_prod(*[torch.arange(3)] * n)
    rows = grid.rows(torch.where(known == _HIDDEN, HIDDEN, known)).exp()
    return rows.view(*[3] * n, n, 2)


def law(grid: Ising) -> Tensor:
    """Of whole grids, by the chain rule: (2, ..., 2)."""
    n, table_of = grid.length, answers(grid)
    whole = torch.ones([2] * n, dtype=torch.float64)
    for values in itertools.product((0, 1), repeat=n):
        for i in range(n):
            whole[values] *= table_of[(*values[:i], *[_HIDDEN] * (n - i), i, values[i])]
    return whole


Choice = Callable[[tuple[int, ...], Tensor], Iterator[tuple[float, tuple[int, ...]]]]
"""From a partly known grid and its rows: sets of hidden sites to unmask next, each with its probability."""


def at_once(number: int) -> Choice:
    """So many sites, chosen at random."""

    def choose(known: tuple[int, ...], rows: Tensor) -> Iterator[tuple[float, tuple[int, ...]]]:
        hidden = [i for i, value in enumerate(known) if value == _HIDDEN]
        sets = list(itertools.combinations(hidden, min(number, len(hidden))))
        yield from ((1 / len(sets), sites) for sites in sets)

    return choose


def confident(known: tuple[int, ...], rows: Tensor) -> Iterator[tuple[float, tuple[int, ...]]]:
    """All sites of which the model is sure enough, or else the one of which it is surest."""
    hidden = [i for i, value in enumerate(known) if value == _HIDDEN]
    sure = {i: float(rows[i].max()) for i in hidden}
    yield 1.0, tuple(i for i in hidden if sure[i] >= CONFIDENCE) or (max(hidden, key=lambda i: sure[i]),)


def unmasked(grid: Ising, choose: Choice) -> tuple[Tensor, float]:
    """The law of drawing the chosen sites independently of each other, and the mean number of rounds: worked out."""
    n, table_of = grid.length, answers(grid)
    states: dict[tuple[int, ...], float] = {(_HIDDEN,) * n: 1.0}
    whole, rounds = torch.zeros([2] * n, dtype=torch.float64), 0.0
    while states:
        after: dict[tuple[int, ...], float] = {}
        for known, mass in states.items():
            rounds += mass
            rows = table_of[known]
            chances = rows.tolist()
            for weight, sites in choose(known, rows):
                for values in itertools.product((0, 1), repeat=len(sites)):
                    pairs = list(zip(sites, values, strict=True))
                    chance = mass * weight * math.prod(chances[i][value] for i, value in pairs)
                    told = dict(pairs)
                    state = tuple(told.get(i, value) for i, value in enumerate(known))
                    if _HIDDEN in state:
                        after[state] = after.get(state, 0.0) + chance
                    else:
                        whole[state] += chance
        states = after
    return whole, rounds


def tokens(draws: int, watch: Callable[[str], None]) -> list[Data]:
    """Rounds and distance on the small grid, where the law of every way is worked out."""
    grid = Ising.grid(SIDE, SIDE, coupling=COUPLING)
    exact, rows = law(grid), []
    ways: dict[str, Choice] = {f"{number} at once": at_once(number) for number in (1, *TOGETHER)}
    ways[f"all that are {CONFIDENCE:.0%} sure"] = confident
    for name, choose in ways.items():
        found, rounds = unmasked(grid, choose)
        distance_of = float((found - exact).abs().sum() / 2)
        rows.append({"name": name, "rounds": rounds, "queries": rounds, "distance": distance_of})
        watch(name)
    for name, sampler in (("`Block`", Block()), ("`Coupled`", Coupled())):
        report = sample(grid, draws, sampler=sampler, seed=0).report
        cost = {"rounds": report.mean_rounds, "queries": report.queries_per_sample}
        rows.append({"name": name, **cost, "distance": None})
        watch(name)
    return rows


def agreement(samples: Tensor) -> tuple[float, float]:
    """The share of neighbours that agree on the large grid, in the mean, with its standard error."""
    spins = samples.view(-1, LARGE, LARGE)
    pairs = [spins[:, 1:] == spins[:, :-1], spins[:, :, 1:] == spins[:, :, :-1]]
    share = torch.cat([pair.flatten(1) for pair in pairs], 1).double().mean(1)
    return float(share.mean()), float(share.std() / len(share) ** 0.5)


def unmask(grid: Ising, draws: int, number: int | None) -> tuple[Tensor, float]:
    """Grids by unmasking so many sites at once, or (None) all that are sure enough; and the mean number of rounds."""
    generator = seeded(4)
    drawn = torch.full((draws, grid.length), HIDDEN)
    rounds = torch.zeros(draws)
    while bool((live := (drawn == HIDDEN).any(1)).any()):
        rounds += live
        hidden, rows = drawn == HIDDEN, grid.rows(drawn).exp()
        values = (torch.rand(hidden.shape, dtype=torch.float64, generator=generator) < rows[..., 1]).long()
        order = torch.rand(hidden.shape, generator=generator) if number else rows.amax(-1)
        rank = torch.where(hidden, order, -1.0).argsort(1, descending=True).argsort(1)
        chosen = rank < number if number else (rows.amax(-1) >= CONFIDENCE) | (rank == 0)
        drawn = torch.where(hidden & chosen, values, drawn)
    return drawn, float(rounds.mean())


def large(draws: int, watch: Callable[[str], None]) -> list[Data]:
    """Rounds and agreeing neighbours on the large grid."""
    grid = Ising.grid(LARGE, LARGE, coupling=COUPLING)
    rows: list[Data] = []

    def row(name: str, rounds: float, queries: float, samples: Tensor) -> None:
        share, error = agreement(samples)
        rows.append({"name": name, "rounds": rounds, "queries": queries, "agreement": share, "error": error})
        watch(name)

    for name, sampler in (("one by one", Sequential()), ("`Coupled`", Coupled())):
        result = sample(grid, draws, sampler=sampler, seed=0)
        row(name, result.report.mean_rounds, result.report.queries_per_sample, result.samples)
    for number in (*SHARES, None):
        samples, rounds = unmask(grid, draws, number)
        row(f"{number} at once" if number else f"all that are {CONFIDENCE:.0%} sure", rounds, rounds, samples)
    return rows


# The page


def measure(arguments: argparse.Namespace, watch: Watch) -> Data:
    """All of it, as plain values."""
    stamp, done = Stamp(arguments), itertools.count(1)
    quick = bool(arguments.quick)
    total = 8 + sum(map(len, SOLVERS.values())) + 2 + len(TOGETHER) + 2 + 3 + len(SHARES)

    def told(name: str) -> None:
        watch(name, next(done), total)

    measured = {
        "diffusion": diffusion(500 if quick else 4_000, 2 if quick else 32, told),
        "tokens": tokens(20 if quick else 400, told),
        "large": large(20 if quick else 600, told),
    }
    made = stamp.made()
    made["versions"] |= {"diffusers": version("diffusers")}
    return made | measured


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 100 or abs(value - round(value)) < 1e-9 else f"{value:.1f}"


def _place(row: Data) -> tuple[int, float]:
    """Where a row of the first table stands: by family, the tolerances of Picard by their rounds."""
    family = row["family"]
    return ["direct", "chain", "picard", "solver"].index("chain" if family in ("ddpm", "drawahead") else family), row[
        "rounds"
    ] if family == "picard" else 0.0


def _three(value: float) -> str:
    return f"{value:.3f}"


def _cost(row: Data, *before: str) -> list[str]:
    return [_number(row[key]) for key in (*before, "rounds", "queries")]


def values(
    data: Data, peers: Data, proteins: list[dict[str, Any]], rivals: Data, causal: Data, rollouts: Data
) -> dict[str, str | None]:
    """What the page says."""
    rows = sorted(data["diffusion"], key=_place)
    by_name = {(row["name"], row["steps"]): row for row in rows}
    ahead = by_name["DDPM, `Coupled`", STEPS]
    floor = rows[0]["distance"]
    tuned, tight = by_name[KARRAS, 20], by_name["DDPM, `Picard(0.01)`", STEPS]
    return (
        beside.values(rivals, causal, rollouts)
        | origin(data, "compare")
        | {
            "tuned": _three(tuned["distance"]),
            "tight": _three(tight["distance"]),
            "tight_rounds": _number(tight["rounds"]),
            "tight_queries": _number(tight["queries"]),
            "coupling": f"{COUPLING:g}",
            "tuned_steps": str(tuned["steps"]),
            "diffusion": table(
                ["", "steps", "rounds", "queries", "distance"],
                [
                    [
                        row["name"],
                        *(cost if row["steps"] else "-" for cost in _cost(row, "steps")),
                        f"{row['distance']:.3f}",
                    ]
                    for row in rows
                ],
            ),
            "dimension": str(DIMENSION),
            "bins": str(BINS),
            "number": f"{rows[0]['samples']:,}",
            "floor": _three(floor),
            "ahead_rounds": _number(ahead["rounds"]),
            "ahead_queries": _number(ahead["queries"]),
            "steps": str(STEPS),
            "tokens": table(
                ["", "rounds", "queries", "distance"],
                [
                    [row["name"], *_cost(row), "exact" if row["distance"] is None else _three(row["distance"])]
                    for row in data["tokens"]
                ],
            ),
            "side": f"{SIDE} x {SIDE}",
            "large": table(
                ["", "rounds", "queries", "neighbours that agree"],
                [
                    [row["name"], *_cost(row), f"{_three(row['agreement'])} ± {_three(row['error'])}"]
                    for row in data["large"]
                ],
            ),
            "large_side": f"{LARGE} x {LARGE}",
            "trees": _peers(
                peers,
                "spanning trees of a 20 x 20 grid",
                "spanning trees",
                20,
                ("drawahead, coupled", "Wilson, own", "DPPy, Wilson"),
            ),
            "subsets": _peers(
                peers,
                "a determinantal point process of 300 items",
                "determinantal point processes",
                300,
                ("drawahead, coupled", "Cholesky, own", "DPPy, spectral"),
            ),
            "proteins": _proteins(proteins),
        }
    )


def _peers(peers: Data, name: str, study: str, size: int, tools: tuple[str, ...]) -> str:
    found = {cell["tool"]: cell for cell in peers["measurements"] if (cell["study"], cell["size"]) == (study, size)}
    rounds = {tool: found[tool]["rounds"] for tool in tools}
    rows = [[tool, f"{found[tool]['seconds']:.2g}", _number(rounds[tool]) if rounds[tool] else "-"] for tool in tools]
    return table([name, "seconds", "rounds"], rows)


def _proteins(cells: list[dict[str, Any]]) -> str:
    shown = [cell for cell in cells if cell["temperature"] == 0.1 and cell["sampler"] == "Coupled(window=None)"]
    rows = [[str(cell["residues"]), str(cell["sequential_passes"]), _number(cell["mean_passes"])] for cell in shown]
    return table(["residues", "passes one by one", "passes here"], rows)


STUDY = Study(
    "compare",
    measure,
    values,
    {"compare": lambda *data: beside.figure(data[3], data[-1])},
    sources=("compare", "peers", "proteins", "rivals", "causal", "rollouts"),
    options=quick_option("few samples"),
)
