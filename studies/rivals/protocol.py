"""The published Gaussian mixture by every rule and by drawahead: calls, queries, and whether the law is kept."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import drawahead as da
from drawahead.oracles.denoisers import CountingDenoiser
from drawahead.verification.statistics import kolmogorov, two_sample_vectors
from studies.rivals.mixture import Mixture, Protocol
from studies.rivals.rules import RULES, Rule, uncorrected, unverified
from studies.rivals.trees import Tree, one_by_one, speculate

CHURNS = (0.06, 0.1, 0.3, 0.6)
RIVALS: tuple[tuple[str, Tree], ...] = (
    ("reflection", Tree(1, 15)),
    ("reflection", Tree(1, 15, sweeps=1)),
    ("reflection", Tree(1, 15, sweeps=2)),
    ("D-GRS", Tree(2, 4)),
    ("D-GRS", Tree(2, 4, sweeps=1)),
    ("PAWS", Tree(2, 4)),
    ("PAWS", Tree(2, 4, sweeps=1)),
)
PUBLISHED = {
    ("reflection", 1): {0.3: 2.40, 0.6: 2.17},
    ("reflection", 2): {0.3: 2.55, 0.6: 2.27},
    ("D-GRS", 1): {0.3: 1.71, 0.6: 1.66},
    ("PAWS", 1): {0.3: 1.78, 0.6: 1.71},
}
"""How many times fewer calls its authors report (docs/refinement.md of their code): by rule and sweeps, by churn."""
SMALL = {"dimension": 3, "components": 3}  # where whole chains are tested
Row = dict[str, Any]


def samplers(steps: int) -> dict[str, da.Sampler | None]:
    """drawahead's; None chooses for itself."""
    return {
        "Coupled(window=15)": da.Coupled(15),
        f"Coupled(window={steps - 1})": da.Coupled(steps - 1),
        "Block(window=15)": da.Block(15),
        "Recursive()": da.Recursive(),
        "Auto": None,
    }


def trees(number: int, churns: tuple[float, ...] = CHURNS) -> list[Row]:
    """Calls and queries a sample, for the random steps of the protocol, one sample after another."""
    rows: list[Row] = []
    mixture = Mixture.published()
    for churn in churns:
        protocol = Protocol(mixture, churn)
        steps, chain = protocol.for_trees(), protocol.chain()
        for rule, tree in RIVALS:
            generator = torch.Generator().manual_seed(0)
            start = torch.randn(number, mixture.means.shape[1], dtype=torch.float64, generator=generator)
            found = speculate(steps, start, tree, RULES[rule], generator)
            published = PUBLISHED.get((rule, tree.sweeps), {}).get(churn)
            row = {"name": rule, "children": tree.children, "levels": tree.levels, "sweeps": tree.sweeps}
            rows.append(row | {"published": published} | _cost(churn, len(steps), found.calls, found.queries))
            print(rows[-1], flush=True)
        for name, sampler in samplers(chain.steps).items():
            rows.append({"name": name} | ahead(chain, churn, sampler, max(2, number // 4)))
            print(rows[-1], flush=True)
        whole = Protocol(mixture, churn, whole=True).chain()
        for window in (15, whole.steps - 1):
            found = ahead(whole, churn, da.Coupled(window), max(2, number // 4))
            rows.append({"name": f"Coupled(window={window})", "whole": True} | found)
            print(rows[-1], flush=True)
    return rows


def ahead(chain: da.GaussianChain, churn: float, sampler: da.Sampler | None, number: int) -> Row:
    """drawahead, as its report counts; the oracle's own count must agree where nothing is timed."""
    counted = CountingDenoiser(chain.denoiser)
    watched = chain.replace(denoiser=counted)
    reports = []
    for seed in range(number):
        before = counted.calls, counted.queries
        reports.append(da.sample(watched, 1, sampler=sampler, seed=seed).report)
        seen = counted.calls - before[0], counted.queries - before[1]
        told = reports[-1].rounds, reports[-1].queries
        assert sampler is None or seen == told, f"{sampler}: the oracle saw {seen}, the report says {told}"
    calls, queries = (torch.tensor([getattr(report, name) for report in reports]) for name in ("rounds", "queries"))
    return {"ahead": True, "sampler": reports[-1].sampler} | _cost(churn, chain.steps, calls, queries)


def _cost(churn: float, steps: int, calls: Tensor, queries: Tensor) -> Row:
    mean = float(calls.double().mean())
    error = float(calls.double().std() / len(calls) ** 0.5)
    cost = {"calls": mean, "error": error, "queries": float(queries.double().mean()), "times": steps / mean}
    return {"churn": churn, "steps": steps, "samples": len(calls)} | cost


def mutants(rule: Rule) -> dict[str, Rule]:
    """The rule, and what it is without its correction and without its test."""
    return {"right": rule, "uncorrected": uncorrected(rule), "unverified": unverified(rule)}


def laws(draws: int) -> list[Row]:
    """p-values of the rules and their mutants: of single steps, and of whole chains against one by one."""
    rows: list[Row] = []
    protocol = Protocol(Mixture.published(**SMALL), 0.6, steps=12)
    for name, rule in RULES.items():
        for kind, version in mutants(rule).items():
            row = {"name": name, "kind": kind, "draws": draws, "step": step_law(version, name, draws)}
            rows.append(row | {"chain": chain_law(protocol, version, name, draws)})
            print(rows[-1], flush=True)
    ours = da.sample(protocol.chain(), draws, sampler=da.Coupled(6), seed=1, max_live=draws).samples
    rows.append({"name": "Coupled", "kind": "right", "draws": draws, "chain": _against(protocol, ours, draws)})
    return rows


def step_law(rule: Rule, name: str, draws: int, delta: float = 1.5) -> float:
    """Whether what a rule returns lies normally around its target, along the direction that matters."""
    generator = torch.Generator().manual_seed(1)
    s = torch.randn(draws, children(name), dtype=torch.float64, generator=generator)
    choice, accepted, corrected = rule(s, torch.full((draws,), delta, dtype=torch.float64), generator)
    value = torch.where(accepted, s.gather(1, choice[:, None])[:, 0], corrected)
    return kolmogorov(torch.special.ndtr(value - delta))


def chain_law(protocol: Protocol, rule: Rule, name: str, draws: int) -> float:
    """Whether whole chains by a rule have the law of those drawn one by one."""
    generator = torch.Generator().manual_seed(2)
    start = torch.randn(draws, protocol.mixture.means.shape[1], dtype=torch.float64, generator=generator)
    tree = Tree(children(name), 4)
    return _against(protocol, speculate(protocol.for_trees(), start, tree, rule, generator).states, draws)


def children(name: str) -> int:
    """Drafts a node: reflection takes one."""
    return 1 if name == "reflection" else 2


def _against(protocol: Protocol, states: Tensor, draws: int) -> float:
    generator = torch.Generator().manual_seed(3)
    start = torch.randn(draws, protocol.mixture.means.shape[1], dtype=torch.float64, generator=generator)
    return two_sample_vectors(states, one_by_one(protocol.for_trees(), start, generator))
