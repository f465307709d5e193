"""A model and what is asked of it: designs structures here, or in a worker of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import final

import torch
from torch import Tensor

from drawahead.chains.base import Tally
from drawahead.errors import DrawaheadError
from drawahead.oracles.needs import check_memory
from drawahead.proteins.choices import native_tokens
from drawahead.proteins.design.batches import DrawnBatch, OnRound, draw
from drawahead.proteins.design.folder import Designed, Native, Part, spelled
from drawahead.proteins.design.options import Options
from drawahead.proteins.design.problem import Problem, build
from drawahead.proteins.design.tables import ChoiceTables
from drawahead.proteins.mpnn.model import Weights
from drawahead.proteins.scores import scored
from drawahead.proteins.structures.files import Backbone
from drawahead.report import Report

_SEQUENCE_BYTES, _LETTER_BYTES = 1000, 32  # of a sequence that is drawn, and of each of its letters, about
_TOGETHER = 256  # orders that are scored at a time: their log-probabilities are not kept


StructureGroup = Mapping[str, Backbone]
"""Structures that are drawn together, by name."""


@final
@dataclass
class Outcome:
    """What came of a group."""

    parts: dict[str, Part] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    """What is wrong with the others."""
    rounds: int = 0


@final
@dataclass(frozen=True)
class Designer:
    """Designs groups of structures. Whatever fails is named, and the rest of its group is done."""

    asked: Options
    tables: ChoiceTables
    weights: Weights
    device: torch.device
    batch: int | None
    """The most sequences drawn at a time."""
    model: str
    """The name of the weights."""

    def there(self) -> Designer:
        """With the weights on the device."""
        return replace(self, weights=self.weights.to(getattr(torch, self.asked.dtype), self.device))

    def together(self, group: StructureGroup, on_round: OnRound = None) -> Outcome:
        """All sequences of a group's structures."""
        found, problems = Outcome(), list[Problem]()

        def count(report: Report) -> None:
            found.rounds += 1
            if on_round is not None:
                on_round(report)

        for name, structure in group.items():
            num = self.asked.num * len(self.asked.temperature)
            try:
                needed = num * (_SEQUENCE_BYTES + _LETTER_BYTES * len(structure))
                check_memory(f"{num:,} sequences need", needed, "ask for fewer with --num")
                problems.append(build(name, structure, self.weights, self.asked, self.tables, self.device))
            except DrawaheadError as error:
                found.failed[name] = str(error)
        for drawn in self._drawn(problems, found.failed, count):
            found.parts[drawn.problem.name] = part_of(drawn, self.asked, self.model)
        return found

    def _drawn(self, problems: Sequence[Problem], failed: dict[str, str], on_round: OnRound) -> list[DrawnBatch]:
        """All sequences of these; where one structure fails, the others are drawn without it."""
        if not problems:
            return []
        try:
            return draw(problems, self.asked, self.batch, on_round)
        except DrawaheadError as error:
            if len(problems) == 1:
                failed[problems[0].name] = str(error)
                return []
        return [drawn for problem in problems for drawn in self._drawn([problem], failed, on_round)]


@final
class DesignWorker:
    """One process that holds a model. It knows nothing of what sends it groups."""

    def __init__(self) -> None:
        self._rounds = 0

    def build(self, make: Callable[[], Designer]) -> bool:
        """Bring the weights to the device."""
        self._designer = make().there()
        return True

    def evaluate(self, group: StructureGroup) -> tuple[Outcome, str]:
        """Design a group. -> what came of it, and nothing to remark."""
        return self._designer.together(group, self._count), ""

    def pulse(self) -> int:
        """A number that grows while there is progress."""
        return self._rounds

    def _count(self, report: Report) -> None:
        self._rounds += 1


def native_scores(problem: Problem, seed: int, orders: int = 1) -> Tensor:
    """The score and the global score of the structure's own sequence, in this many random orders (2, orders)."""
    mpnn, found = problem.mpnn, []
    for numbers in torch.arange(orders).split(_TOGETHER):
        count = len(numbers)
        chain = problem.chain(numbers, torch.ones(count))
        tokens = native_tokens(mpnn.structure).expand(count, -1)
        rank = chain.start(seed, torch.arange(count), Tally()).rank
        scores = scored(mpnn, tokens, rank, mpnn.designed(chain))
        found.append(torch.stack([scores.score, scores.global_score]))
    return torch.cat(found, 1)


def part_of(drawn: DrawnBatch, asked: Options, model: str) -> Part:
    """The structure's own sequence and those drawn for it, as its file and the table have them; whoever read the
    structure knows the sha256 of its file."""
    problem, designs, structure = drawn.problem, drawn.designs, drawn.problem.mpnn.structure
    score, global_score = native_scores(problem, asked.seed)[:, 0].tolist()
    native = Native(
        problem.name,
        score,
        global_score,
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
    return Part("", steps, native, designed, structure.dropped)
