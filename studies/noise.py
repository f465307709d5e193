"""How far the error of an oracle carries over to the samples, and what it costs in rounds."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from drawahead.oracles.perturbed import Noisy
from drawahead.oracles.tokens import TokenOracle
from drawahead.sample import sample
from drawahead.samplers import Block, Coupled, Recursive, Sampler, Sequential, Stepwise
from drawahead.show import plots
from drawahead.targets import DenseLogistic, Ising, Pairs, Product, SpanningTree, Table
from drawahead.verification.statistics import chi_square
from studies.estimates import Estimate, mean
from studies.study import Data, Stamp, Study, Watch, origin, quick_option
from studies.tables import table

SAMPLERS: dict[str, Sampler] = {
    "sequential": Sequential(),
    "recursive": Recursive(),
    "stepwise": Stepwise(),
    "block": Block(),
    "coupled": Coupled(),
}
TARGETS: dict[str, Callable[[], TokenOracle]] = {
    "table": lambda: Table.random(8),
    "ising": lambda: Ising(3, 3),
    "trees": lambda: SpanningTree.grid(2, 4),
}


def _coins(n: int) -> TokenOracle:
    return Product(torch.full((n, 2), 0.5, dtype=torch.float64))


def _constant(n: int) -> TokenOracle:
    return Product(torch.tensor([[1.0, 0.0]], dtype=torch.float64).expand(n, 2))


GROWTH: dict[str, tuple[Callable[[int], TokenOracle], int | None]] = {
    "fair coins, errors at random": (_coins, None),
    "fair coins, errors toward 1": (_coins, 1),
    "pairs, errors at random": (Pairs, None),
    "a constant, errors at random": (_constant, None),
}
GROWTH_ERROR = 0.01
LENGTHS = (2, 4, 6, 8, 10)
ROUNDS_LENGTH = 256
ROUNDS_ERRORS = (0.0, ROUNDS_LENGTH**-1.5, 0.001, 0.003, 0.01, 0.03, 0.1)


@dataclass(frozen=True)
class Plan:
    """How much is measured."""

    draws: int
    recursive_draws: int
    errors: tuple[float, ...]
    """At which laws are enumerated."""
    sampled: tuple[float, ...]
    """At which samplers draw."""
    rounds_samples: int


FULL = Plan(40_000, 400, errors=(0.001, 0.003, 0.01, 0.03, 0.1), sampled=(0.001, 0.01, 0.1), rounds_samples=16)
QUICK = Plan(4_000, 40, errors=(0.01, 0.1), sampled=(0.1,), rounds_samples=2)


def measure(arguments: argparse.Namespace, watch: Watch) -> Data:
    """All of it, as plain values."""
    stamp, plan = Stamp(arguments), QUICK if arguments.quick else FULL
    total = 2 + len(TARGETS)
    found: Data = {"draws": plan.draws, "recursive_draws": plan.recursive_draws, "growth": growth()}
    watch("growth", 1, total)
    found["rounds"] = rounds(plan)
    watch("rounds", 2, total)
    found["studies"] = []
    for done, name in enumerate(TARGETS):
        found["studies"] += study(name, plan)
        watch(name, 3 + done, total)
    return stamp.made() | found


def random_order_law(oracle: TokenOracle) -> Tensor:
    """The probability of every outcome, in lexical order (q^n,), of the chain along a uniformly random order.

    The mean over all n! orders, from the (q + 1)^n conditionings: each is reached through any of its known positions.
    """
    n, base = oracle.length, oracle.vocab_size + 1
    place = base ** torch.arange(n - 1, -1, -1)
    states = torch.cartesian_prod(*[torch.arange(base)] * n).view(-1, n)  # 0 is hidden, 1 + t is token t
    known = (states > 0).sum(1)
    mass = torch.zeros(len(states), dtype=torch.float64)
    mass[0] = 1
    for k in range(n):
        here = (known == k).nonzero()[:, 0]
        rows = oracle.rows(states[here] - 1).double().exp()  # (m, n, q)
        m, i = (states[here] == 0).nonzero(as_tuple=True)
        onward = here[m, None] + place[i, None] * torch.arange(1, base)
        mass.index_add_(0, onward.flatten(), (mass[here[m], None] * rows[m, i] / (n - k)).flatten())
    return mass[known == n]


def study(name: str, plan: Plan) -> list[dict[str, Any]]:
    """One target: the exact output error at every row error, and what each sampler's draws show of it."""
    oracle = TARGETS[name]()
    truth = random_order_law(oracle)
    cells = []
    for error in plan.errors:
        laws = {"random": Noisy(oracle, error), "toward 1": Noisy(oracle, error, toward=1)}
        exact = {kind: random_order_law(noisy) for kind, noisy in laws.items()}
        more = exact["random"] > truth  # the event of which the two laws disagree most
        cell: dict[str, Any] = {
            "target": name,
            "n": oracle.length,
            "error": error,
            "bound": min(1.0, oracle.length * error),
            "exact": {kind: _distance(law, truth) for kind, law in exact.items()},
            "sampled": {},
        }
        for label, sampler in SAMPLERS.items() if error in plan.sampled else ():
            draws = plan.recursive_draws if label == "recursive" else plan.draws
            samples = sample(laws["random"], draws, sampler=sampler, seed=0, max_live=20_000).samples
            index = (samples * 2 ** torch.arange(oracle.length - 1, -1, -1)).sum(1)
            share = float(more[index].double().mean())
            cell["sampled"][label] = {
                "draws": draws,
                "distance": share - float(truth[more].sum()),
                "standard_error": math.sqrt(share * (1 - share) / draws),
                "p_value": chi_square(torch.bincount(index, minlength=len(truth)), exact["random"]),
            }
        cells.append(cell)
    return cells


