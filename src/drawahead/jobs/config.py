"""What a job draws, and how: everything that decides its samples, and the versions that drew them."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from typing import Any, final

import torch

from drawahead import validate
from drawahead.chains.base import Chain
from drawahead.errors import InputError
from drawahead.models.condition import fingerprint
from drawahead.samplers.record import SamplerRecord
from drawahead.validate import short

MOST_SHARDS = 1_000_000
"""More would make a folder that few file systems bear."""
_DTYPES = {
    str(d).removeprefix("torch."): d for d in (torch.int64, torch.float64, torch.float32, torch.float16, torch.bfloat16)
}


@final
@dataclass(frozen=True)
class Facts:
    """What a chain says about its samples."""

    device: str
    steps: int
    """The most steps a sample takes."""
    shape: tuple[int, ...]
    """Of one sample."""
    dtype: str
    condition: str
    """A hash of the condition; empty without one."""

    @staticmethod
    def of(chain: Chain) -> Facts:
        room = chain.empty(1)
        dtype = str(room.dtype).removeprefix("torch.")
        condition = fingerprint(getattr(chain, "condition", {}))
        return Facts(chain.device.type, chain.steps, tuple(room.shape[1:]), dtype, condition)


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

    @property
    def shards(self) -> int:
        """How many shards the job has when it is complete."""
        return -(-self.num // self.shard_size)

    def part(self, index: int) -> tuple[int, int]:
        """The first sample of shard `index`, and how many it has."""
        first = index * self.shard_size
        return first, min(self.shard_size, self.num - first)

    @property
    def torch_dtype(self) -> torch.dtype:
        return _DTYPES[self.dtype]

    def to_dict(self) -> dict[str, Any]:
        """As the manifest holds it."""
        plain = {key: value for key, value in vars(self).items() if key not in ("name", "options")}
        target = {"name": self.name, "options": self.options}
        return {"target": target} | plain | {"sampler": self.sampler.to_dict(), "shape": list(self.shape)}

    @staticmethod
    def from_dict(found: dict[str, Any]) -> Config:
        """The configuration in a manifest, of which anything may be wrong."""
        target = validate.keys("target", found["target"], "name", "options")
        options, shape, graphs = target["options"], found["shape"], found["graphs"]
        if not isinstance(options, dict) or not isinstance(shape, list) or not (graphs is None or type(graphs) is bool):
            raise InputError("options must be an object, shape a list, and graphs true, false or null")
        if found["dtype"] not in list(_DTYPES):
            raise InputError(f"dtype must be one of {', '.join(_DTYPES)}, not {short(found['dtype'])}")
        most = found["max_batch_size"]
        num = validate.count("num", found["num"], 1)
        config = Config(
            name=validate.text("the name of the target", target["name"]),
            options=options,
            num=num,
            seed=validate.count("seed", found["seed"], 0, 2**64 - 1),
            sampler=SamplerRecord.from_dict(found["sampler"]),
            shard_size=validate.count("shard_size", found["shard_size"], 1, num),
            device=validate.text("device", found["device"], 100),
            max_batch_size=None if most is None else validate.count("max_batch_size", most, 1),
            max_live=validate.count("max_live", found["max_live"], 1),
            graphs=graphs,
            steps=validate.count("steps", found["steps"]),
            shape=tuple(validate.count("shape", size, 0, 2**40) for size in shape[:9]),
            dtype=found["dtype"],
            condition=validate.text("condition", found.get("condition", ""), 100),
        )
        if config.shards > MOST_SHARDS or len(shape) > 8:
            raise InputError(f"a job has {MOST_SHARDS} shards at most, and samples have 8 axes at most")
        return config

    def differences(self, other: Config) -> list[str]:
        """In words, what another configuration has otherwise."""
        mine, theirs = ({**vars(c), **{f"option {k}": v for k, v in c.options.items()}} for c in (self, other))
        for side in (mine, theirs):
            del side["options"]
            side["sampler"] = side["sampler"].text
        return [
            f"{key} is {short(mine.get(key))} there, not {short(theirs.get(key))}"
            for key in {**mine, **theirs}
            if mine.get(key) != theirs.get(key)
        ]


def versions() -> dict[str, str]:
    """What draws here."""
    from drawahead import __version__

    return {"drawahead": __version__, "torch": torch.__version__, "python": platform.python_version()}
