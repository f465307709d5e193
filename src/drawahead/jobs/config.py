"""What a job draws, and how: everything that decides its samples, and the versions that drew them."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Iterable, Iterator
from dataclasses import field, fields, is_dataclass
from functools import cached_property
from typing import Any, final

import torch
from torch import Tensor

from drawahead import validate
from drawahead.chains.chain import Chain, Worked
from drawahead.errors import InputError
from drawahead.oracles.condition import fingerprint
from drawahead.samplers.record import SamplerRecord
from drawahead.validate import short
from drawahead.values import dataclass

MOST_SHARDS = 1_000_000
"""More would make a folder that few file systems bear."""
_MOST_DIGESTS = _MOST_TEXT = 100
_NOTHING = 1e-9  # below this, against the largest of its table, a number that is worked out is zero
_DTYPES = {
    str(d).removeprefix("torch."): d for d in (torch.int64, torch.float64, torch.float32, torch.float16, torch.bfloat16)
}


@final
@dataclass(frozen=True)
class Config:
    """The configuration of a job. It never changes once the job has begun."""

    name: str
    """What is drawn from, as the user calls it."""
    options: dict[str, Any]
    """What else the user says it depends on."""
    num: int
    """Samples asked for."""
    seed: int
    sampler: SamplerRecord
    shard_size: int
    device: str
    max_batch_size: int | None
    max_live: int
    graphs: bool | None
    steps: int
    """The most steps a sample takes."""
    shape: tuple[int, ...]
    """Of one sample."""
    dtype: str
    """Of the samples."""
    condition: str = ""
    """A hash of the condition; empty without one."""
    chain: dict[str, str] = field(default_factory=dict)
    """What else of the chain decides samples, such as its evidence, order or schedule; empty in jobs of earlier
    versions."""

    @property
    def shards(self) -> int:
        """How many shards the job has when it is complete."""
        return -(-self.num // self.shard_size)

    def part(self, index: int) -> tuple[int, int]:
        """The first sample of shard `index`, and how many it has."""
        first = index * self.shard_size
        return first, min(self.shard_size, self.num - first)

    @cached_property
    def identity(self) -> str:
        """A hash of all that decides samples, which each of its shards carries: jobs that agree in it draw the same."""
        deciding = self.to_dict() | {"sampler": self.sampler.text}  # how it was chosen decides nothing
        return hashlib.sha256(json.dumps(deciding, sort_keys=True).encode()).hexdigest()

    @property
    def torch_dtype(self) -> torch.dtype:
        return _DTYPES[self.dtype]

    def to_dict(self) -> dict[str, Any]:
        """As the manifest holds it."""
        plain = {each.name: getattr(self, each.name) for each in fields(self)}
        target = {name: plain.pop(name) for name in ("name", "options")}
        return {"target": target} | plain | {"sampler": self.sampler.to_dict(), "shape": list(self.shape)}

    @staticmethod
    def from_dict(found: dict[str, Any]) -> Config:
        """The configuration in a manifest, of which anything may be wrong."""
        target = validate.keys("target", found["target"], "name", "options")
        options, shape, graphs, most = target["options"], found["shape"], found["graphs"], found["max_batch_size"]
        if not isinstance(options, dict) or not isinstance(shape, list) or not (graphs is None or type(graphs) is bool):
            raise InputError("options must be an object, shape a list, and graphs true, false or null")
        if found["dtype"] not in list(_DTYPES):
            raise InputError(f"dtype must be one of {', '.join(_DTYPES)}, not {short(found['dtype'])}")
        num = validate.count("num", found["num"], 1)
        config = Config(
            name=validate.text("the name of the target", target["name"]),
            options=options,
            num=num,
            seed=validate.count("seed", found["seed"], 0, 2**64 - 1),
            sampler=SamplerRecord.from_dict(found["sampler"]),
            shard_size=validate.count("shard_size", found["shard_size"], 1, num),
            device=validate.text("device", found["device"], _MOST_TEXT),
            max_batch_size=None if most is None else validate.count("max_batch_size", most, 1),
            max_live=validate.count("max_live", found["max_live"], 1),
            graphs=graphs,
            steps=validate.count("steps", found["steps"]),
            shape=tuple(validate.count("shape", size, 0, 2**40) for size in shape[:9]),
            dtype=found["dtype"],
            condition=validate.text("condition", found["condition"], _MOST_TEXT),
            chain=texts("chain", found["chain"], _MOST_DIGESTS),
        )
        if config.shards > MOST_SHARDS or len(shape) > 8:
            raise InputError(f"a job has {MOST_SHARDS} shards at most, and samples have 8 axes at most")
        return config

    def differences(self, other: Config) -> list[str]:
        """In words, what another configuration has otherwise."""
        mine, theirs = (_flat(config, self.chain) for config in (self, other))
        return [
            f"{key} is {short(mine.get(key))} there, not {short(theirs.get(key))}"
            for key in {**mine, **theirs}
            if mine.get(key) != theirs.get(key)
        ]


def facts(chain: Chain) -> dict[str, Any]:
    """What a chain says about its samples: the fields of a configuration that nobody asks for."""
    room = chain.empty(1)
    return {
        "device": chain.device.type,
        "steps": chain.steps,
        "shape": tuple(room.shape[1:]),
        "dtype": str(room.dtype).removeprefix("torch."),
        "condition": fingerprint(getattr(chain, "condition", {})),
        "chain": digests(chain),
    }


def _flat(config: Config, chain: Iterable[str]) -> dict[str, Any]:
    """Everything one by one, and of the chain these things: those that a job has noted."""
    plain = {each.name: getattr(config, each.name) for each in fields(config)}
    del plain["options"], plain["chain"]
    options = {f"option {key}": value for key, value in config.options.items()}
    return plain | {"sampler": config.sampler.text} | options | {name: config.chain.get(name) for name in chain}


def texts(what: str, value: object, most: int) -> dict[str, str]:
    """An object of a manifest that holds short texts by name."""
    if not isinstance(value, dict) or len(value) > most:
        raise InputError(f"{what} must be an object of {most} texts at most, not {short(value)}")
    return {
        validate.text(what, name, _MOST_TEXT): validate.text(f"{what} {name}", text, _MOST_TEXT)
        for name, text in value.items()
    }


def versions() -> dict[str, str]:
    """What draws here."""
    from drawahead import __version__

    return {"drawahead": __version__, "torch": torch.__version__, "python": platform.python_version()}


def digests(chain: Chain) -> dict[str, str]:
    """Of each thing that decides samples: a plain value as it is, a hash of tables; empty where there is none."""
    return {name: _text(value) for name, value in chain.deciding().items()}


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, Worked):
        return _hashed(_rounded(part) for part in _tables(value.numbers))
    if isinstance(value, Tensor):
        return _hashed([value])
    text = str(value)
    return text if len(text) <= _MOST_TEXT else hashlib.sha256(text.encode()).hexdigest()[:16]


def _hashed(tables: Iterable[Tensor]) -> str:
    digest = hashlib.sha256()
    for table in tables:
        digest.update(f"{table.dtype} {tuple(table.shape)}".encode())
        digest.update(table.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:16]


def _tables(value: Any) -> Iterator[Tensor]:
    """All numbers in a plan, one table after another."""
    if isinstance(value, Tensor | float | int):
        yield torch.as_tensor(value)
    elif value is None:
        yield torch.empty(0)
    elif is_dataclass(value):
        for field in fields(value):
            yield from _tables(getattr(value, field.name))
    elif isinstance(value, tuple | list):
        for part in value:
            yield from _tables(part)


def _rounded(table: Tensor) -> Tensor:
    """In single precision, so that the last digit of another machine does not count."""
    wide = table.detach().cpu().double()
    floor = _NOTHING * float(wide.nan_to_num(0.0, 0.0, 0.0).abs().max()) if wide.numel() else 0.0
    return torch.where(wide.abs() > floor, wide, 0.0).float()