def growth() -> list[dict[str, Any]]:
    """The exact output error against the length, at one row error."""
    cells = []
    for name, (make, toward) in GROWTH.items():
        for n in LENGTHS:
            oracle = make(n)
            noisy = random_order_law(Noisy(oracle, GROWTH_ERROR, toward=toward))
            cells.append({"target": name, "n": n, "exact": _distance(noisy, random_order_law(oracle))})
    return cells


def rounds(plan: Plan) -> list[dict[str, Any]]:
    """What a long chain costs when its oracle is noisy."""
    cells = []
    for error in ROUNDS_ERRORS:
        oracle = Noisy(DenseLogistic(ROUNDS_LENGTH), error)
        for label in ("stepwise", "block", "coupled"):
            report = sample(oracle, plan.rounds_samples, sampler=SAMPLERS[label], seed=0).report
            found = mean(report.sample_rounds)
            cells.append({"error": error, "sampler": label, "rounds": found.value, "spread": found.error})
    return cells


def _distance(one: Tensor, other: Tensor) -> float:
    """Total variation."""
    return float((one - other).abs().sum()) / 2


def values(data: Data) -> dict[str, str]:
    """What the page says."""
    sampled = [one for cell in data["studies"] for one in cell["sampled"].values()]
    return origin(data, "noise") | {
        "draws": str(data["draws"]),
        "recursive": str(data["recursive_draws"]),
        "number": str(len(sampled)),
        "smallest": f"{min(one['p_value'] for one in sampled):.2g}",
        "error": f"{GROWTH_ERROR:g}",
        "n": str(ROUNDS_LENGTH),
        "threshold": f"{ROUNDS_LENGTH**-1.5:.2g}",
        "exact": _exact(data["studies"]),
        "sampled": _sampled(data["studies"]),
        "growth": _growth(data["growth"]),
        "rounds": _rounds(data["rounds"]),
    }


def _exact(cells: Sequence[dict[str, Any]]) -> str:
    rows = [
        [
            f"{cell['target']}, N = {cell['n']}, e = {cell['error']:g}",
            f"{cell['exact']['random']:.5f}",
            f"{cell['exact']['toward 1']:.5f}",
            f"{cell['bound']:.3f}",
        ]
        for cell in cells
    ]
    return table(["target and row error", "output TV, at random", "toward 1", "bound N e"], rows)


