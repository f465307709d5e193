"""A shard as a file, safetensors: the samples, their numbers, and the report as metadata; and so the condition."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO, final

import torch
from torch import Tensor

from drawahead import validate
from drawahead.errors import InputError
from drawahead.jobs import files
from drawahead.jobs.config import Config
from drawahead.jobs.store import SEAL
from drawahead.oracles.condition import Conditions, fingerprint
from drawahead.report import History, Report
from drawahead.rounds.run import TRACED, Result
from drawahead.validate import short
from drawahead.values import dataclass

SHARDS = "shards"
CONDITION = "condition.safetensors"
_MOST_BYTES = 2**40
_MOST_HEADER = 256 * 2**20
_JOB = "job"
_NAME = re.compile(r"([0-9]{6})\.safetensors")


def need_safetensors() -> None:
    """Say what to install before anything is drawn."""
    try:
        import safetensors.torch  # noqa: F401
    except ImportError:
        raise InputError("jobs keep their samples as safetensors: pip install 'drawahead[models]'") from None


class OtherJob(InputError):
    """A shard that is whole, but was drawn by another job than the manifest tells of."""


@final
@dataclass(frozen=True)
class Shard:
    """A finished shard."""

    path: Path
    first: int
    """The number of its first sample."""
    count: int
    record: str = ""
    """The sha256 of a file that carries none: earlier versions wrote it into the manifest."""

    @property
    def file(self) -> str:
        return self.path.name

    @property
    def sha256(self) -> str:
        """As its file tells it, or the manifest."""
        return str(_head(self).get(SEAL, self.record))


@final
@dataclass(frozen=True)
class Drawn:
    """A shard that was drawn: its bytes, or the name under which a worker has left them among the shards."""

    index: int
    totals: dict[str, Any]
    """Of its report."""
    data: bytes | None = None
    left: str = ""

    @staticmethod
    def of(index: int, result: Result, config: Config) -> Drawn:
        return Drawn(index, result.report.totals(), encoded(result, config))


def file_name(index: int) -> str:
    return f"{index:06d}.safetensors"


def listed(folder: Path, config: Config, records: dict[str, str]) -> tuple[Shard, ...]:
    """The shards that are in a folder, in the order of their samples."""
    home = folder / SHARDS
    if not home.is_symlink() and not home.exists():
        return ()
    if not files.is_folder(home):
        raise InputError(f"{home} is not a folder")
    names = (_NAME.fullmatch(path.name) for path in home.iterdir())
    numbers = sorted(int(name[1]) for name in names if name)
    return tuple(
        Shard(home / file_name(index), *config.part(index), records.get(file_name(index), ""))
        for index in numbers
        if index < config.shards
    )


def encoded(result: Result, config: Config) -> bytes:
    """The bytes of a shard's file. No times are among them: drawn again, it is the same file."""
    from safetensors.torch import save

    tensors = {"samples": result.samples.contiguous(), "numbers": result.numbers.contiguous()}
    timeless = replace(result.report, seconds=0.0, oracle_seconds=0.0)
    # One text, for safetensors does not say in which order it writes several.
    about = {SEAL: files.BLANK, _JOB: config.identity, **timeless.to_dict()}
    return files.seal(save(tensors, metadata={"report": json.dumps(about)}))


def samples(shard: Shard, config: Config) -> Tensor:
    """The samples of a shard (count, ...), after comparing its sha256."""
    tensors = _loaded(read(shard, config), f"the shard {shard.path}")
    own, numbers = tensors.get("samples"), tensors.get("numbers")
    if own is None or own.shape != (shard.count, *config.shape) or own.dtype != config.torch_dtype:
        raise InputError(f"the shard {shard.path} does not hold {shard.count} samples of the job's shape and dtype")
    if numbers is None or not torch.equal(numbers, torch.arange(shard.first, shard.first + shard.count)):
        last = shard.first + shard.count - 1
        raise InputError(f"the shard {shard.path} does not hold samples {shard.first} ... {last}")
    return own


def check(shard: Shard, config: Config, *, whole: bool) -> None:
    """Refuse a shard that is damaged, or of another job. If not `whole`, its head and its size are all that is read."""
    if whole:
        samples(shard, config)
    else:
        _check_job(_head(shard), config, shard.path)


def read(shard: Shard, config: Config) -> bytes:
    """The bytes of a shard's file, after comparing its sha256 and its job."""
    data = files.read(shard.path, "the shard", _MOST_BYTES)
    about = _about(io.BytesIO(data), len(data), shard.path)
    sound = files.is_sealed(data, about[SEAL]) if SEAL in about else files.sha256(data) == shard.record
    if not sound:
        raise InputError(f"the shard {shard.path} is damaged: it does not have the sha256 that it should have")
    _check_job(about, config, shard.path)
    return data


