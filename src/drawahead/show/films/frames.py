"""Films of vectors: pictures of the states that were reached, from noise to the sample.

The states at which drawahead's rounds ended are among them, and others spread evenly, for the side that draws one by
one. Both sides walk the same path: that of the sample.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from drawahead.chains import GaussianChain
from drawahead.chains.affine import AffineChain
from drawahead.chains.base import Tally
from drawahead.sample import Result
from drawahead.samplers import Sampler
from drawahead.show.films.reels import Film, Reel
from drawahead.show.films.replay import replay
from drawahead.show.pages.gallery import outputs
from drawahead.show.pictures import Pixels, strip
from drawahead.show.views import VectorView

FRAMES = 48
"""States that are pictured, beside those at which drawahead's rounds ended."""
_STATE_BYTES = 2**28  # that a replay may keep
_PIXEL_BYTES = 1_100_000  # of all frames on a page, before compression


def vector_film(chain: AffineChain, result: Result, rows: Sequence[int], view: VectorView, sampler: Sampler) -> Film:
    """The film of these rows of a result, which `sampler` drew; they are drawn again."""
    report, numbers = result.report, result.numbers[torch.tensor(rows)].tolist()
    state_bytes = 8 * math.prod(chain.state_shape) * len(numbers)
    even = np.linspace(1, chain.steps - 1, min(FRAMES, max(2, _STATE_BYTES // state_bytes)))
    wanted = {number: {int(step) for step in even} | _ends(report.progress[number]) for number in numbers}
    between = sorted(step for step in set().union(*wanted.values()) if 0 < step < chain.steps)
    recording = chain.replace(record=between)
    again = replay(recording, sampler, report.seed, numbers)
    reels, same = [], True
    for row, number in zip(rows, numbers, strict=True):
        value, last = again.values[number], outputs(chain, result.samples[row : row + 1])[0]
        final = value[-1] if recording.record else value
        at = [i for i, step in enumerate(recording.record) if step in wanted[number]]
        states = value[at] if recording.record else value[None][:0]
        steps, shown = _seen(chain, report.seed, number, [recording.record[i] for i in at], states)
        if isinstance(chain, GaussianChain):
            shown = _scaled(shown.double(), final.double())
        frames = torch.cat([shown.double(), final[None].double()])
        picture = strip(_fitting(view, frames, len(rows)), [*steps, chain.steps], smooth=view.smooth)
        reels.append(Reel(number, chain.steps, tuple(again.progress[number]), picture))
        same = same and torch.allclose(final.to(last), last, atol=1e-2)
    return Film(tuple(reels), "" if same else "The animation was drawn again, and rounding led to other samples.")


def _ends(progress: Sequence[int]) -> set[int]:
    """Where rounds ended; where there are very many rounds, not all of them."""
    return set(progress[:: 1 + len(progress) // (2 * FRAMES)])


def _seen(chain: AffineChain, seed: int, number: int, steps: list[int], states: Tensor) -> tuple[list[int], Tensor]:
    """The states after these steps, and after which steps (frames, ...); of a diffusion with the one it starts from."""
    if not isinstance(chain, GaussianChain):
        return steps, states
    start = chain.start(seed, torch.tensor([number]), Tally()).x.view(1, *chain.shape)
    return [0, *steps], torch.cat([start.to(states), states])


def _scaled(states: Tensor, final: Tensor) -> Tensor:
    """States of a diffusion in the size of the sample: noise may be a hundred times as large, or begin at zero."""
    size = states.flatten(1).square().mean(1).sqrt().clamp(min=1e-12)
    return states * (final.square().mean().sqrt() / size).view(-1, *[1] * (states.dim() - 1))


def _fitting(view: VectorView, frames: Tensor, reels: int) -> list[Pixels]:
    """Pictures of the frames, as large as a page has room for."""
    for side in (64, 48, 32, 16):
        pixels = view.pixels(frames, side)
        if reels * sum(frame.nbytes for frame in pixels) <= _PIXEL_BYTES:
            break
    return pixels
