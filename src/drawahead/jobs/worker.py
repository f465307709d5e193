"""What runs in a worker of a job: a model, built there once, and shards drawn from it."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

from drawahead.errors import InputError, SamplingError
from drawahead.executors import Replicas
from drawahead.executors.shards import chain_of
from drawahead.jobs import files, lock, manifest
from drawahead.jobs.config import Config, Facts
from drawahead.jobs.model import Drawn, Model
from drawahead.jobs.request import JobRequest
from drawahead.report import Report
from drawahead.samplers import Sampler

Make = Callable[[], Any]
"""Builds the model: an oracle, a denoising target, a chain, or `Replicas` of one on several devices of the worker."""


@final
@dataclass(frozen=True)
class DrawShard:
    """A shard to draw."""

    config: Config
    sampler: Sampler
    index: int
    folder: Path
    token: str
    """Of the folder's lock: a worker that sees it there shares the folder with the process that asks."""


@final
class ShardWorker:
    """One process that holds a model. It knows nothing of what sends it shards."""

    def __init__(self) -> None:
        self._model: Model | None = None
        self._rounds = 0

    def build(self, make: Make) -> Facts:
        """Build the model."""
        made = make()
        self._model = Model(made.chain, made) if isinstance(made, Replicas) else Model(chain_of(made))
        return Facts.of(self._model.chain)

    def evaluate(self, asked: JobRequest | DrawShard) -> tuple[Any, str]:
        """Begin a job, or draw a shard. -> what came of it, and nothing to remark."""
        if self._model is None:
            raise InputError("the worker has no model yet: build it first")
        try:
            if isinstance(asked, JobRequest):
                return self._model.begin(asked), ""
            result = self._model.shard(asked.config, asked.sampler, asked.index, self._count)
        except SamplingError as error:  # its result would have to travel, and the cause says what happened
            raise error.__cause__ or error from None
        return _left(Drawn.of(asked.index, result, asked.config), asked), ""

    def pulse(self) -> int:
        """A number that grows while there is progress."""
        return self._rounds

    def _count(self, report: Report) -> None:
        self._rounds += 1


def _left(drawn: Drawn, asked: DrawShard) -> Drawn:
    """The shard left in the job's folder under a name of its own; or with its bytes, for who asked to write them."""
    assert drawn.data is not None
    if not lock.held(asked.folder, asked.token):
        return drawn
    name = files.temporary_name(f"{manifest.file_name(asked.index)}.{secrets.token_hex(4)}")
    try:
        files.write_synced(asked.folder / manifest.SHARDS / name, drawn.data)
    except OSError:  # the disk is full, or not ours to write to: perhaps whoever asked has more luck
        return drawn
    return replace(drawn, data=None, left=name)
