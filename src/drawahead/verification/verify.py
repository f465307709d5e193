"""The verb: test a model before you trust samples of it that were drawn in parallel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any, final

from torch import Tensor

from drawahead import validate
from drawahead.chains.base import Chain
from drawahead.chains.gaussian import GaussianChain
from drawahead.chains.stacked import StackedChain
from drawahead.chains.tokens import TokenChain
from drawahead.errors import InputError
from drawahead.oracles.denoisers import DenoisingTarget
from drawahead.oracles.tokens import TokenOracle
from drawahead.report import Report
from drawahead.runner import Runner, as_chain
from drawahead.samplers.base import Sampler
from drawahead.samplers.coupled import Coupled
from drawahead.samplers.record import as_sampler
from drawahead.samplers.sequential import Sequential
from drawahead.validate import whole
from drawahead.verification.answers import answers, doors_agree, drawn_ones
from drawahead.verification.findings import SAME_SAMPLES, SAMPLES, STEPS, Finding, Power, Verdict
from drawahead.verification.power import power_of_samples, power_of_steps
from drawahead.verification.rounding import Gap, Rounding
from drawahead.verification.same import Bound
from drawahead.verification.statistics import same_law
from drawahead.verification.steps import token_steps
from drawahead.verification.vector_steps import RecordedChain, vector_steps
from drawahead.verification.white import Off

LEVEL = 1e-3
FEWEST = 50
"""Samples: the tests of fewer find nothing, even if half of the samples are wrong."""
ASKED = 8  # samples whose queries are repeated
Watch = Callable[[str], Callable[[Report], None] | None]


def verify(
    target: Chain | TokenOracle | DenoisingTarget | Callable[..., Any],
    num_samples: int = 1000,
    *,
    samplers: Sampler | str | Sequence[Sampler | str] | None = None,
    level: float = LEVEL,
    seed: int = 0,
    with_power: bool = True,
    max_batch_size: int | None = None,
    watch: Watch | None = None,
) -> Verdict:
    """Test whether samples of `target` drawn in parallel have the distribution of those drawn one step at a time.

    First the model: the same query, repeated, alone and in a batch, must get the same answer, up to the rounding seen
    on batches of copies of one query; all methods of a token oracle must agree, and no answer may depend on later
    steps. Then, for each sampler, *every step* of the samples is tested against the model's own distribution of it (see
    `steps`), and the *samples* against as many sequential ones of another seed, by chi-square tests for tokens and
    Kolmogorov-Smirnov tests for vectors (`verification.statistics`). On tokens `Coupled` must also draw the same
    samples as `Sequential` with the same seed, except for as many as rounding explains. By default the samplers are
    `Coupled()` and `Block()`; for left-to-right models only `Coupled()`.

    Where nothing is wrong, the probability that any test of steps or samples fails is at most `level`. The power of
    each part is measured, not assumed: see `Verdict.power`. That takes a while; `with_power=False` skips it, and the
    verdict says so. `Verdict.untested` lists what was not tested. `watch` is called with the name of each part, and
    returns an `on_round` callback for it.
    """
    chain = as_chain(target)
    if whole("num_samples", num_samples) < FEWEST:
        raise InputError(
            f"num_samples must be at least {FEWEST}, not {num_samples}: with fewer samples the tests could not tell a "
            "wrong distribution from a right one"
        )
    if not 0 < validate.number("level", level) < 1:
        raise InputError(f"level must be between 0 and 1, not {level}")
    usual = ("coupled", "block") if chain.foresees else ("coupled",)
    tested = _samplers(usual if samplers is None else samplers)
    whole("seed", seed)
    chain.check(num_samples)

    with ExitStack() as runners:
        parts = _Parts(runners, chain, num_samples, seed, max_batch_size, watch)
        level_of_each = level / sum(map(parts.tests, tested))
        parts.test_model()
        reference = parts.draw(Sequential(), seed + 1, "sequential")
        for sampler in tested:
            samples = parts.draw(sampler, seed, repr(sampler))
            parts.test_steps(sampler, samples, level_of_each, with_power=with_power and sampler is tested[0])
            parts.test_samples(sampler, samples, reference, level_of_each)
            parts.test_same_samples(sampler, samples, level_of_each)
    if with_power:
        parts.power[SAMPLES] = power_of_samples(reference, level_of_each)
    power = parts.power if with_power else {}
    return Verdict(tuple(parts.findings), num_samples, level, power, tuple(dict.fromkeys(parts.untested)))


def _samplers(samplers: Sampler | str | Sequence[Sampler | str]) -> list[Sampler]:
    named = [as_sampler(each) for each in ([samplers] if isinstance(samplers, Sampler | str) else samplers)]
    tested = [sampler for sampler in named if sampler is not None]
    if not tested or len(tested) < len(named):
        raise InputError("samplers must be one or more samplers such as Coupled()")
    return tested


@final
class _Parts:
    """The parts of a verification, one after another: their findings, their power, and what they did not test."""

    def __init__(
        self,
        runners: ExitStack,
        chain: Chain,
        num_samples: int,
        seed: int,
        max_batch_size: int | None,
        watch: Watch | None,
    ) -> None:
        self.chain, self.num_samples, self.seed, self.watch = chain, num_samples, seed, watch
        self.max_batch_size = max_batch_size
        self.runner = runners.enter_context(Runner(chain))
        self.findings: list[Finding] = []
        self.power: Power = {}
        self.untested: list[str] = []
        self.shown, self.sound = Rounding(), True
        self.recording: RecordedChain | None = None
        if isinstance(chain, GaussianChain | StackedChain):
            self.recording = RecordedChain.of(chain, num_samples)
            if self.recording is None:
                self.untested.append("the steps: the states of one sample would take too much memory")
            else:
                self.recorder = runners.enter_context(Runner(self.recording.chain))
        elif not isinstance(chain, TokenChain):
            self.untested.append(f"the steps: it is not known what they are in a {type(chain).__name__}")

    def _draws_the_same(self, sampler: Sampler) -> bool:
        """Whether this sampler must draw what Sequential draws."""
        return isinstance(self.chain, TokenChain) and type(sampler) is Coupled

    def tests(self, sampler: Sampler) -> int:
        """How many tests there are of this sampler, whose p-values share the level."""
        has_steps = isinstance(self.chain, TokenChain) or self.recording is not None
        return 1 + has_steps + self._draws_the_same(sampler)

    def draw(self, sampler: Sampler, seed: int, part: str, *, recorded: bool = False) -> Tensor:
        runner, number = self.runner, self.num_samples
        if recorded and self.recording is not None:
            runner, number = self.recorder, self.recording.num_samples
        on_round = None if self.watch is None else self.watch(part)
        drawer = runner.using(sampler=sampler, max_batch_size=self.max_batch_size)
        return drawer.sample(number, seed=seed, on_round=on_round).samples

    def test_model(self) -> None:
        chain, number = drawn_ones(self.chain, self.num_samples, ASKED)
        if not number:
            self.untested.append("the model: there is no query, for nothing is hidden in any sample")
            return
        self.findings, self.shown = answers(self.runner, chain, self.seed, number, self.max_batch_size)
        if not self.findings[0].passed:
            self.untested.append("what else answers depend on: the same query does not get the same answer")
        elif isinstance(chain, TokenChain):
            self.findings += doors_agree(self.runner, chain, self.seed, number, self.shown, self.max_batch_size)
        self.sound = all(finding.passed for finding in self.findings)
        self.power = {finding.check: {"a difference": finding.allowed} for finding in self.findings}

    @property
    def off(self) -> Gap:
        """How far answers may be apart from run to run; unknown if the model is not `sound`."""
        return self.shown.all if self.sound else Gap()

    def test_steps(self, sampler: Sampler, samples: Tensor, level: float, *, with_power: bool) -> None:
        if isinstance(self.chain, TokenChain):
            off = Off.of_tokens(self.off.law)
            steps = token_steps(self.chain, samples, self.seed, off, self.max_batch_size)
        elif self.recording is None:
            return
        else:
            paths = self.draw(sampler, self.seed, f"{sampler!r}, recorded", recorded=True)
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
        p_value = same_law(samples, reference)
        self.findings.append(_agreement(f"samples of {sampler!r}", p_value, level, "sequential samples"))

    def test_same_samples(self, sampler: Sampler, samples: Tensor, level: float) -> None:
        if not self._draws_the_same(sampler):
            return
        again = self.draw(Sequential(), self.seed, "sequential again")
        bound = Bound(self.chain.steps, max(self.off.law, self.shown.unit), level)
        check = f"{sampler!r} draws what Sequential draws"
        self.findings.append(bound.finding(check, samples, again, sound=self.sound))
        self.power[SAME_SAMPLES] = {"wrong samples": bound.least_found(self.num_samples)}


def _agreement(check: str, p: float, level: float, other: str) -> Finding:
    verdict = f"they agree with {other}" if p >= level else f"below {level:.2g}: they do not agree with {other}"
    return Finding(check, p >= level, f"p = {p:.2g}, {verdict}", p_value=p)


def _fixed(check: str, missed: float, allowed: float) -> Finding:
    words = "what is not random is what it should be"
    if missed > allowed:
        words = f"states miss what is not random in them by {missed:.2g} of the step; rounding explains {allowed:.1g}"
    return Finding(check, missed <= allowed, words, difference=missed, allowed=allowed)
