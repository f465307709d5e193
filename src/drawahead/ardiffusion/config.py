"""What a model is made of and how it is trained, as frozen values."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any, ClassVar, final

from drawahead.ardiffusion.parts import Parts
from drawahead.errors import InputError
from drawahead.validate import number, numbers, whole
from drawahead.values import dataclass


@dataclass(frozen=True)
class _Sizes:
    """Numbers of neurons and layers: all whole, all positive."""

    kind: ClassVar[str]

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            whole(name, value, 1)
        if getattr(self, "width", 0) % getattr(self, "heads", 1):
            raise InputError(f"width must be a multiple of heads, not {self}")


@final
@dataclass(frozen=True)
class TransformerEncoder(_Sizes):
    """A causal transformer: finished parts are its tokens, each with its position."""

    kind: ClassVar[str] = "transformer"
    width: int = 64
    layers: int = 2
    heads: int = 4


@final
@dataclass(frozen=True)
class MLPEncoder(_Sizes):
    """All finished parts side by side, the others blank, through dense layers. For few parts."""

    kind: ClassVar[str] = "mlp"
    width: int = 64
    layers: int = 2


@final
@dataclass(frozen=True)
class MLPDenoiser(_Sizes):
    """Dense blocks on the part as a vector, modulated by noise level, condition and position."""

    kind: ClassVar[str] = "mlp"
    width: int = 128
    blocks: int = 3


@final
@dataclass(frozen=True)
class TransformerDenoiser(_Sizes):
    """Cuts a part into `tokens` equal slices that attend to each other, modulated likewise."""

    kind: ClassVar[str] = "transformer"
    tokens: int = 4
    width: int = 64
    layers: int = 3
    heads: int = 4


EncoderConfig = TransformerEncoder | MLPEncoder
DenoiserConfig = MLPDenoiser | TransformerDenoiser


@final
@dataclass(frozen=True)
class ModelConfig:
    """A whole model. Without an encoder a part depends on its position and on no other part.

    `levels` are the logarithms of the signal-to-noise ratio, (signal / noise)^2, between which it is trained.
    """

    parts: Parts
    encoder: EncoderConfig | None = TransformerEncoder()
    denoiser: DenoiserConfig = MLPDenoiser()
    levels: tuple[float, float] = (-10.0, 10.0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "levels", numbers("levels", self.levels))
        if len(self.levels) != 2 or not self.levels[0] < self.levels[1]:
            raise InputError(f"levels must be two numbers, the lower one first, not {self.levels}")
        if isinstance(self.denoiser, TransformerDenoiser) and self.parts.size % self.denoiser.tokens:
            raise InputError(f"{self.denoiser.tokens} tokens do not divide a part of {self.parts.size} entries")

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for json.dumps."""
        encoder = None if self.encoder is None else {"kind": self.encoder.kind, **asdict(self.encoder)}
        return {
            "parts": {"shape": list(self.parts.shape), "grid": list(self.parts.grid)},
            "encoder": encoder,
            "denoiser": {"kind": self.denoiser.kind, **asdict(self.denoiser)},
            "levels": list(self.levels),
        }

    @staticmethod
    def from_dict(plain: dict[str, Any]) -> ModelConfig:
        """The configuration that `to_dict` wrote."""
        encoders: dict[str, type[EncoderConfig]] = {c.kind: c for c in (TransformerEncoder, MLPEncoder)}
        denoisers: dict[str, type[DenoiserConfig]] = {c.kind: c for c in (TransformerDenoiser, MLPDenoiser)}
        try:
            parts = Parts(tuple(plain["parts"]["shape"]), tuple(plain["parts"]["grid"]))
            encoder = None if plain["encoder"] is None else _sizes(encoders, plain["encoder"])
            low, high = plain["levels"]
            return ModelConfig(parts, encoder, _sizes(denoisers, plain["denoiser"]), (low, high))
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"this is not a configuration of ardiffusion: {error!r}") from None


def _sizes(kinds: dict[str, Any], plain: dict[str, Any]) -> Any:
    return kinds[plain["kind"]](**{name: value for name, value in plain.items() if name != "kind"})


@final
@dataclass(frozen=True)
class Training:
    """How a model is trained: AdamW, a rate that rises over `warmup` steps and then falls along a cosine to 0.

    `average` is the decay of the moving average of the weights, which is the trained model. `losses` are means over
    `block` steps; a checkpoint is written about every `save_every` steps, and at the end.
    """

    steps: int = 2000
    batch: int = 256
    rate: float = 2e-3
    warmup: int = 100
    average: float = 0.995
    decay: float = 0.01
    clip: float = 1.0
    block: int = 50
    save_every: int = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("steps", "batch", "block", "save_every"):
            whole(name, getattr(self, name), 1)
        whole("warmup", self.warmup, 0)
        object.__setattr__(self, "seed", whole("seed", self.seed))
        for name in ("rate", "average", "decay", "clip"):
            number(name, getattr(self, name))
        if not (self.rate > 0 and self.clip > 0 and self.decay >= 0 and 0 <= self.average < 1):
            raise InputError(f"rate and clip must be positive, decay not negative, average in [0, 1), not {self}")

    def rate_at(self, step: int) -> float:
        """The learning rate of a step."""
        rise = min(1.0, (step + 1) / max(1, self.warmup))
        return self.rate * rise * 0.5 * (1 + math.cos(math.pi * step / self.steps))
