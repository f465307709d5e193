"""The result of a verification: its findings, its power, and what it did not test, in numbers and in words."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, final

from drawahead.values import dataclass

STEPS, SAMPLES, SAME_SAMPLES = "steps", "samples", "the same samples"
"""The parts of a verification that are tests of samples."""
SAME = 1e-9
"""Answers that differ by less than this are called the same."""
Power = dict[str, dict[str, float | None]]


@final
@dataclass(frozen=True)
class Finding:
    """One check."""

    check: str
    passed: bool
    words: str
    """The result, and on failure what to do."""
    p_value: float | None = None
    difference: float | None = None
    """The largest difference between answers, or states, that should be the same."""
    allowed: float | None = None
    """How much of it the model's own rounding explains."""

    def __str__(self) -> str:
        return f"  {'ok  ' if self.passed else 'FAIL'}  {self.check}: {self.words}"


@final
@dataclass(frozen=True)
class Verdict:
    """All checks of one verification."""

    findings: tuple[Finding, ...]
    num_samples: int
    level: float
    """The probability that the tests of steps and samples, all together, fail where nothing is wrong."""
    power: Power
    """For each part of the verification and each way of going wrong, the least that it finds nine times in ten: a share
    of the steps or samples, or a difference between answers. None: not even if half of them are wrong. Empty if it
    was not measured."""
    untested: tuple[str, ...] = ()
    """What was not tested, and why."""

    @property
    def passed(self) -> bool:
        return all(finding.passed for finding in self.findings)

    @property
    def blind(self) -> tuple[str, ...]:
        """What the tests could not have detected."""
        return tuple(
            self._blind(part, way) for part, ways in self.power.items() for way, least in ways.items() if least is None
        )

    def _blind(self, part: str, way: str) -> str:
        if part == SAME_SAMPLES:
            return "the model rounds too much for a comparison with Sequential, sample by sample, to show anything"
        rounds = any((finding.difference or 0.0) > SAME for finding in self.findings)
        too_few = "are too few, or the model rounds too much," if rounds and part == STEPS else "are too few"
        return f"{self.num_samples} samples {too_few} for the test of {part} to detect {way}"

    def _found(self, part: str, ways: dict[str, float | None]) -> str:
        shares = part in (STEPS, SAMPLES, SAME_SAMPLES)
        return "; ".join(
            self._blind(part, way)
            if least is None
            else f"{way} ({f'in {least:.1%} of them' if shares else f'of {least:.1g}'})"
            for way, least in ways.items()
        )

    @property
    def words(self) -> str:
        """The verdict in one line."""
        failed = [finding.check for finding in self.findings if not finding.passed]
        if failed:
            return f"FAILED: {'; '.join(failed)}. Samples drawn in parallel may not have the sequential distribution."
        limits = [*self.blind, *(f"not tested: {what}" for what in self.untested)]
        if not self.power:
            limits.append("what the tests would have found was not measured")
        passed = "no difference was found between samples drawn in parallel and one step at a time"
        return f"PASSED, within limits: {passed}; but {'; '.join(limits)}." if limits else f"PASSED: {passed}."

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for json.dumps."""
        return {**asdict(self), "passed": self.passed, "blind": list(self.blind), "words": self.words}

    def __str__(self) -> str:
        lines = list(map(str, self.findings))
        lines += [f"  not tested: {what}" for what in self.untested]
        if self.power:
            lines.append(f"  power, with {self.num_samples} samples a side (what is found nine times in ten):")
            lines += [f"    {part}: {self._found(part, ways)}" for part, ways in self.power.items()]
        else:
            lines.append("  power: not measured (with_power=True does)")
        return "\n".join([*lines, self.words])
