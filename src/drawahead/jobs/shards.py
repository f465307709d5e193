"""A shard as a file, safetensors: the samples, their numbers, and the report as metadata; and so the condition."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Sequence
from dataclasses import field, replace
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
    """A shard that is whole, but was drawn for another job than the manifest's."""


@final
@dataclass(frozen=True)
class Shard:
    """A finished shard."""

    path: Path
    first: int
    """The number of its first sample."""
    count: int
    config: Config = field(repr=False, compare=False)
    """Of its job."""
    record: str = ""
    """The sha256 of a file that carries none: earlier versions wrote it into the manifest."""

    @property
    def index(self) -> int:
        return self.first // self.config.shard_size

    @property
    def file(self) -> str:
        return self.path.name

    @property
    def sha256(self) -> str:
        """As its file tells it, or the manifest."""
        return str(self._head().get(SEAL, self.record))

    def samples(self) -> Tensor:
        """Its samples (count, ...), after comparing its sha256 and its job."""
        data = files.read(self.path, "the shard", _MOST_BYTES)
        about = _about(io.BytesIO(data), len(data), self.path)
        sealed = files.is_sealed(data, about[SEAL]) if SEAL in about else files.sha256(data) == self.record
        if not sealed:
            raise InputError(f"the shard {self.path} is damaged: its sha256 does not match")
        _check_job(about, self.config, self.path)
        tensors = _loaded(data, f"the shard {self.path}")
        own, numbers = tensors.get("samples"), tensors.get("numbers")
        if own is None or own.shape != (self.count, *self.config.shape) or own.dtype != self.config.torch_dtype:
            raise InputError(f"the shard {self.path} does not hold {self.count} samples of the job's shape and dtype")
        if numbers is None or not torch.equal(numbers, torch.arange(self.first, self.first + self.count)):
            last = self.first + self.count - 1
            raise InputError(f"the shard {self.path} does not hold samples {self.first} ... {last}")
        return own

    def sound(self) -> bool:
        """Whether it is what it should be. One that is sound, but of another job, is an InputError: it is not ours to
        draw again."""
        try:
            self.samples()
        except OtherJob:
            raise
        except InputError:
            return False
        return True

    def report(self) -> Report:
        """Its report, which is in the head of its file, without times."""
        return Report.from_dict({key: value for key, value in self._head().items() if key not in (SEAL, _JOB)})

    def _head(self) -> dict[str, Any]:
        with files.opened(self.path, "the shard") as (file, size):
            return _about(file, size, self.path)


def file_name(index: int) -> str:
    return f"{index:06d}.safetensors"


def listed(folder: Path, config: Config, records: dict[str, str]) -> tuple[Shard, ...]:
    """The shards that are in a folder, in the order of their samples."""
    home = folder / SHARDS
    if not home.is_symlink() and not home.exists():
        return ()
    if not files.is_folder(home):
        raise InputError(f"{home} is not a folder")
    numbers = sorted(int(name[1]) for path in home.iterdir() if (name := _NAME.fullmatch(path.name)))
    names = {index: file_name(index) for index in numbers if index < config.shards}
    return tuple(
        Shard(home / name, *config.part(index), config, records.get(name, "")) for index, name in names.items()
    )


def encoded(result: Result, config: Config) -> bytes:
    """The bytes of a shard's file. No times are among them: drawn again, it is the same file."""
    from safetensors.torch import save

    tensors = {"samples": result.samples.contiguous(), "numbers": result.numbers.contiguous()}
    timeless = replace(result.report, seconds=0.0, oracle_seconds=0.0)
    # One text, for safetensors does not say in which order it writes several.
    about = {SEAL: files.BLANK, _JOB: config.identity, **timeless.to_dict()}
    return files.seal(save(tensors, metadata={"report": json.dumps(about)}))


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
        raise InputError(f"the condition {path} is damaged: it does not match the manifest")
    return tables


def merged(reports: Sequence[Report], config: Config) -> Report:
    """The report of runs one after another, on consecutive samples, as far as they tell; of none, with zeros."""
    written = config.sampler
    exact = written.sampler is not None and written.sampler.guarantee.exact
    summed = ("num_samples", "rounds", "passes", "drafted", "accepted", "candidates")
    lists = ("widths", "committed", "drafts", "kept")
    taken = torch.tensor([rounds for report in reports for rounds in report.sample_rounds], dtype=torch.int64)
    return Report(
        sampler=written.text,
        choice=written.choice,
        exact=all(report.exact for report in reports) if reports else exact,
        seed=config.seed,
        steps=config.steps,
        probes=written.probes,
        seconds=0.0,
        oracle_seconds=0.0,
        history=History(
            **{name: [entry for report in reports for entry in getattr(report, name)] for name in lists},
            finished=[(torch.arange(len(taken)), taken)],
            progress={n: steps for report in reports for n, steps in report.progress.items() if n < TRACED},
        ),
        **{name: sum(getattr(report, name) for report in reports) for name in summed},
    )


def _loaded(data: bytes, what: str) -> dict[str, Tensor]:
    need_safetensors()
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        tensors: dict[str, Tensor] = load(data)
    except (SafetensorError, ValueError, RuntimeError, KeyError) as error:
        raise InputError(f"{what} is not readable: {error}") from None
    return tensors


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
        raise InputError(f"the shard {path} is damaged: it has {size} bytes instead of {8 + length + last}")
    return about


def _check_job(about: dict[str, Any], config: Config, path: Path) -> None:
    """Shards of earlier versions tell their seed alone."""
    if about.get("seed") != config.seed:
        why = f"it was drawn with seed {short(about.get('seed'))}, not {config.seed}"
    elif about.get(_JOB, config.identity) != config.identity:
        why = "its settings are not those of the manifest"
    else:
        return
    raise OtherJob(f"the shard {path} is of another job: {why}; restore the manifest, or remove the shard")
