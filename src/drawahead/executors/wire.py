"""Queries as plain arrays, sent to a worker in another process, which has the model. The oracle is never sent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, final

import numpy as np
import torch
from torch import Tensor

from drawahead.chains.base import Chain
from drawahead.errors import InputError
from drawahead.executors.chunks import Chunks
from drawahead.executors.shards import chain_of
from drawahead.rounds.threads import Query


@final
@dataclass(frozen=True, eq=False)
class Packed:
    """A query without its oracle."""

    kind: type[Query]
    contents: dict[str, Any]

    @classmethod
    def of(cls, query: Query) -> Packed:
        return cls(type(query), {name: _packed(getattr(query, name)) for name in _names(type(query)) - {"oracle"}})

    def unpacked(self, oracle: object) -> Query:
        """The query, for this oracle, on its device."""
        contents = {name: _unpacked(value, oracle) for name, value in self.contents.items()}
        if "oracle" in _names(self.kind):
            contents["oracle"] = oracle
        return self.kind(**contents).on(oracle)


def _names(kind: Any) -> set[str]:
    if not is_dataclass(kind):
        raise InputError(f"a {kind.__name__} cannot be sent: draw with Local() as the executor")
    return {field.name for field in fields(kind)}


def _packed(value: object) -> object:
    if isinstance(value, Tensor):
        if value.dtype == torch.bfloat16:
            return value.clone()  # numpy has none
        return value.numpy()  # of a slice this is only the slice; of a tensor it would be all that it is a slice of
    if isinstance(value, dict):
        return {name: _packed(entry) for name, entry in value.items()}
    return Packed.of(value) if isinstance(value, Query) else value


def _unpacked(value: object, oracle: object) -> object:
    if isinstance(value, np.ndarray):
        return torch.tensor(value)  # its own: what comes in cannot be written to
    if isinstance(value, dict):
        return {name: _unpacked(entry, oracle) for name, entry in value.items()}
    return value.unpacked(oracle) if isinstance(value, Packed) else value


Make = Callable[[], Any]
"""Builds a replica: an oracle, a denoising target or a chain. It is run in each worker, where the model belongs."""


@final
class Worker:
    """One process that holds a replica. It knows nothing of what sends it shards."""

    def build(self, make: Make) -> Chain:
        """Build the replica. -> the chain, without its model, for the driver."""
        chain = chain_of(make())
        self._replica, self._chunks = chain.model, Chunks()
        return chain.without_model()

    def evaluate(self, shard: Packed) -> tuple[np.ndarray[Any, Any], str]:
        """The evaluation of a shard, and what was learnt about memory on the way."""
        with torch.no_grad():
            evaluation = self._chunks.evaluate(shard.unpacked(self._replica))
        return evaluation.cpu().numpy(), self._chunks.note
