"""The noise benchmark: how far the error of an oracle carries over to the samples, and what it costs in rounds."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from drawahead import plots
from drawahead.agreement import chi_square
from drawahead.bench.page import origin, table
from drawahead.bench.rounds import Watch
from drawahead.bench.versions import versions
from drawahead.noise import Noisy
from drawahead.oracles import TokenOracle
from drawahead.sample import sample
from drawahead.samplers import Block, Coupled, Recursive, Sampler, Sequential, Stepwise
from drawahead.targets import DenseLogistic, Ising, Pairs, Product, SpanningTree, Table

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


def run(folder: Path, *, quick: bool = False, watch: Watch | None = None) -> list[Path]:
    """Measure, then write `data/noise.json`, `figures/noise.png` and `noise.md` under `folder`. -> their paths."""
    plots.check()
    bench = measured(QUICK if quick else FULL, watch)
    bench["command"] = f"drawahead bench noise{' --quick' if quick else ''} --out {folder}"
    paths = [folder / "data" / "noise.json", folder / "figures" / "noise.png", folder / "noise.md"]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
    paths[0].write_text(json.dumps(bench, indent=1) + "\n")
    figure(bench, paths[1])
    paths[2].write_text(page(bench))
    return paths


def measured(plan: Plan, watch: Watch | None = None) -> dict[str, Any]:
    """All measurements, as plain values."""
    began = time.perf_counter()
    tasks: list[tuple[str, Callable[[], list[dict[str, Any]]]]] = [("growth", growth), ("rounds", lambda: rounds(plan))]
    tasks += [(name, lambda name=name: study(name, plan)) for name in TARGETS]  # type: ignore[misc]
    found: dict[str, list[dict[str, Any]]] = {}
    for i, (name, task) in enumerate(tasks):
        found[name] = task()
        if watch is not None:
            watch(name, i + 1, len(tasks))
    return {
        "versions": versions(),
        "seconds": round(time.perf_counter() - began, 1),
        "draws": plan.draws,
        "recursive_draws": plan.recursive_draws,
        "growth": found["growth"],
        "rounds": found["rounds"],
        "studies": [cell for name in TARGETS for cell in found[name]],
    }


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
            spread = torch.tensor(report.sample_rounds, dtype=torch.float64).std() / math.sqrt(plan.rounds_samples)
            cells.append({"error": error, "sampler": label, "rounds": report.mean_rounds, "spread": float(spread)})
    return cells


def _distance(one: Tensor, other: Tensor) -> float:
    """Total variation."""
    return float((one - other).abs().sum()) / 2


_INTRODUCTION = """\
A trained model is never quite right. `Noisy(oracle, error)` makes an exact oracle wrong by a known amount: every row is
moved by `error` in total variation (TV), in a direction that is a fixed function of the question. So the noisy oracle
is an oracle like any other, with a chain-rule law of its own, and every exact sampler draws from *that* law. What is
asked here is how far it is from the law of the exact oracle.