def _sampled(cells: Sequence[dict[str, Any]]) -> str:
    rows = []
    for cell in cells:
        if cell["sampled"]:
            found = [Estimate(one["distance"], one["standard_error"]).rounded(4) for one in cell["sampled"].values()]
            rows.append([f"{cell['target']}, e = {cell['error']:g}", *found, f"{cell['exact']['random']:.4f}"])
    return table(["target and row error", *SAMPLERS, "exact"], rows)


def _growth(cells: Sequence[dict[str, Any]]) -> str:
    rows = []
    for name in GROWTH:
        own = {cell["n"]: cell["exact"] for cell in cells if cell["target"] == name}
        rows.append([name, *(f"{own[n] / (n * GROWTH_ERROR):.2f}" for n in LENGTHS)])
    return table(["N =", *map(str, LENGTHS)], rows)


def _rounds(cells: Sequence[dict[str, Any]]) -> str:
    rows = []
    for error in ROUNDS_ERRORS:
        own = [cell for cell in cells if cell["error"] == error]
        rows.append([f"{error:.2g}", *(Estimate(cell["rounds"], cell["spread"]).rounded(1) for cell in own)])
    return table(["e", *dict.fromkeys(cell["sampler"] for cell in cells)], rows)


def figure(data: dict[str, Any], path: Path) -> None:
    """A panel for each target, and one for rounds."""
    names = list(dict.fromkeys(cell["target"] for cell in data["studies"]))
    with plots.canvas(path, 3.1 * (len(names) + 1), 3.6) as canvas:
        panels: Any = canvas.subplots(1, len(names) + 1)
        for axes, name in zip(panels, names, strict=False):
            own = [cell for cell in data["studies"] if cell["target"] == name]
            errors = [cell["error"] for cell in own]
            for key, colour, style in (("toward 1", "#D55E00", "--"), ("random", "#555555", "-")):
                label = f"exact, {'errors at random' if key == 'random' else 'errors toward 1'}"
                axes.plot(errors, [cell["exact"][key] for cell in own], style, color=colour, label=label)
            axes.plot(errors, [cell["bound"] for cell in own], ":", color="#999999", label="bound N e")
            for i, sampler in enumerate(SAMPLERS):
                some = [cell for cell in own if sampler in cell["sampled"]]
                points = [cell["sampled"][sampler] for cell in some]
                colour, marker = plots.style(sampler)
                axes.errorbar(
                    [cell["error"] * 1.08 ** (i - 2) for cell in some],  # side by side
                    [point["distance"] for point in points],
                    [point["standard_error"] for point in points],
                    fmt=marker,
                    color=colour,
                    markersize=4,
                    linewidth=1,
                    label=sampler,
                )
            axes.set(xscale="log", yscale="log", ylim=(1e-4, 1.3), title=f"{name}, N = {own[0]['n']}")
            axes.set_xlabel("row error e, TV")
        panels[0].set_ylabel("output error, TV")
        for sampler in dict.fromkeys(cell["sampler"] for cell in data["rounds"]):
            own = [cell for cell in data["rounds"] if cell["sampler"] == sampler and cell["error"]]
            colour, marker = plots.style(sampler)
            line = {"color": colour, "marker": marker, "markersize": 4}
            panels[-1].plot([cell["error"] for cell in own], [cell["rounds"] for cell in own], **line)
        panels[-1].set(xscale="log", ylim=(0, None), title=f"rounds, dense, N = {ROUNDS_LENGTH}")
        panels[-1].set_xlabel("row error e, TV")
        lines, labels = panels[0].get_legend_handles_labels()
        canvas.legend(lines, labels, loc="outside lower center", ncols=4)


STUDY = Study("noise", measure, values, {"noise": figure}, options=quick_option("fewer samples and errors"))
