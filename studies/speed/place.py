"""Where it is measured: a GPU; or a CPU with tiny stand-ins, which shows that everything runs and no more."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

import drawahead as da

SMALL = 12  # steps of the stand-ins
HALF = torch.float16


@dataclass(frozen=True)
class Place:
    """A device and the shipped networks on it, in float16 unless it is said."""

    device: str = "cuda"

    @property
    def real(self) -> bool:
        """Whether what is measured here counts."""
        return self.device.startswith("cuda")

    @property
    def half(self) -> torch.dtype:
        return HALF if self.real else torch.float32

    @property
    def seeds(self) -> range:
        """No window was tuned on these."""
        return range(100, 108 if self.real else 102)

    @property
    def options(self) -> dict[str, Any]:
        """For `da.sample`: a GPU captures rounds unasked, a CPU runs the same code if it is told to."""
        return {} if self.real else {"graphs": True}

    def fashion(self, dtype: torch.dtype | None = None, **options: Any) -> da.GaussianChain:
        steps = {} if self.real else {"steps": SMALL}
        return da.networks.fashion(device=self.device, dtype=dtype or self.half, **steps, **options)

    def text(self, dtype: torch.dtype | None = None) -> da.TokenOracle:
        length = {} if self.real else {"length": SMALL}
        return da.networks.text(device=self.device, dtype=dtype or self.half, temperature=0.8, **length)

    def make(self, kind: str, dtype: torch.dtype | None = None) -> Any:
        """The model of this name, fashion or text."""
        return {"fashion": self.fashion, "text": self.text}[kind](dtype)

    def synchronize(self) -> None:
        if self.real:
            torch.cuda.synchronize()

    def now(self) -> float:
        """Seconds, once the device has done all that it was given."""
        self.synchronize()
        return time.perf_counter()

    def forget(self) -> None:
        """Give back what torch keeps for the next call; what drawahead holds goes with its chains."""
        gc.collect()
        if self.real:
            torch.cuda.empty_cache()

    def name(self) -> str:
        return torch.cuda.get_device_name() if self.real else "CPU, with tiny stand-ins"


Part = Callable[[dict[str, Any], "Setting", Callable[[], None]], None]
"""Puts what it finds into the results, and may save them while it goes on."""


@dataclass(frozen=True)
class Setting:
    """How it is measured."""

    place: Place
    out: Path
    train_seconds: float = 45.0
    quick: bool = False
    """Fewer settings and samples."""
    limit: float = 540.0
    """Seconds for everything: what is less important is left out when they run short."""
    began: float = field(default_factory=time.perf_counter)

    @property
    def left(self) -> float:
        """Seconds that are left."""
        return self.limit - (time.perf_counter() - self.began)
