"""With what a benchmark was made: every file of data says so."""

from __future__ import annotations

import platform

import numpy
import torch

import drawahead


def versions() -> dict[str, str]:
    return {
        "drawahead": drawahead.__version__,
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "python": platform.python_version(),
    }
