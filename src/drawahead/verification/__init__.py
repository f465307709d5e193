"""Is it safe to draw from this model in parallel? Checks of the model's answers, and of the samples they lead to."""

from drawahead.verification.findings import Finding, Verdict
from drawahead.verification.verify import verify

__all__ = ["Finding", "Verdict", "verify"]
