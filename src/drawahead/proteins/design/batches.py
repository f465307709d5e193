"""Draw the sequences of several structures in shared rounds, in as many parts as memory asks for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from drawahead.errors import SamplingError
from drawahead.executors.chunks import CHUNK_BYTES, out_of_memory
from drawahead.executors.local import Local
from drawahead.proteins.design.options import Options
from drawahead.proteins.design.problem import Problem, sample_numbers
from drawahead.proteins.mpnn.backbones import Backbones, rung
from drawahead.proteins.mpnn.model import Designs
from drawahead.proteins.structures.files import Backbone
from drawahead.report import Report
from drawahead.sample import Result, sample
from drawahead.samplers import Coupled

_LIVE = 1024  # sequences under way at a time, if nobody says how many
_RESIDUE_BYTES = 3 * 48 * 128 * 4  # of what a structure holds on the device, about

WORKER_BYTES = 2**30
"""Of structures that a worker of a cluster is given at a time: a few dozen, so that many workers are busy."""

OnRound = Callable[[Report], None] | None


@final
@dataclass(frozen=True, eq=False)
class DrawnBatch:
    """The sequences of one structure: at each temperature, one after the other."""

    problem: Problem
    designs: Designs
    temperature: tuple[float, ...]
    """Of every sequence."""
    rounds: tuple[int, ...]
    """Of every sequence."""


def memory(device: torch.device) -> int:
    """Bytes that a batch may fill on a device: a quarter of what is free."""
    return int(torch.cuda.mem_get_info(device)[0]) // 4 if device.type == "cuda" else CHUNK_BYTES


def shared(
    structures: dict[str, Backbone], neighbours: int, device: torch.device, most: int | None = None
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


def draw(
    problems: Sequence[Problem], asked: Options, batch: int | None = None, on_round: OnRound = None
) -> list[DrawnBatch]:
    """All sequences of these structures. What does not fit into memory is drawn in halves: first fewer sequences at a
    time, then fewer structures. A sequence is the same either way."""
    live = batch or _LIVE
    while True:
        try:
            return _drawn(problems, asked, live, on_round)
        except Exception as error:
            cause = error.__cause__ if isinstance(error, SamplingError) else error
            if not out_of_memory(cause or error) or (live == 1 and len(problems) == 1):
                raise
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            torch.cuda.empty_cache()
        if live > 1:
            live = min(live, len(problems) * asked.num * len(asked.temperature)) // 2 or 1
        else:
            half = len(problems) // 2
            return draw(problems[:half], asked, live, on_round) + draw(problems[half:], asked, live, on_round)


def _drawn(problems: Sequence[Problem], asked: Options, live: int, on_round: OnRound) -> list[DrawnBatch]:
    heats = torch.tensor(asked.temperature, dtype=torch.float64).repeat_interleave(asked.num)
    numbers = [
        torch.cat([sample_numbers(each.name, heat, asked.num) for heat in asked.temperature]) for each in problems
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
        seed=asked.seed,
        max_live=live,
        executor=Local(chunk_bytes=memory(chain.device)),
        graphs=False,
        on_round=on_round,
    )
    return [_scored(each, result, row * m, numbers[row], heats) for row, each in enumerate(problems)]


def _scored(problem: Problem, result: Result, first: int, numbers: Tensor, heats: Tensor) -> DrawnBatch:
    mpnn, m = problem.mpnn, len(numbers)
    own = Result(result.samples[first : first + m, : mpnn.length], torch.arange(m), result.report)
    designs = mpnn.designs(problem.chain(numbers, heats), own)
    rounds = result.report.sample_rounds[first : first + m]
    return DrawnBatch(problem, designs, tuple(heats.tolist()), tuple(rounds))
