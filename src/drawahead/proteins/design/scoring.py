"""Scores and probabilities of structures without designing them: the tool's --score-only and --unconditional-probs."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
import torch

from drawahead.errors import DrawaheadError, InputError
from drawahead.jobs import files
from drawahead.oracles.needs import check_memory
from drawahead.proteins.choices import native_tokens
from drawahead.proteins.design import sources
from drawahead.proteins.design.designer import Designer, native_scores
from drawahead.proteins.design.folder import spelled
from drawahead.proteins.design.options import Options
from drawahead.proteins.design.problem import Problem
from drawahead.validate import as_device

_ORDER_BYTES = 48  # of the scores of an order, and of what is written of them
SCORES, PROBABILITIES = "score_only", "unconditional_probs_only"


@final
@dataclass(frozen=True)
class Scored:
    """The scores of one structure, averaged over its orders."""

    name: str
    score: float
    global_score: float
    orders: int


def score(
    folder: str | Path,
    structures: Sequence[str | Path],
    asked: Options,
    *,
    probabilities: bool = False,
    device: str = "cpu",
    on_fail: Callable[[str, str], None] | None = None,
) -> tuple[list[Scored], dict[str, str]]:
    """Score the sequence of every structure in `asked.num` random orders, or write the model's probabilities given the
    backbone alone; one .npz for each structure, under the names that ProteinMPNN uses. -> scores, failures."""
    designer = Designer.of(asked, as_device("device", device)).there()
    home = Path(folder) / (PROBABILITIES if probabilities else SCORES)
    files.refuse_links(home.parent, home.name)
    try:
        home.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{home} cannot be a folder of the job: {error.strerror or error}") from None
    found, failed = sources.find(structures)
    scores = []
    for name, path in found.items():
        try:
            problem = designer.problem(name, designer.read(path))
            check_memory(
                f"the scores of {asked.num:,} orders need", asked.num * _ORDER_BYTES, "ask for fewer with --num"
            )
        except DrawaheadError as error:
            failed[name] = str(error)
            continue
        native = native_scores(problem, asked.seed, asked.num)
        scores.append(Scored(name, float(native[0].mean()), float(native[1].mean()), asked.num))
        if probabilities:
            _write(home / f"{name}.npz", problem, log_p=problem.mpnn.log_probs()[None].numpy())
        else:
            own = {"score": native[0].float().numpy(), "global_score": native[1].float().numpy()}
            text = spelled(problem.mpnn.structure, problem.mpnn.structure.sequence, problem.designed_chains)
            _write(home / f"{name}_pdb.npz", problem, **own, seq_str=text.replace("/", ""))
    if on_fail is not None:
        for name, why in failed.items():
            on_fail(name, why)
    return scores, failed


def _write(path: Path, problem: Problem, **arrays: Any) -> None:
    mpnn = problem.mpnn
    chain = problem.chain(torch.zeros(1, dtype=torch.int64), torch.ones(1))
    known: dict[str, Any] = {
        "S": native_tokens(mpnn.structure).numpy(),
        "labels": np.array(mpnn.structure.labels),
        "mask": np.ones(len(mpnn.structure), dtype=np.float32),
        "design_mask": mpnn.designed(chain).float().numpy(),
    }
    data = io.BytesIO()
    np.savez(data, **arrays, **known)
    files.write(path, data.getvalue())
