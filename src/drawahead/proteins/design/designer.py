"""A model and its options: designs groups of structures in shared rounds, here or in a worker of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import final

import torch
from torch import Tensor

from drawahead.chains.base import Tally
from drawahead.errors import DrawaheadError, InputError
from drawahead.executors.chunks import CHUNK_BYTES, out_of_memory
from drawahead.executors.local import Local
from drawahead.oracles.needs import check_memory
from drawahead.proteins.choices import native_tokens
from drawahead.proteins.design.folder import Designed, Native, Part, spelled
from drawahead.proteins.design.options import Options
from drawahead.proteins.design.problem import Problem, build, sample_numbers
from drawahead.proteins.design.sources import find_weights
from drawahead.proteins.design.tables import ChoiceTables, read_tables
from drawahead.proteins.mpnn.backbones import Backbones, rung
from drawahead.proteins.mpnn.model import Weights
from drawahead.proteins.scores import Designs, scored
from drawahead.proteins.structures.files import Backbone, read_structure
from drawahead.report import Report
from drawahead.sample import Result, sample
from drawahead.samplers import Coupled

WORKER_BYTES = 2**30
"""How many bytes of structures a worker of a cluster takes at a time: a few dozen, so that many workers are busy."""
_LIVE = 1024  # sequences under way at a time, unless the caller says how many
_RESIDUE_BYTES = 3 * 48 * 128 * 4  # of a structure on the device, about
_SEQUENCE_BYTES, _LETTER_BYTES = 1000, 32  # of a sequence, and of each of its letters, about
_TOGETHER = 256  # orders that are scored at a time: their log-probabilities are not stored

OnRound = Callable[[Report], None] | None
StructureGroup = Mapping[str, Backbone]
"""Structures that are designed together, by name."""


@final
@dataclass
class Outcome:
    """The result of a group."""

    parts: dict[str, Part] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    """What is wrong with the others."""
    rounds: int = 0


@final
@dataclass(frozen=True)
class Designer:
    """Designs groups of structures. Whatever fails is named, and the rest of its group is done."""

    options: Options
    file: Path
    """Of the weights."""
    weights: Weights
    tables: ChoiceTables
    sums: Mapping[str, str]
    """The checksums of the files that the tables are from."""
    device: torch.device
    batch: int | None = None
    """The most sequences under way at a time."""

    @staticmethod
    def of(options: Options, device: torch.device, batch: int | None = None) -> Designer:
        """Read the files that the options name."""
        file = find_weights(options)
        weights = Weights.load(file)
        if options.ca_only and not weights.ca_only:
            raise InputError(f"--ca-only: {file} holds weights of full backbones")
        return Designer(options, file, weights, *read_tables(options), device, batch)

    def read(self, path: Path) -> Backbone:
        """The structure in a file."""
        return read_structure(path, ca_only=self.weights.ca_only)

    def problem(self, name: str, structure: Backbone) -> Problem:
        return build(name, structure, self.weights, self.options, self.tables, self.device)

    def there(self) -> Designer:
        """With the weights on the device."""
        return replace(self, weights=self.weights.to(getattr(torch, self.options.dtype), self.device))

    def together(self, group: StructureGroup, on_round: OnRound = None) -> Outcome:
        """All sequences of a group's structures."""
        outcome, problems = Outcome(), list[Problem]()

        def count(report: Report) -> None:
            outcome.rounds += 1
            if on_round is not None:
                on_round(report)

        num = self.options.num * len(self.options.temperature)
        for name, structure in group.items():
            try:
                needed = num * (_SEQUENCE_BYTES + _LETTER_BYTES * len(structure))
                check_memory(f"{num:,} sequences need", needed, "ask for fewer with --num")
                problems.append(self.problem(name, structure))
            except DrawaheadError as error:
                outcome.failed[name] = str(error)
        self._add(problems, self.batch or _LIVE, outcome, count)
        return outcome

    def _add(self, problems: Sequence[Problem], live: int, outcome: Outcome, on_round: OnRound) -> None:
        """Draw, with so many sequences under way at a time. What does not fit into memory is drawn in halves: first
        fewer sequences at a time, then fewer structures. Where one structure fails, the others are drawn without it. A
        sequence is the same either way."""
        if not problems:
            return
        try:
            parts = draw(problems, self.options, self.file.stem, live, on_round)
        except Exception as error:
            full, ours = out_of_memory(error.__cause__ or error), isinstance(error, DrawaheadError)
            alone = len(problems) == 1 and not (full and live > 1)
            if not ours and (alone or not full):
                raise
            if alone:
                outcome.failed[problems[0].name] = str(error)
                return
        else:
            outcome.parts |= {part.native.name: part for part in parts}
            return
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            torch.cuda.empty_cache()
        if full and live > 1:
            fewer = min(live, len(problems) * self.options.num * len(self.options.temperature)) // 2 or 1
            self._add(problems, fewer, outcome, on_round)
        else:
            half = len(problems) // 2
            for some in (problems[:half], problems[half:]):
                self._add(some, live, outcome, on_round)


