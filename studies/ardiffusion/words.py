"""What may be said of two measured numbers."""

from __future__ import annotations

import math

from studies.estimates import Estimate

_RATIO, _ERRORS = 1.2, 2.0  # a difference is called one from this ratio on, and beyond so many standard errors


def compared(ours: Estimate, other: Estimate) -> str:
    """In words, where smaller is better: parts one by one against jointly."""
    apart = abs(ours.value - other.value) > _ERRORS * math.hypot(ours.error, other.error)
    ratio = other.value / ours.value
    if not apart or 1 / _RATIO < ratio < _RATIO:
        return "no difference worth a choice"
    return f"parts are {ratio:.1f} times closer" if ratio > 1 else f"the joint model is {1 / ratio:.1f} times closer"
