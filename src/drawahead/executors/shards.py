"""A round cut into shards, and whom they may be given to."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from drawahead.chains.base import Chain
from drawahead.chains.gaussian import GaussianChain
from drawahead.chains.tokens import TokenChain
from drawahead.errors import InputError
from drawahead.executors.local import merged
from drawahead.oracles.denoisers import DenoisingTarget
from drawahead.oracles.tokens import TokenOracle
from drawahead.rounds.threads import Query


def chain_of(made: object) -> Chain:
    """The chain itself, or the natural one for an oracle or a denoising target."""
    if isinstance(made, Chain):
        return made
    if isinstance(made, DenoisingTarget):
        return GaussianChain(made)
    if isinstance(made, TokenOracle):
        return TokenChain(made)
    raise InputError(
        f"a replica must be a TokenOracle, a DenoisingTarget or a chain, not {type(made).__name__}: wrap a plain "
        "callable as TokenChain(model, length=..., vocab_size=...) or GaussianChain(denoiser, schedule, shape)"
    )


def joined(queries: Sequence[Query], replicas: Sequence[object]) -> Query:
    """A round's queries as one, which any replica may be asked a part of."""
    for query in queries:
        if not any(query.is_for(replica) for replica in replicas):
            raise InputError(
                "this executor's replicas are not the model that is drawn from: draw from its `chain`, or from a chain "
                "made with the oracle, or with the denoiser and the schedule, of its `chain`"
            )
    return merged(queries)


def parted(evaluation: Tensor, queries: Sequence[Query]) -> list[Tensor]:
    """The evaluation of the joined queries, one by one."""
    return list(evaluation.split([query.cells for query in queries]))


def cut(items: int, workers: int, least: int, most: int | None) -> list[tuple[int, int]]:
    """Shards (start, stop) of nearly equal size: one for each worker, but none of fewer than `least` items if that can
    be helped, nor of more than `most`. They depend on sizes alone, never on who is busy."""
    shards = max(1, min(workers, items // least))
    if most is not None:
        shards = max(shards, -(-items // most))
    return [(items * i // shards, items * (i + 1) // shards) for i in range(shards)]
