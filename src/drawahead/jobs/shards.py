"""A shard as a file: safetensors with the samples, their numbers, and the report as metadata."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import torch
from torch import Tensor

from drawahead import validate
from drawahead.errors import InputError
from drawahead.jobs import files
from drawahead.jobs.config import Config
from drawahead.jobs.manifest import SHARDS, Shard
from drawahead.report import Report
from drawahead.sample import Result
from drawahead.validate import short

_MOST_HEADER = 256 * 2**20
_JOB = "job"


def need_safetensors() -> None:
    """Say what to install before anything is drawn."""
    try:
        import safetensors.torch  # noqa: F401
    except ImportError:
        raise InputError("jobs keep their samples as safetensors: pip install 'drawahead[models]'") from None


class OtherJob(InputError):
    """A shard that is whole, but was drawn by another job than the manifest tells of."""


def encoded(result: Result, config: Config) -> bytes:
    """The bytes of a shard's file. No times are among them: drawn again, it is the same file."""
    from safetensors.torch import save

    tensors = {"samples": result.samples.contiguous(), "numbers": result.numbers.contiguous()}
    timeless = replace(result.report, seconds=0.0, oracle_seconds=0.0)
    # One text, for safetensors does not say in which order it writes several.
    data: bytes = save(tensors, metadata={"report": json.dumps(timeless.to_dict() | {_JOB: config.identity})})
    return data


def samples(folder: Path, shard: Shard, config: Config) -> Tensor:
    """The samples of a shard (count, ...), after comparing its sha256."""
    need_safetensors()
    from safetensors import SafetensorError
    from safetensors.torch import load

    data, path = read(folder, shard), _path(folder, shard)
    try:
        tensors = load(data)
    except (SafetensorError, ValueError, RuntimeError, KeyError) as error:
        raise InputError(f"the shard {path} is not readable: {error}") from None
    kept, numbers = tensors.get("samples"), tensors.get("numbers")
    if kept is None or kept.shape != (shard.count, *config.shape) or kept.dtype != config.torch_dtype:
        raise InputError(f"the shard {path} does not hold {shard.count} samples of the job's shape and dtype")
    if numbers is None or not torch.equal(numbers, torch.arange(shard.first, shard.first + shard.count)):
        raise InputError(f"the shard {path} does not hold samples {shard.first} ... {shard.first + shard.count - 1}")
    _check_job(_told(io.BytesIO(data), len(data), path), config, path)
    return kept


def check(folder: Path, shard: Shard, config: Config, *, whole: bool) -> None:
    """Refuse a shard that is not what the manifest tells, or of another job. If not `whole`, its size and its head are
    all that is read."""
    path = _path(folder, shard)
    if whole:
        data = read(folder, shard)
        _check_job(_told(io.BytesIO(data), len(data), path), config, path)
        return
    with files.opened(path, "the shard") as (file, size):
        if size != shard.bytes:
            raise InputError(f"the shard {path} is damaged: it has {size} bytes, not {shard.bytes}")
        _check_job(_told(file, size, path), config, path)


def read(folder: Path, shard: Shard) -> bytes:
    """The bytes of a shard's file; not those that the manifest tells of is an InputError."""
    path = _path(folder, shard)
    data = files.read(path, "the shard", shard.bytes)
    if len(data) != shard.bytes or files.sha256(data) != shard.sha256:
        raise InputError(f"the shard {path} is damaged: it is not what the manifest tells (sha256 or size differ)")
    return data


def report(folder: Path, shard: Shard) -> Report:
    """The report of a shard: the head of its file, and the times in the manifest."""
    path = _path(folder, shard)
    with files.opened(path, "the shard") as (file, size):
        found = _told(file, size, path)
    found.pop(_JOB, None)
    seconds, oracle_seconds = (float(shard.report[name]) for name in ("seconds", "oracle_seconds"))
    return replace(Report.from_dict(found), seconds=seconds, oracle_seconds=oracle_seconds)


def _told(file: BinaryIO, size: int, path: Path) -> dict[str, Any]:
    """The report in the head of a shard, as plain values."""
    length = int.from_bytes(file.read(8), "little")
    if length > min(size, _MOST_HEADER):
        raise InputError(f"the shard {path} is damaged: its head is longer than it")
    head = validate.parsed(f"the head of the shard {path}", file.read(length))
    metadata = head.get("__metadata__") if isinstance(head, dict) else None
    text = metadata.get("report") if isinstance(metadata, dict) else None
    found = validate.parsed(f"the report in {path}", text.encode()) if isinstance(text, str) else None
    if not isinstance(found, dict):
        raise InputError(f"the shard {path} has no report")
    return found


def _check_job(told: dict[str, Any], config: Config, path: Path) -> None:
    """Shards of earlier versions tell their seed alone."""
    if told.get("seed") != config.seed:
        why = f"it was drawn with seed {short(told.get('seed'))}, not {config.seed}"
    elif told.get(_JOB, config.identity) != config.identity:
        why = "it was drawn with other settings than the manifest tells"
    else:
        return
    raise OtherJob(f"the shard {path} is of another job: {why}; put the manifest back, or remove the shard")


def _path(folder: Path, shard: Shard) -> Path:
    if not files.is_folder(folder / SHARDS):
        raise InputError(f"{folder / SHARDS} is not a folder")
    return folder / SHARDS / shard.file
