"""Every chain of drawahead, drawn one sample and one step at a time by plain loops: the reference for all else.

Nothing of drawahead is imported here, not even its noise: what an address holds, in which order tokens are drawn and
what a step does is written down a second time, as the documentation has it and as slowly as it likes. A mistake would
have to be made twice, in two different ways, to go unnoticed.

A *number* is the number of a sample. States are float64 arrays (d,), and lanes are (c, d).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

HIDDEN = -1

# What noise is for: the last word of its address.
SAMPLE, ORDER, VALUE, START, KNOWN = 0, 2, 3, 6, 7

_WORD = 2**32
_GOLDEN = 0.6180339887498949

Array = np.ndarray
Rows = Callable[[list[int]], Sequence[Sequence[float]]]
"""A sequence with `HIDDEN` at its hidden positions -> a row of log-probabilities for every position."""
Denoiser = Callable[[Array, int], Array]
"""(state (d,), step) -> prediction (d,)."""
LaneOracle = Callable[[Array, int], Array]
"""(lanes (c, d), step) -> answer (d,)."""


def philox(key: tuple[int, int], counter: tuple[int, int, int, int]) -> tuple[int, int, int, int]:
    """Philox4x32-10: four 32-bit words for a key and a counter."""
    (k0, k1), (c0, c1, c2, c3) = key, counter
    for _ in range(10):
        one, two = c0 * 0xD2511F53, c2 * 0xCD9E8D57
        c0, c1, c2, c3 = two // _WORD ^ c1 ^ k0, two % _WORD, one // _WORD ^ c3 ^ k1, one % _WORD
        k0, k1 = (k0 + 0x9E3779B9) % _WORD, (k1 + 0xBB67AE85) % _WORD
    return c0, c1, c2, c3


class Noise:
    """The noise of one sample under one seed."""

    def __init__(self, seed: int, number: int) -> None:
        words = philox((seed % _WORD, seed // _WORD), (number % _WORD, number // _WORD, 0, SAMPLE))
        self.key = words[0], words[1]

    def uniforms(self, purpose: int, step: int, count: int) -> list[float]:
        """So many uniforms in (0, 1): two from every four words, of 52 bits each."""
        found: list[float] = []
        for block in range((count + 1) // 2):
            w0, w1, w2, w3 = philox(self.key, (block, step, 0, purpose))
            for high, low in ((w0, w1), (w2, w3)):
                found.append((high // 64 * 2**26 + low // 64 + 0.5) / 2**52)
        return found[:count]

    def normals(self, purpose: int, step: int, count: int) -> Array:
        """So many standard normals (Box and Muller): two from every two uniforms."""
        found: list[float] = []
        uniforms = self.uniforms(purpose, step, count + count % 2)
        for one, two in zip(uniforms[::2], uniforms[1::2], strict=True):
            radius, angle = math.sqrt(-2 * math.log(one)), 2 * math.pi * two
            found += [radius * math.cos(angle), radius * math.sin(angle)]
        return np.array(found[:count])

    def gumbels(self, purpose: int, step: int, count: int) -> list[float]:
        return [-math.log(-math.log(uniform)) for uniform in self.uniforms(purpose, step, count)]


# Tokens


def positions(
    noise: Noise, length: int, order: Sequence[int] | str | None = None, evidence: Sequence[int] | None = None
) -> list[int]:
    """The hidden positions in the order in which they are drawn. `order` and `evidence` as in `tokens`."""
    if order is None:
        keys = [noise.uniforms(ORDER, position, 1)[0] for position in range(length)]
    elif isinstance(order, str):
        shift = noise.uniforms(ORDER, 0, 1)[0]
        keys = [(shift + _GOLDEN * position) % 1.0 for position in range(length)]
    else:
        keys = [float(list(order).index(position)) for position in range(length)]
    hidden = [position for position in range(length) if evidence is None or evidence[position] == HIDDEN]
    return sorted(hidden, key=lambda position: keys[position])


def tokens(
    rows: Rows,
    length: int,
    vocab_size: int,
    seed: int,
    number: int,
    order: Sequence[int] | str | None = None,
    evidence: Sequence[int] | None = None,
) -> list[int]:
    """One sequence by the chain rule: every token is the largest of its log-probabilities plus Gumbel noise.

    `order` is None (uniformly random), "spread", or the permutation of this sample; `evidence` its known tokens, with
    `HIDDEN` elsewhere.
    """
    noise = Noise(seed, number)
    drawn = [HIDDEN] * length if evidence is None else list(evidence)
    for step, position in enumerate(positions(noise, length, order, evidence)):
        logs = normalised(rows(list(drawn))[position])
        scores = [log + gumbel for log, gumbel in zip(logs, noise.gumbels(VALUE, step, vocab_size), strict=True)]
        drawn[position] = scores.index(max(scores))
    return drawn


def normalised(row: Sequence[float]) -> list[float]:
    """A row of log-probabilities whose probabilities sum to one."""
    total = math.log(math.fsum(math.exp(log) for log in row))
    return [log - total for log in row]


def tokens_law(
    rows: Rows, length: int, vocab_size: int, order: Sequence[int] | None = None, evidence: Sequence[int] | None = None
) -> dict[tuple[int, ...], float]:
    """The probability of every sequence that agrees with the evidence, by the chain rule along `order`.

    None is a uniformly random order: the mean over all of them.
    """
    known = [HIDDEN] * length if evidence is None else list(evidence)
    hidden = [position for position in (range(length) if order is None else order) if known[position] == HIDDEN]
    orders = list(itertools.permutations(hidden)) if order is None else [tuple(hidden)]
    law: dict[tuple[int, ...], float] = {}
    for path in orders:
        share: dict[tuple[int, ...], float] = {tuple(known): 1.0 / len(orders)}
        for position in path:
            onward: dict[tuple[int, ...], float] = {}
            for drawn, probability in share.items():
                for token, log in enumerate(normalised(rows(list(drawn))[position])):
                    longer = (*drawn[:position], token, *drawn[position + 1 :])
                    onward[longer] = onward.get(longer, 0.0) + probability * math.exp(log)
            share = onward
        for drawn, probability in share.items():
            law[drawn] = law.get(drawn, 0.0) + probability
    return law


# Gaussian steps


@dataclass(frozen=True)
class Steps:
    """The coefficients of a Gaussian chain, as plain numbers: one for each of the N steps, or for 0 ... N steps."""

    a: list[float]
    b: list[float]
    s: list[float]
    signal: list[float]  # N + 1
    noise: list[float]  # N + 1
    start: float


def gaussian(
    denoiser: Denoiser,
    steps: Steps,
    size: int,
    seed: int,
    number: int,
    start: Array | None = None,
    known: Array | None = None,
) -> list[Array]:
    """The states of one sample after 0, 1, ... N steps. `start` is its first state, `known` (NaN: unknown) as below."""
    noise = Noise(seed, number)
    states = [gaussian_start(steps, size, noise, start, known)]
    for k in range(len(steps.a)):
        states.append(gaussian_step(denoiser, steps, k, states[-1], noise, known))
    return states


def gaussian_start(
    steps: Steps, size: int, noise: Noise, start: Array | None = None, known: Array | None = None
) -> Array:
    """The state before the first step."""
    return overwritten(noise.normals(START, 0, size) * steps.start if start is None else start, steps, 0, noise, known)


def gaussian_step(
    denoiser: Denoiser, steps: Steps, k: int, state: Array, noise: Noise, known: Array | None = None
) -> Array:
    """The state after step k: A x + B m + S xi, its known entries overwritten."""
    xi = noise.normals(VALUE, k, len(state))
    after = steps.a[k] * state + steps.b[k] * denoiser(state, k) + steps.s[k] * xi
    return overwritten(after, steps, k + 1, noise, known)


def overwritten(state: Array, steps: Steps, taken: int, noise: Noise, known: Array | None) -> Array:
    """A state once so many steps are taken, with noised copies of the known entries in their places."""
    if known is None:
        return state
    copies = steps.signal[taken] * known + steps.noise[taken] * noise.normals(KNOWN, taken, len(state))
    return np.where(np.isnan(known), state, copies)


# Stacked steps


@dataclass(frozen=True)
class Lanes:
    """The coefficients of a stacked chain: N steps on c lanes, with r noises in each."""

    a: Array  # (N, c, c)
    b: Array  # (N, r)
    s: Array  # (N, c, r)
    start: Array  # (c,)
    fixed: list[bool]  # N
    refresh: tuple[Array, Array] | None = None  # (N + 1, c, c), (N + 1, c, q)


def stacked(
    oracle: LaneOracle, plan: Lanes, size: int, seed: int, number: int, start: Array | None = None
) -> list[Array]:
    """The lanes of one sample, refreshed, after 0, 1, ... N steps."""
    noise = Noise(seed, number)
    lanes = [stacked_start(plan, size, noise, start)]
    for k in range(len(plan.a)):
        lanes.append(stacked_step(oracle, plan, k, lanes[-1], noise))
    return lanes


def stacked_start(plan: Lanes, size: int, noise: Noise, start: Array | None = None) -> Array:
    """The lanes before the first step, refreshed."""
    count = len(plan.start)
    first = noise.normals(START, 0, count * size).reshape(count, size) * plan.start[:, None]
    return refreshed(first if start is None else start, plan, 0, noise)


def stacked_step(oracle: LaneOracle, plan: Lanes, k: int, lanes: Array, noise: Noise) -> Array:
    """The lanes after step k: A X + S u with u = b m + xi, refreshed."""
    noises, size = plan.b.shape[1], lanes.shape[1]
    u = plan.b[k][:, None] * oracle(lanes, k)[None]
    if not plan.fixed[k]:
        u = u + noise.normals(VALUE, k, noises * size).reshape(noises, size)
    return refreshed(plan.a[k] @ lanes + plan.s[k] @ u, plan, k + 1, noise)


def refreshed(lanes: Array, plan: Lanes, taken: int, noise: Noise) -> Array:
    """The lanes once so many steps are taken: R X + T zeta."""
    if plan.refresh is None:
        return lanes
    keep, add = plan.refresh[0][taken], plan.refresh[1][taken]
    zeta = noise.normals(KNOWN, taken, add.shape[1] * lanes.shape[1]).reshape(add.shape[1], lanes.shape[1])
    return keep @ lanes + add @ zeta
