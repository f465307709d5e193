"""Checks of the model alone: the same question must get the same answer, whatever else it is asked with."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from drawahead.chains.base import Chain
from drawahead.chains.tokens import TokenChain
from drawahead.models.oracles import HIDDEN
from drawahead.sample import sample
from drawahead.samplers.coupled import Coupled
from drawahead.verification.findings import SAME, Finding
from drawahead.verification.rounding import AskingAgain, Rounding


def drawn_ones(chain: Chain, num_samples: int, few: int) -> tuple[Chain, int]:
    """A chain of which the first samples have something to draw, as many as asked for or as there are; and how many.

    Evidence may leave nothing hidden in some samples: about these a model is asked nothing.
    """
    few = min(few, num_samples)
    if not isinstance(chain, TokenChain) or chain.evidence is None:
        return chain, few
    if chain.evidence.dim() == 1:
        return chain, few if chain.steps else 0
    drawn = (chain.evidence[:num_samples] == HIDDEN).any(1).nonzero()[:, 0]
    chosen = drawn[torch.linspace(0, len(drawn) - 1, min(few, len(drawn))).round().long()]
    if not len(chosen):
        return chain, 0
    order = chain.order
    if isinstance(order, Tensor) and order.dim() == 2:
        order = order[chosen]
    condition = {name: table if len(table) == 1 else table[chosen] for name, table in chain.condition.items()}
    return chain.replace(order=order, evidence=chain.evidence[chosen], condition=condition), len(chosen)


def answers(chain: Chain, seed: int, number: int, max_batch_size: int | None) -> tuple[list[Finding], Rounding]:
    """Draw so many samples, and ask some of the questions again: twice, alone, and among copies of themselves."""
    executor = AskingAgain(max_batch_size)
    sample(chain, number, sampler=Coupled(), seed=seed, executor=executor)
    shown, told = executor.shown, Told(chain)
    works_in = f"It was seen to work in {shown.precision.name}"
    twice = told.finding(
        "asked twice",
        shown.again.size,
        shown.allowed_again,
        "the model draws at random, or remembers what it was asked before: switch dropout off (model.eval()), and "
        f"make the answer a function of the question alone. {works_in}",
        law=shown.again.law,
    )
    if not twice.passed:  # then nothing can be said about what else answers depend on
        return [twice], shown
    check, apart = "asked alone and in a batch", shown.mixed | shown.shape
    if not shown.leak.size <= shown.allowed:
        advice = "an answer depends on what else is in the batch: look for batch statistics, padding that is not "
        advice += "masked, or indexing that mixes rows"
        return [twice, told.finding(check, shown.leak.size, shown.allowed, advice, law=shown.leak.law)], shown
    advice = f"even among copies of itself a question is answered by its place in the batch, or by its size. {works_in}"
    alone = told.finding(check, apart.size, shown.allowed_again, advice, law=apart.law)
    return [twice, replace(alone, allowed=shown.allowed)], shown  # what a leak would have been found from


class Told:
    """Differences between answers as findings."""

    def __init__(self, chain: Chain) -> None:
        self.steps = chain.steps
        self.unit = "in total variation" if isinstance(chain, TokenChain) else "relative to the step"

    def finding(self, check: str, difference: float, allowed: float, advice: str, *, law: float) -> Finding:
        """Whether the difference is allowed; `law` is what it can do to the law of a step."""
        if not difference <= allowed:
            words = f"answers differ by {difference:.2g} {self.unit}, and rounding explains {allowed:.1g}; {advice}"
        elif difference <= SAME:
            words = "the same answers"
        else:
            words = f"answers differ by at most {difference:.1g} {self.unit}: the model's own rounding, which can move "
            words += f"the law of a sample by {min(1.0, self.steps * law):.1g} at most"
        return Finding(check, difference <= allowed, words, difference=difference, allowed=allowed)
