"""The options of a design job: plain values, stored in its folder; a resumed job must have the same."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, final

from drawahead.errors import InputError
from drawahead.validate import number, numbers, short, whole
from drawahead.values import dataclass

_DTYPES = ("float16", "bfloat16", "float32", "float64")


@final
@dataclass(frozen=True)
class Options:
    """The options of a job, the same for every structure. Residues are written as for `Backbone.select`; where a file
    is named, it is JSONL in the format of ProteinMPNN's own tools."""

    model: str = "v_48_020"
    """A weight file, or the name of one in the folder `weights`."""
    weights: str = ""
    soluble: bool = False
    ca_only: bool = False
    num: int = 8
    """Sequences for each structure at each temperature."""
    temperature: tuple[float, ...] = (0.1,)
    seed: int = 0
    chains: str = ""
    """Chains to be designed, "A,B", or a file; all others stay as they are."""
    fixed_chains: str = ""
    """Chains that stay as they are; with `chains`, all that are in neither are left out of the structure."""
    fixed: str = ""
    """Residues that keep their amino acid, or a file."""
    redesign: str = ""
    """The only residues to be designed."""
    tied: str = ""
    """Groups that share their amino acids, "A1=B1,A5-9=B5-9", or a file."""
    symmetry: str = ""
    """Chains that are tied residue by residue, "A,B,C"."""
    symmetry_weights: tuple[float, ...] = ()
    omit: str = "X"
    """Letters that are never drawn."""
    omit_at: str = ""
    """The same at residues, "A10=C,A12-15=PG", or a file."""
    bias: str = ""
    """Added to logits, "W=-1,Y=-1", or a file."""
    bias_file: str = ""
    """Biases for every residue and letter, a file."""
    pssm: str = ""
    """Profiles, a file."""
    pssm_share: float = 0.0
    pssm_threshold: float = 0.0
    pssm_log_odds: bool = False
    membrane: str = ""
    """Where residues lie, for membrane models: "1", or "A10-25=2,A26=1"."""
    backbone_noise: float = 0.0
    dtype: str = "float32"

    def __post_init__(self) -> None:
        checked: dict[str, Any] = {"num": whole("num", self.num, 1), "seed": whole("seed", self.seed, 0, 2**63 - 1)}
        checked |= {name: numbers(name, getattr(self, name)) for name in ("temperature", "symmetry_weights")}
        checked |= {name: number(name, getattr(self, name), least=0) for name in ("pssm_share", "backbone_noise")}
        checked["pssm_threshold"] = number("pssm_threshold", self.pssm_threshold)
        if self.dtype not in _DTYPES:
            raise InputError(f"dtype must be one of {', '.join(_DTYPES)}, not {short(self.dtype)}")
        if not self.temperature or min(self.temperature) <= 0 or len(set(self.temperature)) < len(self.temperature):
            raise InputError(f"temperature must be different positive numbers, not {short(self.temperature)}")
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for json.dumps."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in vars(self).items()}

    @staticmethod
    def of(values: Mapping[str, Any]) -> Options:
        """From values of `to_dict`, or some of them."""
        kinds = {field.name: type(field.default) for field in dataclasses.fields(Options)}
        checked: dict[str, Any] = {}
        for name, value in values.items():
            if name not in kinds:
                raise InputError(f"there is no option {name}: the options are {', '.join(kinds)}")
            kind = kinds[name]
            value = tuple(value) if isinstance(value, list) else value
            value = float(value) if kind is float and type(value) is int else value
            if not isinstance(value, kind):
                raise InputError(f"the option {name} must be of type {kind.__name__}, not {short(value)}")
            checked[name] = value
        return Options(**checked)


def pairs(name: str, text: str) -> list[tuple[str, str]]:
    """The left and right sides of assignments such as A10=C,A12-15=PG."""
    sides = [part.partition("=") for part in names(text)]
    if not all(left and right for left, _, right in sides):
        raise InputError(f"{name} must be assignments such as A=1,B=2, not {short(text)}")
    return [(left.strip(), right.strip()) for left, _, right in sides]


def names(text: str) -> list[str]:
    """The names in a list such as A,B."""
    return [part.strip() for part in text.split(",") if part.strip()]
