"""The shipped model of colour pictures as tokens: emoji from words, 32x32 pixels of a palette, from left to right."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, final

import torch
from torch import Tensor

from drawahead.chains.causal import CausalChain
from drawahead.networks.emoji import LENGTH, SIDE, encoded, facts_of
from drawahead.networks.files import load, trained
from drawahead.networks.pixel_transformer import PixelTransformer
from drawahead.oracles.causal import Above, CausalOracle, FirstGuess
from drawahead.validate import number

if TYPE_CHECKING:
    from drawahead.show import View

GUIDANCE = 1.0
"""By default the prompt alone: more, and pictures fray."""
TEMPERATURE = 1.0
NAME = "emoji_tokens"


@final
class GuidedPixels(CausalOracle):
    """A network's answer with a prompt, driven away from its answer with none: one query of two passes.

    Logits are those without the prompt, plus `guidance` times what the prompt changes. At 1 the prompt's own pass is
    all there is.
    """

    def __init__(self, network: PixelTransformer, guidance: float, temperature: float = TEMPERATURE) -> None:
        self.network, self.guidance, self.temperature = network, guidance, temperature
        self.passes = 1 if guidance == 1 else 2
        self.vocab_size = network.colours
        self.device = network.token.weight.device
        self.max_length = network.words + network.side**2

    def view(self) -> View:
        from drawahead.show import Grids

        return Grids(self.network.side, self.vocab_size, _hex(self.network.palette))

    def rows(self, tokens: Tensor, first: int, **condition: Tensor) -> Tensor:
        position = torch.arange(tokens.shape[1], device=tokens.device).expand_as(tokens)
        return self._guided(self.network(self._both(tokens, position))[:, first:])

    def cache(self, rows: int, length: int) -> dict[str, Tensor]:
        return {"seen": self.network.memory(self.passes * rows, length).unflatten(0, (rows, self.passes))}

    def extend(self, cache: dict[str, Tensor], tokens: Tensor, position: Tensor, **condition: Tensor) -> Tensor:
        memory, twice = cache["seen"].flatten(0, 1), position.repeat_interleave(self.passes, 0)
        return self._guided(self.network.extend(memory, self._both(tokens, position), twice))

    def _both(self, tokens: Tensor, position: Tensor) -> Tensor:
        """Each row as it is, and beside it, where there is guidance, with no word in its prompt."""
        if self.passes == 1:
            return tokens
        empty = torch.where(position < self.network.words, self.network.colours, tokens)
        return torch.stack([tokens, empty], dim=1).flatten(0, 1)

    def _guided(self, logits: Tensor) -> Tensor:
        logits = logits.float()
        if self.passes == 2:
            told, free = logits.unflatten(0, (-1, 2)).unbind(1)
            logits = torch.lerp(free, told, self.guidance)
        return (logits / self.temperature).log_softmax(-1)


def chain_of(
    network: PixelTransformer,
    vocabulary: Sequence[str],
    prompts: str | Sequence[str],
    guidance: float = GUIDANCE,
    first_guess: FirstGuess | None = None,
    temperature: float = TEMPERATURE,
) -> CausalChain:
    """A chain of a network's pictures: see `emoji_tokens`."""
    words = encoded(prompts, vocabulary) + network.colours  # no word where there are fewer
    model = GuidedPixels(network, number("guidance", guidance, least=0), number("temperature", temperature, above=0))
    guess = Above(network.side) if first_guess is None else first_guess
    return CausalChain(model, max_length=network.side**2, prompt=words, first_guess=guess)


def coloured(samples: Tensor, palette: Tensor) -> Tensor:
    """Samples (m, side * side) as pictures (m, 3, side, side) with values from -1 to 1; hidden ones are grey."""
    side = math.isqrt(samples.shape[1])
    colours = torch.cat([palette.float().cpu(), torch.zeros(1, 3)])[samples.cpu()]  # -1 is the last
    pictures: Tensor = colours.view(-1, side, side, 3).permute(0, 3, 1, 2)
    return pictures


def emoji_pictures(samples: Tensor) -> Tensor:
    """Samples of `emoji_tokens` (m, 1024) as pictures (m, 3, 32, 32), with values from -1 to 1."""
    return coloured(samples, load(NAME)["palette"])


def emoji_tokens(
    prompts: str | Sequence[str],
    *,
    guidance: float = GUIDANCE,
    temperature: float = TEMPERATURE,
    first_guess: FirstGuess | None = None,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
) -> CausalChain:
    """Colour pictures of what prompts say, 32x32 pixels as tokens (1024,): `emoji_tokens("red apple")`.

    Prompts and `guidance` are those of `emoji`; `emoji_pictures` makes pictures of the samples. By default the first
    guess of a pixel comes from the distribution of the one above it. The lower the `temperature`, the rarer are pixels
    out of place. `dtype` is what the network computes in.
    """
    vocabulary, shape = facts_of(NAME)
    network = PixelTransformer(len(load(NAME)["palette"]), len(vocabulary) + 1, side=SIDE, words=LENGTH, **shape)
    return chain_of(trained(network, NAME, device, dtype), vocabulary, prompts, guidance, first_guess, temperature)


def _hex(palette: Tensor) -> tuple[str, ...]:
    """Colours (q, 3) from -1 to 1 as pages name them."""
    levels = ((palette.float().cpu() + 1) * 127.5).round().clamp(0, 255).long()
    return tuple("#" + "".join(f"{level:02x}" for level in colour) for colour in levels.tolist())