@final
class DesignWorker:
    """A process that holds a model and designs the groups it is sent."""

    def __init__(self) -> None:
        self._rounds = 0

    def build(self, make: Callable[[], Designer]) -> bool:
        """Bring the weights to the device."""
        self._designer = make().there()
        return True

    def evaluate(self, group: StructureGroup) -> tuple[Outcome, str]:
        """Design a group. -> the result, and no remark."""
        return self._designer.together(group, self._count), ""

    def pulse(self) -> int:
        """A number that grows while there is progress."""
        return self._rounds

    def _count(self, report: Report) -> None:
        self._rounds += 1


def memory(device: torch.device) -> int:
    """Bytes that a batch may fill on a device: a quarter of what is free."""
    return int(torch.cuda.mem_get_info(device)[0]) // 4 if device.type == "cuda" else CHUNK_BYTES


def shared(
    structures: Mapping[str, Backbone], neighbours: int, device: torch.device, most: int | None = None
) -> list[list[str]]:
    """Names of structures that are drawn together: of similar lengths, and as many as there is memory for, or as fit
    into `most` bytes. A CPU is busy with one."""
    if device.type == "cpu":
        return [[name] for name in structures]
    most = memory(device) if most is None else most
    kinds: dict[tuple[int, int], list[list[str]]] = {}
    for name, structure in structures.items():
        kind = (rung(len(structure)), min(neighbours, len(structure)))
        parts = kinds.setdefault(kind, [[]])
        if parts[-1] and (len(parts[-1]) + 1) * kind[0] * _RESIDUE_BYTES > most:
            parts.append([])
        parts[-1].append(name)
    return [part for parts in kinds.values() for part in parts]


def draw(problems: Sequence[Problem], options: Options, model: str, live: int, on_round: OnRound) -> list[Part]:
    """All sequences of these structures, in shared rounds; of each structure at one temperature after the other."""
    heats = torch.tensor(options.temperature, dtype=torch.float64).repeat_interleave(options.num)
    numbers = [
        torch.cat([sample_numbers(each.name, heat, options.num) for heat in options.temperature]) for each in problems
    ]
    m = len(heats)
    if len(problems) == 1:
        chain = problems[0].chain(numbers[0], heats)
    else:
        chain = Backbones([each.mpnn for each in problems]).chain(
            torch.arange(len(problems)).repeat_interleave(m),
            [each.known for each in problems],
            torch.cat(numbers),
            heats.repeat(len(problems)),
        )
    # Rounds are not captured: a structure is drawn once, and capturing pays only for those drawn again.
    result = sample(
        chain,
        len(problems) * m,
        sampler=Coupled(),
        seed=options.seed,
        max_live=live,
        executor=Local(chunk_bytes=memory(chain.device)),
        graphs=False,
        on_round=on_round,
    )
    parts = []
    for row, problem in enumerate(problems):
        mine = slice(row * m, (row + 1) * m)
        own = Result(result.samples[mine, : problem.mpnn.length], torch.arange(m), result.report)
        designs = problem.mpnn.designs(problem.chain(numbers[row], heats), own)
        parts.append(_part(problem, designs, result.report.sample_rounds[mine], options, model))
    return parts


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


def _part(problem: Problem, designs: Designs, rounds: Sequence[int], options: Options, model: str) -> Part:
    """The structure's own sequence and its designs, as the FASTA file and the table have them. The sha256 of the file
    is left to whoever read it."""
    structure, chains = problem.mpnn.structure, problem.designed_chains
    score, global_score = native_scores(problem, options.seed)[:, 0].tolist()
    native = Native(
        problem.name,
        score,
        global_score,
        list(problem.fixed_chains),
        list(chains),
        model,
        structure.ca_only,
        options.seed,
        spelled(structure, structure.sequence, chains),
    )
    designed = tuple(
        Designed(
            options.temperature[i // options.num],
            i % options.num + 1,
            float(designs.score[i]),
            float(designs.global_score[i]),
            float(designs.recovery[i]),
            rounds[i],
            spelled(structure, sequence.replace("/", ""), chains),
        )
        for i, sequence in enumerate(designs.sequences)
    )
    steps = problem.chain(torch.zeros(1, dtype=torch.int64), torch.ones(1)).steps
    return Part("", steps, native, designed, structure.dropped)
