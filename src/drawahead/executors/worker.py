"""What runs in a worker: a replica of the model, built there once, and asked shard by shard."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import numpy as np
import torch

from drawahead.chains.base import Chain
from drawahead.errors import InputError
from drawahead.executors.chunks import Chunks
from drawahead.executors.shards import chain_of
from drawahead.executors.wire import Packed

Make = Callable[[], Any]
"""Builds a replica: an oracle, a denoising target or a chain. It is run in each worker, where the model belongs."""


@final
class Worker:
    """One process that holds a replica. It knows nothing of what sends it shards."""

    def __init__(self) -> None:
        self._replica: Any = None
        self._chunks = Chunks()

    def build(self, make: Make) -> Chain:
        """Build the replica. -> the chain, without its model, for the driver."""
        chain = chain_of(make())
        self._replica = chain.replica
        return chain.without_model()

    def evaluate(self, shard: Packed) -> tuple[np.ndarray[Any, Any], str]:
        """The evaluation of a shard, and what was learnt about memory on the way."""
        if self._replica is None:
            raise InputError("the worker has no replica yet: build it first")
        with torch.no_grad():
            evaluation = self._chunks.evaluate(shard.unpacked(self._replica))
        return evaluation.cpu().numpy(), self._chunks.note
