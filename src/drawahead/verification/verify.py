"""The verb: test a model before you trust samples of it that were drawn in parallel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from drawahead import inputs
from drawahead.agreement import same_law
from drawahead.chains.base import Chain
from drawahead.chains.gaussian import GaussianChain
from drawahead.chains.tokens import TokenChain
from drawahead.denoisers import DenoisingTarget
from drawahead.errors import InputError, whole
from drawahead.inputs import instance
from drawahead.oracles import TokenOracle
from drawahead.report import Report
from drawahead.sample import Result, as_chain, sample
from drawahead.samplers.base import Sampler
from drawahead.samplers.block import Block
from drawahead.samplers.coupled import Coupled
from drawahead.samplers.sequential import Sequential
from drawahead.verification.answers import EQUAL, answers, doors
from drawahead.verification.findings import Finding, Verdict
from drawahead.verification.power import power
from drawahead.verification.steps import gaussian_innovations, recordable, recorded, token_innovations, white

LEVEL = 1e-3


def verify(
    target: Chain | TokenOracle | DenoisingTarget | Callable[..., Any],
    num_samples: int = 1000,
    *,
    samplers: Sequence[Sampler] = (Coupled(), Block()),
    level: float = LEVEL,
    seed: int = 0,
    with_power: bool = True,
    max_batch_size: int | None = None,
    watch: Callable[[str], Callable[[Report], None] | None] | None = None,
) -> Verdict:
    """Test whether samples of `target` drawn in parallel have the law of those drawn one step at a time.

    First the model: asked twice, alone and in a batch it must answer the same; a token oracle's doors must agree, and
    an answer may not depend on what is not drawn yet. Then, for each sampler, the *steps* of `num_samples` samples, one
    by one, against the model's own law of each (see `steps`); and the *samples* against as many sequential ones of
    another seed, by chi-square tests for tokens and Kolmogorov-Smirnov tests for vectors (`drawahead.agreement`). On
    tokens `Coupled` must moreover draw the very samples that `Sequential` draws with the same seed, but for the model's
    own rounding.

    The tests of steps and samples fail with probability `level` or less, all together, where nothing is wrong. What
    the test of samples would have found is measured, not assumed: see `Verdict.power`, which takes a while and is left
    out on `with_power=False`. `watch` is given the name of each part, and returns what is called after every round.
    """
    chain = as_chain(target)
    num_samples = whole("num_samples", num_samples, 50)
    if not 0 < inputs.number("level", level) < 1:
        raise InputError(f"level must be between 0 and 1, not {level}")
    instance("samplers", samplers, Sequence, "one or more samplers such as Coupled()")
    if not len(samplers) or not all(isinstance(sampler, Sampler) for sampler in samplers):
        raise InputError("samplers must be one or more samplers such as Coupled()")
    instance("with_power", with_power, bool, "True or False")
    if watch is not None:
        instance("watch", watch, Callable, "callable")  # type: ignore[arg-type]
    seed = whole("seed", seed)
    chain.check(num_samples)

    def draw(chain: Chain, sampler: Sampler, seed: int, part: str, number: int = num_samples) -> Result:
        on_round = None if watch is None else watch(part)
        return sample(chain, number, sampler=sampler, seed=seed, max_batch_size=max_batch_size, on_round=on_round)

    findings = answers(chain, seed, few=4)
    if isinstance(chain, TokenChain):
        findings += doors(chain, seed, few=4)
    rounding = max(finding.difference or 0.0 for finding in findings)
    reference = draw(chain, Sequential(), seed + 1, "sequential").samples
    tests = len(samplers) * (2 if isinstance(chain, TokenChain | GaussianChain) else 1)
    for sampler in samplers:
        name = repr(sampler)
        result = draw(chain, sampler, seed, name)
        if isinstance(chain, TokenChain):
            p = min(1.0, 2 * min(map(white, token_innovations(chain, result.samples, seed))))
            findings.append(_agreement(f"steps of {name}", p, level / tests, "the model's laws"))
        elif isinstance(chain, GaussianChain) and (number := recordable(chain, num_samples)):
            paths = draw(recorded(chain), sampler, seed, f"{name}, recorded", number).samples
            p = white(gaussian_innovations(chain, paths))
            findings.append(_agreement(f"steps of {name}", p, level / tests, "the model's laws"))
        p = same_law(result.samples, reference)
        findings.append(_agreement(f"samples of {name}", p, level / tests, "sequential samples"))
        if isinstance(chain, TokenChain) and type(sampler) is Coupled:
            again = draw(chain, Sequential(), seed, "sequential again")
            findings.append(_same_samples(name, result, again, rounding))
    found = power(reference, level / tests) if with_power else {}
    return Verdict(tuple(findings), num_samples, level, found)


def _agreement(check: str, p: float, level: float, other: str) -> Finding:
    verdict = f"they agree with {other}" if p >= level else f"below {level:.2g}: they do not agree with {other}"
    return Finding(check, p >= level, f"p = {p:.2g}, {verdict}", p_value=p)


def _same_samples(name: str, result: Result, sequential: Result, rounding: float) -> Finding:
    other = int((result.samples != sequential.samples).any(1).sum())
    number = len(result.samples)
    check = f"{name} draws what Sequential draws"
    if not other:
        return Finding(check, True, f"all {number} samples are the same, token by token")
    if rounding > EQUAL:
        return Finding(check, True, f"{number - other} of {number} samples are the same; rounding decided the others")
    return Finding(check, False, f"{other} of {number} samples differ, and the model's rounding does not explain it")
