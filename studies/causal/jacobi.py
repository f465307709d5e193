"""The fixed-point scripts' method as a baseline: speculative Jacobi decoding (SJD, Teng et al. 2024).

A window of guesses is asked about in one pass. A guess x, drawn from the law q that it had in the pass before, is kept
with probability min(1, p(x) / q(x)), p the law it has now; the first one that is not is drawn from the residual, and
all behind it are drawn anew from their new laws, with new noise. Exact, as speculative sampling is; but a guess
behind a correction never settles, for its noise is new in every pass.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

Model = Callable[[Tensor], Tensor]
"""Tokens (b, n) -> log-probabilities (b, n, q) of the next one after each."""


def speculative_jacobi(
    model: Model,
    prompt: Tensor,
    length: int,
    window: int,
    generator: torch.Generator,
    *,
    stride: int = 0,
    resample: bool = True,
) -> tuple[Tensor, Tensor]:
    """Samples (b, length) behind prompts (b, m), and the passes that each took (b,).

    Guesses of steps that were never asked about have the law of the step `stride` before, or of the last one asked.
    Without `resample` guesses stay as they are, and are judged as if they were new: a mutant, whose law is another.
    """
    rows, m = prompt.shape
    device = prompt.device
    tokens = torch.zeros(rows, length, dtype=torch.int64, device=device)
    position, passes = (torch.zeros(rows, dtype=torch.int64, device=device) for _ in range(2))
    draft: Tensor | None = None  # (b, length, q) the laws that guesses were drawn from
    step = torch.arange(length, device=device)
    row = torch.arange(rows, device=device)
    last = torch.zeros(rows, dtype=torch.int64, device=device)  # guesses go up to here
    while bool((position < length).any()):
        live = position < length
        laws = model(torch.cat([prompt, tokens], dim=1))[:, m - 1 : m - 1 + length].double()  # (b, length, q)
        passes += live
        draft = laws.clone() if draft is None else draft
        going, new = live.clone(), position.clone()
        for i in range(window):  # the guesses, one after another
            at = position + i
            asked = going & (at < last)
            here = at.clamp(max=length - 1)
            p, q, x = laws[row, here], draft[row, here], tokens[row, here]
            ratio = (p.gather(1, x[:, None]) - q.gather(1, x[:, None]))[:, 0].exp()
            accepted = torch.rand(rows, generator=generator, device=device, dtype=torch.float64) < ratio
            residual = (p.exp() - q.exp()).clamp(min=0)
            residual = torch.where(residual.sum(1, keepdim=True) > 0, residual, p.exp())
            other = torch.multinomial(residual, 1, generator=generator)[:, 0]
            tokens[row, here] = torch.where(asked & ~accepted, other, x)
            new += asked
            going &= asked & accepted
        outright = going & (new < length)  # all guesses were kept: one more is drawn from its law
        here = new.clamp(max=length - 1)
        drawn = torch.multinomial(laws[row, here].exp(), 1, generator=generator)[:, 0]
        tokens[row, here] = torch.where(outright, drawn, tokens[row, here])
        asked_up_to = torch.maximum(last, position)  # the last step with a law of its own
        position = new + outright
        last = torch.minimum(position + window, torch.full_like(position, length))
        # The guesses of the next window, from the newest laws.
        known = step <= asked_up_to[:, None]
        source = torch.where(known, step, asked_up_to[:, None].clamp(max=length - 1))
        if stride:
            above = step - stride * torch.div(step - asked_up_to[:, None] + stride - 1, stride, rounding_mode="floor")
            source = torch.where(known | (above < 0), source, above)
        following = laws.gather(1, source[..., None].expand_as(laws))
        fresh = torch.multinomial(following.exp().flatten(0, 1), 1, generator=generator).view(rows, length)
        guessed = (step >= position[:, None]) & (step < last[:, None])
        if not resample:
            guessed &= ~known
        tokens = torch.where(guessed, fresh, tokens)
        draft = following
    return tokens, passes
