"""Every step of a drawn path against the model's own answer for it.

The model is asked once more about each finished path: what was its law of every step, given the steps before? Seen
against that law a step turns into a standard normal (an *innovation*), and the innovations of a path are independent,
if and only if the path has the sequential law. So this needs no reference samples, whatever the model.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.special import gammainc, ndtr, ndtri

from drawahead.agreement import kolmogorov
from drawahead.chains.base import Tally
from drawahead.chains.gaussian import GaussianChain
from drawahead.chains.tokens import TokenChain
from drawahead.randomness import Purpose, Stream

COLUMNS = 48  # of each kind of table that are tested, evenly chosen
FAR = 0.7
BYTES = 2**28  # what recorded paths may take
CHUNK = 2**24  # probabilities worked on at a time


def recorded(chain: GaussianChain) -> GaussianChain:
    """The same chain, every state kept."""
    start = None if chain.start_state is None else chain.start_state.view(-1, *chain.shape)
    return GaussianChain(
        chain.denoiser,
        chain.schedule,
        chain.shape,
        start=start,
        record=range(1, chain.steps),
        dtype=chain.dtype,
        device=chain.device,
    )


def recordable(chain: GaussianChain, num_samples: int) -> int:
    """How many samples can be recorded: none where entries are overwritten, for their steps are not the chain's."""
    return 0 if chain.known is not None else min(num_samples, BYTES // (8 * chain.size * chain.steps))


@torch.no_grad()
def gaussian_innovations(chain: GaussianChain, samples: Tensor) -> Tensor:
    """Of recorded samples (m, N, *shape): the noise of every random step but the first (m, steps, d)."""
    plan = chain.plan
    states = torch.cat([samples[:, :-1], samples[:, -1:] / plan.final], dim=1).flatten(2).double().to(chain.device)
    rows = max(1, CHUNK // (8 * chain.size))
    kept = []
    for k in range(1, chain.steps):
        if float(plan.s[k]) == 0:
            continue
        before = states[:, k - 1]
        step = torch.full((len(before),), k, device=chain.device)
        prediction = torch.cat(
            [
                chain.denoiser(x.view(-1, *chain.shape).to(chain.dtype), step[: len(x)]).reshape(len(x), -1).double()
                for x in before.split(rows)
            ]
        )
        drift = plan.a[k] * before + plan.b[k] * chain.schedule.adjust(prediction)
        kept.append((states[:, k] - drift) / plan.s[k])
    return torch.stack(kept, dim=1).cpu() if kept else torch.zeros(len(samples), 0, chain.size)


@torch.no_grad()
def token_innovations(chain: TokenChain, samples: Tensor, seed: int) -> tuple[Tensor, Tensor]:
    """Of tokens (m, n) drawn with this seed, two sets of innovations (m, steps, 1), each made of uniforms.

    A uniform is the law's distribution function at the token, smeared over the token's own mass by fresh noise: once
    with tokens in their order, once with likelier ones first.
    """
    oracle = chain.oracle
    rows = max(1, CHUNK // (oracle.vocab_size * oracle.length))
    parts = [_token_part(chain, samples, numbers, seed) for numbers in torch.arange(len(samples)).split(rows)]
    steps = min(part[0].shape[1] for part in parts)
    one, other = (torch.cat([part[i][:, :steps] for part in parts])[..., None] for i in range(2))
    return one, other


def _token_part(chain: TokenChain, samples: Tensor, numbers: Tensor, seed: int) -> tuple[Tensor, Tensor]:
    oracle = chain.oracle
    paths = chain.start(seed, numbers, Tally())
    steps = int(paths.length.min()) if len(paths) == len(numbers) else 0
    if not steps:
        return (torch.zeros(len(numbers), 0, dtype=torch.float64),) * 2
    tokens = samples[numbers].to(oracle.device)
    step = torch.arange(steps, device=oracle.device).expand(len(tokens), -1)
    position = paths.order.gather(1, step)  # (rows, steps)
    row = torch.arange(len(tokens), device=oracle.device).repeat_interleave(steps)
    answer = oracle.chain_rows(tokens, paths.rank, row, step.reshape(-1), position.reshape(-1)).double().exp()
    drawn = tokens.gather(1, position).reshape(-1, 1)
    mass = answer.gather(1, drawn)
    before = answer.cumsum(1).gather(1, drawn) - mass
    likelier = torch.where(answer > mass, answer, 0.0).sum(1, keepdim=True)
    tied = torch.where((answer == mass) & (torch.arange(answer.shape[1], device=answer.device) < drawn), mass, 0.0)
    # Noise of another seed: that of this one has been spent.
    smear = Stream.of_samples(seed ^ 0x5EED, numbers.to(oracle.device)).uniform(Purpose.ACCEPT, step).reshape(-1, 1)
    uniforms = (before + smear * mass, likelier + tied.sum(1, keepdim=True) + smear * mass)
    one, other = (ndtri(u.clamp(1e-12, 1 - 1e-12)).view(len(tokens), steps).cpu() for u in uniforms)
    return one, other


def white(xi: Tensor) -> float:
    """The p-value of a test that innovations (m, steps, d) are independent standard normals.

    Kolmogorov-Smirnov tests of single innovations, of sums and differences of those of neighbouring steps, of those
    that follow one that went far to either side, of random combinations, and of sums of squares: up to 48 of each kind.
    """
    m, steps, d = xi.shape
    if not m or not steps:
        return 1.0
    flat = xi.flatten(1).double()
    lines = torch.randn(steps * d, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    tables = [_some(flat), flat @ (lines / lines.norm(dim=0))]
    groups: list[Tensor] = []
    if steps > 1:
        before, after = _some(xi[:, :-1].flatten(1).double()), _some(xi[:, 1:].flatten(1).double())
        tables += [(after + before) / math.sqrt(2), (after - before) / math.sqrt(2)]
        for one, other in zip(before.T, after.T, strict=True):
            groups += [other[far] for far in (one < -FAR, one > FAR) if int(far.sum()) >= 8]
    groups += [column for table in tables for column in table.T]
    p_values = [kolmogorov(ndtr(z)) for z in groups]
    squares = [*_some(xi.double().square().sum(2)).T, flat.square().sum(1)]
    freedoms = [d] * (len(squares) - 1) + [steps * d]
    p_values += [
        kolmogorov(gammainc(torch.full_like(square, freedom / 2), square / 2).clamp(0, 1))
        for square, freedom in zip(squares, freedoms, strict=True)
    ]
    return min(1.0, len(p_values) * min(p_values))


def _some(table: Tensor) -> Tensor:
    """At most `COLUMNS` columns, evenly chosen."""
    count = table.shape[1]
    return table[:, torch.linspace(0, count - 1, min(COLUMNS, count)).round().long()]
