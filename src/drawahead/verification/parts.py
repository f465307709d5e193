"""The parts of a verification, one after another."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

from torch import Tensor

from drawahead.chains.base import Chain
from drawahead.chains.gaussian import GaussianChain
from drawahead.chains.stacked import StackedChain
from drawahead.chains.tokens import TokenChain
from drawahead.report import Report
from drawahead.sample import Result, sample
from drawahead.samplers.base import Sampler
from drawahead.samplers.coupled import Coupled
from drawahead.samplers.sequential import Sequential
from drawahead.verification.answers import answers, doors, drawn_ones
from drawahead.verification.findings import SAME_SAMPLES, SAMPLES, STEPS, Finding, Power
from drawahead.verification.power import power_of_samples, power_of_steps
from drawahead.verification.rounding import Difference, Rounding
from drawahead.verification.same import Bound
from drawahead.verification.statistics import same_law
from drawahead.verification.token_steps import token_steps
from drawahead.verification.vector_steps import Recording, vector_steps
from drawahead.verification.white import Off

ASKED = 8  # samples about which questions are asked again
Watch = Callable[[str], Callable[[Report], None] | None]


@final
class Parts:
    """What each part found, would have found, and did not look at."""

    def __init__(
        self, chain: Chain, num_samples: int, seed: int, max_batch_size: int | None, watch: Watch | None
    ) -> None:
        self.chain, self.num_samples, self.seed = chain, num_samples, seed
        self.max_batch_size, self.watch = max_batch_size, watch
        self.findings: list[Finding] = []
        self.power: Power = {}
        self.untested: list[str] = []
        self.shown, self.sound = Rounding(), True
        self.recording: Recording | None = None
        if isinstance(chain, GaussianChain | StackedChain):
            self.recording = Recording.of(chain, num_samples)
            if self.recording is None:
                self.untested.append("the steps: the states of one sample would take too much memory")
        elif not isinstance(chain, TokenChain):
            self.untested.append(f"the steps: it is not known what they are in a {type(chain).__name__}")

    @property
    def _has_steps(self) -> bool:
        """Whether steps can be tested."""
        return isinstance(self.chain, TokenChain) or self.recording is not None

    def _draws_the_same(self, sampler: Sampler) -> bool:
        """Whether this sampler must draw what Sequential draws."""
        return isinstance(self.chain, TokenChain) and type(sampler) is Coupled

    def tests(self, sampler: Sampler) -> int:
        """How many tests there are of this sampler, whose p-values share the level."""
        return 1 + self._has_steps + self._draws_the_same(sampler)

    def draw(self, sampler: Sampler, seed: int, part: str, recording: Recording | None = None) -> Result:
        return sample(
            self.chain if recording is None else recording.chain,
            self.num_samples if recording is None else recording.num_samples,
            sampler=sampler,
            seed=seed,
            max_batch_size=self.max_batch_size,
            on_round=None if self.watch is None else self.watch(part),
        )

    def test_model(self) -> None:
        chain, number = drawn_ones(self.chain, self.num_samples, ASKED)
        if not number:
            self.untested.append("the model: it is asked nothing, for nothing is hidden in any sample")
            return
        self.findings, self.shown = answers(chain, self.seed, number, self.max_batch_size)
        if not self.findings[0].passed:
            self.untested.append("what else answers depend on: the same question does not get the same answer")
        elif isinstance(chain, TokenChain):
            self.findings += doors(chain, self.seed, number, self.shown, self.max_batch_size)
        self.sound = all(finding.passed for finding in self.findings)
        self.power = {finding.check: {"a difference": finding.allowed} for finding in self.findings}

    @property
    def off(self) -> Difference:
        """How far answers may be apart from run to run. Of a model that does not answer alike it is not known."""
        return self.shown.all if self.sound else Difference()

    def test_steps(self, sampler: Sampler, samples: Tensor, level: float, *, with_power: bool) -> None:
        if isinstance(self.chain, TokenChain):
            steps = token_steps(self.chain, samples, self.seed, Off.of_tokens(self.off.law), self.max_batch_size)
        elif self.recording is None:
            return
        else:
            paths = self.draw(sampler, self.seed, f"{sampler!r}, recorded", self.recording).samples
            off = Off.of_vectors(self.off.law, self.off.shift)
            steps = vector_steps(self.recording, paths, self.seed, off, self.max_batch_size)
        self.untested += steps.untested
        if steps.missed is not None:
            self.findings.append(_fixed(f"fixed steps of {sampler!r}", steps.missed, self.shown.allowed))
            self.power["fixed steps"] = {"a difference": self.shown.allowed}
        if not steps.count:
            self.untested.append("the steps: none of them is random")
            return
        self.findings.append(_agreement(f"steps of {sampler!r}", steps.p_value, level, "the model's distributions"))
        if with_power:
            self.power[STEPS] = power_of_steps(steps, level, tokens=isinstance(self.chain, TokenChain))

    def test_samples(self, sampler: Sampler, samples: Tensor, reference: Tensor, level: float) -> None:
        p = same_law(samples, reference)
        self.findings.append(_agreement(f"samples of {sampler!r}", p, level, "sequential samples"))

    def measure_samples(self, reference: Tensor, level: float) -> None:
        self.power[SAMPLES] = power_of_samples(reference, level)

    def test_same_samples(self, sampler: Sampler, samples: Tensor, level: float) -> None:
        if not self._draws_the_same(sampler):
            return
        again = self.draw(Sequential(), self.seed, "sequential again").samples
        bound = Bound(self.chain.steps, max(self.off.law, self.shown.precision.unit), level)
        check = f"{sampler!r} draws what Sequential draws"
        self.findings.append(bound.finding(check, samples, again, sound=self.sound))
        self.power[SAME_SAMPLES] = {"wrong samples": bound.least_found(self.num_samples)}


def _agreement(check: str, p: float, level: float, other: str) -> Finding:
    verdict = f"they agree with {other}" if p >= level else f"below {level:.2g}: they do not agree with {other}"
    return Finding(check, p >= level, f"p = {p:.2g}, {verdict}", p_value=p)


def _fixed(check: str, missed: float, allowed: float) -> Finding:
    if missed <= allowed:
        words = "what is not random is what it should be"
    else:
        words = (
            f"states miss what is not random in them by {missed:.2g} of the step, and rounding explains {allowed:.1g}"
        )
    return Finding(check, missed <= allowed, words, difference=missed, allowed=allowed)