def report(shard: Shard) -> Report:
    """The report of a shard, which is the head of its file, without times."""
    about = _head(shard)
    for key in (SEAL, _JOB):
        about.pop(key, None)
    return Report.from_dict(about)


def no_report(config: Config) -> Report:
    """The report of a job of which nothing is drawn yet."""
    written = config.sampler
    return Report(
        sampler=written.text,
        choice=written.choice,
        exact=written.sampler is not None and written.sampler.guarantee.exact,
        seed=config.seed,
        num_samples=0,
        steps=config.steps,
        rounds=0,
        passes=0,
        probes=written.probes,
        rereads=0,
        drafted=0,
        accepted=0,
        candidates=0,
        seconds=0.0,
        oracle_seconds=0.0,
        history=History(),
    )


def merged(reports: Sequence[Report]) -> Report:
    """The report of runs one after another, on consecutive samples."""
    first = reports[0]
    summed = ("num_samples", "rounds", "passes", "probes", "rereads", "drafted", "accepted", "candidates")
    progress = {number: steps for report in reports for number, steps in report.progress.items() if number < TRACED}
    rounds = torch.tensor([taken for report in reports for taken in report.sample_rounds], dtype=torch.int64)
    return replace(
        first,
        **{name: sum(getattr(report, name) for report in reports) for name in summed},
        exact=all(report.exact for report in reports),
        history=History(
            [width for report in reports for width in report.widths],
            [committed for report in reports for committed in report.committed],
            [drafts for report in reports for drafts in report.drafts],
            [kept for report in reports for kept in report.kept],
            [(torch.arange(len(rounds)), rounds)],
            progress,
        ),
    )


def encoded_condition(condition: Conditions) -> bytes:
    from safetensors.torch import save

    data: bytes = save({name: table.cpu().contiguous() for name, table in condition.items()})
    return data


def condition(folder: Path, expected: str) -> Conditions:
    """The tables of the condition with this hash; anything else is an InputError."""
    if not expected:
        return {}
    path = folder / CONDITION
    tables: Conditions = _loaded(files.read(path, "the condition", _MOST_BYTES), f"the condition {path}")
    if fingerprint(tables) != expected:
        raise InputError(f"the condition {path} is damaged: it is not the one that the manifest tells of")
    return tables


def _loaded(data: bytes, what: str) -> dict[str, Tensor]:
    need_safetensors()
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        tensors: dict[str, Tensor] = load(data)
    except (SafetensorError, ValueError, RuntimeError, KeyError) as error:
        raise InputError(f"{what} is not readable: {error}") from None
    return tensors


def _head(shard: Shard) -> dict[str, Any]:
    with files.opened(shard.path, "the shard") as (file, size):
        return _about(file, size, shard.path)


def _about(file: BinaryIO, size: int, path: Path) -> dict[str, Any]:
    """The report in the head of a shard, as plain values."""
    length = int.from_bytes(file.read(8), "little")
    if length > min(size, _MOST_HEADER):
        raise InputError(f"the shard {path} is damaged: its head is longer than it")
    head = validate.parsed(f"the head of the shard {path}", file.read(length))
    metadata = head.pop("__metadata__", None) if isinstance(head, dict) else None
    text = metadata.get("report") if isinstance(metadata, dict) else None
    about = validate.parsed(f"the report in {path}", text.encode(errors="replace")) if isinstance(text, str) else None
    if not isinstance(about, dict):
        raise InputError(f"the shard {path} has no report")
    ends = [entry.get("data_offsets") for entry in head.values() if isinstance(entry, dict)]
    last = max((end[1] for end in ends if isinstance(end, list) and len(end) == 2 and type(end[1]) is int), default=0)
    if 8 + length + last != size:
        raise InputError(f"the shard {path} is damaged: it has {size} bytes, and its head tells of {8 + length + last}")
    return about


def _check_job(about: dict[str, Any], config: Config, path: Path) -> None:
    """Shards of earlier versions tell their seed alone."""
    if about.get("seed") != config.seed:
        why = f"it was drawn with seed {short(about.get('seed'))}, not {config.seed}"
    elif about.get(_JOB, config.identity) != config.identity:
        why = "it was drawn with other settings than the manifest tells"
    else:
        return
    raise OtherJob(f"the shard {path} is of another job: {why}; put the manifest back, or remove the shard")
