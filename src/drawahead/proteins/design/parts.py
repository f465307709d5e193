"""What a job keeps of the sequences of one structure."""

from __future__ import annotations

import torch

from drawahead.chains.base import Tally
from drawahead.proteins.choices import native_tokens
from drawahead.proteins.design.batches import Drawn
from drawahead.proteins.design.fasta import Designed, Native, spelled
from drawahead.proteins.design.folder import Part
from drawahead.proteins.design.options import Options
from drawahead.proteins.design.problem import Problem
from drawahead.proteins.mpnn.model import Scores
from drawahead.proteins.scores import scored


def native_scores(problem: Problem, seed: int, orders: int = 1) -> Scores:
    """Scores of the structure's own sequence, in this many random orders."""
    mpnn, numbers = problem.mpnn, torch.arange(orders)
    chain = problem.chain(numbers, torch.ones(orders))
    tokens = native_tokens(mpnn.structure).expand(orders, -1)
    return scored(mpnn, tokens, chain.start(seed, numbers, Tally()).rank, mpnn.designed(chain))


def part_of(drawn: Drawn, sha256: str, asked: Options, model: str) -> Part:
    """The structure's own sequence and those drawn for it, as its file and the table have them."""
    problem, designs, structure = drawn.problem, drawn.designs, drawn.problem.mpnn.structure
    scores = native_scores(problem, asked.seed)
    native = Native(
        problem.name,
        float(scores.score),
        float(scores.global_score),
        list(problem.fixed_chains),
        list(problem.designed_chains),
        model,
        structure.ca_only,
        asked.seed,
        spelled(structure, structure.sequence, problem.designed_chains),
    )
    designed = tuple(
        Designed(
            drawn.temperature[i],
            i % asked.num + 1,
            float(designs.score[i]),
            float(designs.global_score[i]),
            float(designs.recovery[i]),
            drawn.rounds[i],
            spelled(structure, sequence.replace("/", ""), problem.designed_chains),
        )
        for i, sequence in enumerate(designs.sequences)
    )
    steps = problem.chain(torch.zeros(1, dtype=torch.int64), torch.ones(1)).steps
    return Part(sha256, steps, native, designed, structure.dropped)
