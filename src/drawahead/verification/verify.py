"""The verb: test a model before you trust samples of it that were drawn in parallel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from drawahead import validate
from drawahead.chains.base import Chain
from drawahead.errors import InputError
from drawahead.oracles.denoisers import DenoisingTarget
from drawahead.oracles.tokens import TokenOracle
from drawahead.sample import as_chain
from drawahead.samplers.base import Sampler
from drawahead.samplers.record import as_sampler
from drawahead.samplers.sequential import Sequential
from drawahead.validate import instance, whole
from drawahead.verification.findings import Verdict
from drawahead.verification.parts import Parts, Watch

LEVEL = 1e-3


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
    """Test whether samples of `target` drawn in parallel have the law of those drawn one step at a time.

    First the model: asked twice, alone and in a batch it must answer the same, up to the rounding that it shows on
    batches of copies of one question; a token oracle's doors must agree, and an answer may not depend on what is not
    drawn yet. Then, for each sampler, *every step* of the samples against the model's own law of it (see `steps`); and
    the *samples* against as many sequential ones of another seed, by chi-square tests for tokens and
    Kolmogorov-Smirnov tests for vectors (`verification.statistics`). On tokens `Coupled` must moreover draw the very
    samples that `Sequential` draws with the same seed, but for as many as rounding explains. By default the samplers
    are `Coupled()` and `Block()`, which left-to-right models do without.

    The tests of steps and samples fail with probability `level` or less, all together, where nothing is wrong. What
    each part would have found is measured, not assumed: see `Verdict.power`, which takes a while and is left out on
    `with_power=False`; the verdict says so. `Verdict.untested` tells what was not tested. `watch` is given the name of
    each part, and returns what is called after every round.
    """
    chain = as_chain(target)
    num_samples = whole("num_samples", num_samples, 50)
    if not 0 < validate.number("level", level) < 1:
        raise InputError(f"level must be between 0 and 1, not {level}")
    usual = ("coupled", "block") if chain.foresees else ("coupled",)
    tested = _samplers(usual if samplers is None else samplers)
    instance("with_power", with_power, bool, "True or False")
    if watch is not None:
        instance("watch", watch, Callable, "callable")  # type: ignore[arg-type]
    seed = whole("seed", seed)
    chain.check(num_samples)

    parts = Parts(chain, num_samples, seed, max_batch_size, watch)
    level_of_each = level / sum(map(parts.tests, tested))
    parts.test_model()
    reference = parts.draw(Sequential(), seed + 1, "sequential").samples
    for sampler in tested:
        samples = parts.draw(sampler, seed, repr(sampler)).samples
        parts.test_steps(sampler, samples, level_of_each, with_power=with_power and sampler is tested[0])
        parts.test_samples(sampler, samples, reference, level_of_each)
        parts.test_same_samples(sampler, samples, level_of_each)
    if with_power:
        parts.measure_samples(reference, level_of_each)
    power = parts.power if with_power else {}
    return Verdict(tuple(parts.findings), num_samples, level, power, tuple(dict.fromkeys(parts.untested)))


def _samplers(given: Sampler | str | Sequence[Sampler | str]) -> list[Sampler]:
    listed = [given] if isinstance(given, Sampler | str) else given
    instance("samplers", listed, Sequence, "one or more samplers such as Coupled()")
    found = [sampler for each in listed if (sampler := as_sampler(each)) is not None]
    if not found or len(found) < len(listed):
        raise InputError("samplers must be one or more samplers such as Coupled()")
    return found