**The bound.** With N rows, each wrong by at most e, the output is wrong by at most N e: couple the two chains step by
step, they part with probability at most e each time. The published guarantee for an output error of tau asks for
e <= min(tau / N, N^(-3/2)). For the law of a noisy oracle that always answers the same, tau / N is enough, by the
coupling; what noise does to the number of rounds is measured below."""

_EXACT = """\
The laws are enumerated, over all outcomes and all orders: these numbers have no sampling error. *At random* moves each
row toward a random token, *toward 1* moves all rows toward the same one, so that errors do not cancel. (A token that is
certain cannot be given more. So trees, where many edges are bound to be in, lose less that way.)"""

_SAMPLED = """\
The samplers run on the noisy oracle with errors at random, {draws} draws each ({recursive} for the recursion). Cells
say how much more often than under the true law the draws fall where the noisy law exceeds it, with the standard error.
The mean of that is exactly the output TV, in the last column, if the sampler draws from the noisy law; an estimate from
counts of single outcomes would be too large. (The columns of sequential and coupled agree because they draw the very
same samples. Numbers below zero have no place on the figure's axes.) The smallest of the {number} p-values of
chi-square tests against the noisy law is {smallest:.2g}."""

_GROWTH = """\
Output TV divided by the bound N e, at e = {error:g}: exact again. Where rows are certain, as in a constant or in the
second half of a pair, any error shows at once and errors add up: the bound is sharp. Where rows are spread out, errors
look like noise that was there anyway, and even errors that all point the same way add up only like the square root of
N."""

_ROUNDS = """\
Rounds of the dense model with n = {n}, errors at random. Noise that changes with every revealed token makes drafts
worse: a draft row and its target row differ by about e even where the token makes no difference, so that of a window
only about 1 / e steps survive. N^(-3/2) is {threshold:.2g} here: its effect is below the standard errors, and noise
begins to cost only where 1 / e comes down to the length of a window."""

_MEANING = """\
* **The sampler adds nothing.** The error of the samples is that of the model: what is drawn in few rounds has it to
  the same extent as what is drawn step by step.
* **Per-token errors add up, at worst linearly.** A model of N = 256 tokens whose rows are off by 0.01 can be off by
  anything as a law of whole sequences. The bound says nothing there, and no sampler can help: only a better model can.
* **A training loss gives a bound of its own.** If the loss exceeds the entropy by d nats a token on average, the
  sequences have relative entropy N d, and TV at most sqrt(N d / 2) (Pinsker).
* **Noise that is not smooth costs rounds.** The noise here changes entirely with every token that is revealed. Where
  an error changes little, draft and target share it, and it costs no rounds."""


def page(bench: dict[str, Any]) -> str:
    """The whole page, from the data that `noise.json` holds."""
    sampled = [one for cell in bench["studies"] for one in cell["sampled"].values()]
    explained = _SAMPLED.format(
        draws=bench["draws"],
        recursive=bench["recursive_draws"],
        number=len(sampled),
        smallest=min(one["p_value"] for one in sampled),
    )
    costs = _ROUNDS.format(n=ROUNDS_LENGTH, threshold=ROUNDS_LENGTH**-1.5)
    parts = [
        "# Oracles that are wrong",
        origin(bench, "noise"),
        "![Output error against row error, and rounds against row error](figures/noise.png)",
        _INTRODUCTION,
        "## Output error, exactly",
        _EXACT,
        _exact(bench["studies"]),
        "## What the samplers do",
        explained,
        _sampled(bench["studies"]),
        "## When the bound is sharp",
        _GROWTH.format(error=GROWTH_ERROR),
        _growth(bench["growth"]),
        "## Rounds",
        costs,
        _rounds(bench["rounds"]),
        "## What it means for trained models",
        _MEANING,
    ]
    return "\n\n".join(parts) + "\n"


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
            found = [f"{one['distance']:.4f} ± {one['standard_error']:.4f}" for one in cell["sampled"].values()]
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
        rows.append([f"{error:.2g}", *(f"{cell['rounds']:.1f} ± {cell['spread']:.1f}" for cell in own)])
    return table(["e", *dict.fromkeys(cell["sampler"] for cell in cells)], rows)


def figure(bench: dict[str, Any], path: Path) -> None:
    """A panel for each target, and one for rounds."""
    names = list(dict.fromkeys(cell["target"] for cell in bench["studies"]))
    with plots.canvas(path, 3.1 * (len(names) + 1), 3.6) as canvas:
        panels: Any = canvas.subplots(1, len(names) + 1)
        for axes, name in zip(panels, names, strict=False):
            own = [cell for cell in bench["studies"] if cell["target"] == name]
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
        for sampler in dict.fromkeys(cell["sampler"] for cell in bench["rounds"]):
            own = [cell for cell in bench["rounds"] if cell["sampler"] == sampler and cell["error"]]
            colour, marker = plots.style(sampler)
            line = {"color": colour, "marker": marker, "markersize": 4}
            panels[-1].plot([cell["error"] for cell in own], [cell["rounds"] for cell in own], **line)
        panels[-1].set(xscale="log", ylim=(0, None), title=f"rounds, dense, N = {ROUNDS_LENGTH}")
        panels[-1].set_xlabel("row error e, TV")
        lines, labels = panels[0].get_legend_handles_labels()
        canvas.legend(lines, labels, loc="outside lower center", ncols=4)
