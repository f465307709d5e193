"""A round cut into shards, and whom they may be given to.

An executor that has several oracles must know that they all are the model a query is for. This is the one place among
executors that looks behind a query: at the chain it comes from.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from drawahead.chains.base import Chain
from drawahead.chains.gaussian import GaussianChain
from drawahead.chains.stacked import StackedChain
from drawahead.chains.tokens import TokenChain
from drawahead.chains.vectors import VectorChain
from drawahead.engine.threads import Query
from drawahead.errors import InputError
from drawahead.executors.local import merged
from drawahead.models.denoisers import DenoisingTarget
from drawahead.models.oracles import TokenOracle

Replica = TokenOracle | VectorChain
"""What a query carries as its oracle: for vectors that is the chain, which knows the dtype and device too."""


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


def replica_of(chain: Chain) -> Replica:
    """What the queries of a chain carry as their oracle."""
    if isinstance(chain, TokenChain):
        return chain.oracle
    if isinstance(chain, VectorChain):
        return chain
    raise InputError(f"a {type(chain).__name__} cannot be shared between replicas: draw with Local() as the executor")


def is_for(query: Query, replica: Replica) -> bool:
    """Whether a query asks this replica: itself, or its model through a chain with another start."""
    asked = query.oracle
    if asked is replica:
        return True
    if isinstance(asked, GaussianChain) and isinstance(replica, GaussianChain):
        same = asked.denoiser is replica.denoiser and asked.schedule is replica.schedule
    elif isinstance(asked, StackedChain) and isinstance(replica, StackedChain):
        same = asked.oracle is replica.oracle and asked.plan is replica.plan
    else:
        return False
    return same and asked.shape == replica.shape and asked.dtype == replica.dtype


def joined(queries: Sequence[Query], replicas: Sequence[Replica]) -> Query:
    """A round's queries as one, which any replica may be asked a part of."""
    for query in queries:
        if not any(is_for(query, replica) for replica in replicas):
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
