"""What a verification found, in numbers and in words."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, final


@final
@dataclass(frozen=True)
class Finding:
    """One check."""

    check: str
    passed: bool
    words: str
    """What was found, and on failure what to do."""
    p_value: float | None = None
    difference: float | None = None
    """The largest difference between answers that should be the same."""

    def __str__(self) -> str:
        return f"  {'ok  ' if self.passed else 'FAIL'}  {self.check}: {self.words}"


@final
@dataclass(frozen=True)
class Verdict:
    """All checks of one verification."""

    findings: tuple[Finding, ...]
    num_samples: int
    level: float
    """The probability that the tests of samples, all together, fail where nothing is wrong."""
    power: dict[str, float | None]
    """For each way of going wrong: the least share that the test of samples finds nine times in ten; None if it finds
    none of those tried."""

    @property
    def passed(self) -> bool:
        return all(finding.passed for finding in self.findings)

    @property
    def words(self) -> str:
        """The verdict in one sentence."""
        failed = [finding.check for finding in self.findings if not finding.passed]
        if failed:
            return f"FAILED: {'; '.join(failed)}. Samples drawn in parallel may not have the sequential law."
        return "PASSED: no difference was found between samples drawn in parallel and one step at a time."

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for json.dumps."""
        return {**asdict(self), "passed": self.passed, "words": self.words}

    def __str__(self) -> str:
        blind = "not even in half of them: it is blind to that here"
        seen = [f"{way} ({f'in {share:.1%} of them' if share else blind})" for way, share in self.power.items()]
        power = f"  power: with {self.num_samples} samples a side the test of samples finds, nine times in ten: "
        power += "; ".join(seen)
        lines = [*map(str, self.findings), *([power] if seen else []), self.words]
        return "\n".join(lines)
