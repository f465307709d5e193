"""A shard as a file: safetensors with the samples, their numbers, and the report as metadata."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from drawahead import validate
from drawahead.errors import InputError
from drawahead.jobs import files
from drawahead.jobs.config import Config
from drawahead.jobs.manifest import SHARDS, Shard
from drawahead.report import Report
from drawahead.sample import Result

_MOST_HEADER = 256 * 2**20


def need_safetensors() -> None:
    """Say what to install before anything is drawn."""
    try:
        import safetensors.torch  # noqa: F401
    except ImportError:
        raise InputError("jobs keep their samples as safetensors: pip install 'drawahead[models]'") from None


def encoded(result: Result) -> bytes:
    """The bytes of a shard's file. No times are among them: drawn again, it is the same file."""
    from safetensors.torch import save

    tensors = {"samples": result.samples.contiguous(), "numbers": result.numbers.contiguous()}
    timeless = replace(result.report, seconds=0.0, oracle_seconds=0.0)
    data: bytes = save(tensors, metadata={"report": json.dumps(timeless.to_dict())})
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
    return kept


def read(folder: Path, shard: Shard) -> bytes:
    """The bytes of a shard's file; not those that the manifest tells of is an InputError."""
    path = _path(folder, shard)
    data = files.read(path, "the shard", shard.bytes)
    if len(data) != shard.bytes or files.sha256(data) != shard.sha256:
        raise InputError(f"the shard {path} is damaged: it is not what the manifest tells (sha256 or size differ)")
    return data


def check_size(folder: Path, shard: Shard) -> None:
    """Refuse a file that has not the size that the manifest tells of: what can be said without reading it."""
    with files.opened(_path(folder, shard), "the shard") as (_, size):
        if size != shard.bytes:
            raise InputError(f"the shard {_path(folder, shard)} is damaged: it has {size} bytes, not {shard.bytes}")


def report(folder: Path, shard: Shard) -> Report:
    """The report of a shard: the head of its file, and the times in the manifest."""
    path = _path(folder, shard)
    with files.opened(path, "the shard") as (file, size):
        length = int.from_bytes(file.read(8), "little")
        if length > min(size, _MOST_HEADER):
            raise InputError(f"the shard {path} is damaged: its head is longer than it")
        head = validate.parsed(f"the head of the shard {path}", file.read(length))
    metadata = head.get("__metadata__") if isinstance(head, dict) else None
    text = metadata.get("report") if isinstance(metadata, dict) else None
    found = validate.parsed(f"the report in {path}", text.encode()) if isinstance(text, str) else None
    if not isinstance(found, dict):
        raise InputError(f"the shard {path} has no report")
    seconds, oracle_seconds = (float(shard.report[name]) for name in ("seconds", "oracle_seconds"))
    return replace(Report.from_dict(found), seconds=seconds, oracle_seconds=oracle_seconds)


def _path(folder: Path, shard: Shard) -> Path:
    if not files.is_folder(folder / SHARDS):
        raise InputError(f"{folder / SHARDS} is not a folder")
    return folder / SHARDS / shard.file
