"""Is it safe to draw from this model in parallel? Checks of the model's answers, and of the samples they lead to."""

from typing import TYPE_CHECKING

from drawahead.doors import doors

if TYPE_CHECKING:  # what type checkers see, and `doors` reads
    from drawahead.verification.findings import Finding, Verdict
    from drawahead.verification.verify import verify

__all__ = ["Finding", "Verdict", "verify"]

doors(__name__)
