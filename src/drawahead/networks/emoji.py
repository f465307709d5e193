"""The shipped model of colour pictures from words: a guided DDPM of emoji, 32x32, trained with 1000 steps."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any, final

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, layer_norm, pixel_shuffle, pixel_unshuffle, scaled_dot_product_attention, silu

from drawahead.chains.gaussian import GaussianChain
from drawahead.errors import InputError
from drawahead.networks.files import facts, trained
from drawahead.networks.unet import waves
from drawahead.oracles.denoisers import from_velocity
from drawahead.schedules import DDPM, spaced
from drawahead.validate import number, short, whole

SIDE = 32
STEPS = 1000
GUIDANCE = 3.0
LENGTH = 12
"""The most words of a prompt."""
IGNORED = frozenset({"a", "an", "and", "the", "of", "with", "in", "on", "for", "emoji", "symbol", "sign"})
"""Words that say little about a picture: they may be written, and are ignored."""


@final
class EmojiNetwork(nn.Module):
    """(pictures (m, 3, side, side), timesteps (m,), words (m, LENGTH)) -> answers (m, 6, side, side).

    Three planes are the velocity. Three say where in its range each entry's log variance lies, from -1 to 1, for a
    schedule with `learned_range`.

    Words are numbers from 1 on, in any order; 0 is no word, and a row of zeros is the empty prompt.
    """

    def __init__(
        self, vocabulary: int, *, width: int = 256, layers: int = 8, heads: int = 4, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.word = nn.Embedding(vocabulary + 1, width)
        nn.init.normal_(self.word.weight, std=0.1)
        shape = {"width": width, "layers": layers, "heads": heads}
        self.picture = PatchTransformer(SIDE, **shape, answers=6, dropout=dropout)

    def forward(self, x: Tensor, time: Tensor, words: Tensor) -> Tensor:
        answers: Tensor = self.picture(x, time, self.word(words))
        return answers


@final
class GuidedDenoiser:
    """A network's prediction for a prompt, driven away from its prediction for none: one query of two passes.

    The velocity is that without the prompt, plus `guidance` times what the prompt changes (Ho, Salimans 2022). At 1
    the prompt's own pass is all there is. A variance, where the schedule has a learned one, is the prompt's own.
    """

    def __init__(self, network: EmojiNetwork, schedule: DDPM, guidance: float, dtype: torch.dtype) -> None:
        self.network, self.guidance, self.dtype = network, guidance, dtype
        self.passes = 1 if guidance == 1 else 2
        self.planes = 6 if schedule.learned_range else 3
        self.denoise = from_velocity(self.velocity, schedule)

    def __call__(self, x: Tensor, k: Tensor, words: Tensor) -> Tensor:
        return self.denoise(x, k, words=words)

    def velocity(self, x: Tensor, time: Tensor, words: Tensor) -> Tensor:
        """What the network answers to states (m, 3, side, side), guided, in float64: the planes that are used."""
        x = x.to(self.dtype)
        if self.passes == 1:
            alone: Tensor = self.network(x, time, words)[:, : self.planes].double()
            return alone
        both = torch.cat([torch.zeros_like(words), words])
        answers = self.network(torch.cat([x, x]), torch.cat([time, time]), both)[:, : self.planes].double()
        free, told = answers.chunk(2)
        return torch.cat([torch.lerp(free[:, :3], told[:, :3], self.guidance), told[:, 3:]], dim=1)


def words_of(prompt: str) -> list[str]:
    """The words of a prompt that are read: in small letters, each once, without the ignored ones."""
    words = re.findall(r"[^\W_]+", prompt.lower())
    return [word for word in dict.fromkeys(words) if word not in IGNORED]


def encoded(prompts: str | Sequence[str], vocabulary: Sequence[str]) -> Tensor:
    """The numbers of the prompts' words (number of prompts, LENGTH), or an InputError that says which is unknown."""
    prompts = [prompts] if isinstance(prompts, str) else list(prompts)
    if not prompts:
        raise InputError("prompts must be a text such as 'red apple', or a list of at least one")
    number_of = {word: i for i, word in enumerate(vocabulary, start=1)}
    rows = torch.zeros(len(prompts), LENGTH, dtype=torch.int64)
    for i, prompt in enumerate(prompts):
        words = words_of(prompt)
        for word in words:
            if word not in number_of:
                raise InputError(_unknown(f"prompts[{i}], {short(prompt)}", word, vocabulary))
        if len(words) > LENGTH:
            raise InputError(
                f"prompts[{i}] has {len(words)} words; the emoji model reads {LENGTH} at most: leave some out"
            )
        rows[i, : len(words)] = torch.tensor([number_of[word] for word in words], dtype=torch.int64)
    return rows


def emoji_words() -> tuple[str, ...]:
    """The words that the emoji model knows, from `da.networks.emoji`'s prompts."""
    return tuple(facts_of("emoji")[0])


def emoji(
    prompts: str | Sequence[str],
    *,
    guidance: float = GUIDANCE,
    steps: int = STEPS,
    learned_range: bool = False,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
) -> GaussianChain:
    """Colour pictures (3, 32, 32) of what prompts say, with values from -1 to 1: `emoji("red apple")`.

    One prompt is for all samples; of several, sample i shows `prompts[i]`, and all share their rounds. An empty prompt
    draws any emoji. `guidance` is how strongly a prompt is followed: at 1 the network predicts with the prompt alone,
    in one pass; above 1 it also predicts without it, and the difference is multiplied by `guidance`.

    With fewer than its 1000 `steps` it visits as many timesteps, spread evenly. With `learned_range` each entry's noise
    has the variance that the network has learned, instead of one for all. `dtype` is what the network computes in.
    Prompts are made of the words that `emoji_words()` lists, in any order.
    """
    steps, guidance = whole("steps", steps), number("guidance", guidance, least=0)
    vocabulary, shape = facts_of("emoji")
    words = encoded(prompts, vocabulary)
    network = trained(EmojiNetwork(len(vocabulary), **shape), "emoji", device, dtype)
    timesteps = None if steps == STEPS else spaced(steps, of=STEPS)
    schedule = DDPM(clip=1.0, timesteps=timesteps, learned_range=learned_range)
    denoiser = GuidedDenoiser(network, schedule, guidance, dtype)
    return GaussianChain(denoiser, schedule, (3, SIDE, SIDE), device=device, condition={"words": words.to(device)})


def facts_of(name: str) -> tuple[list[str], dict[str, Any]]:
    """The vocabulary of a shipped network that reads words, and the sizes it is made with."""
    metadata = facts(name)
    return json.loads(metadata["words"]), json.loads(metadata["network"])


def _unknown(where: str, word: str, vocabulary: Sequence[str]) -> str:
    near = get_close_matches(word, vocabulary, n=3)
    remedy = f"did you mean {' or '.join(near)}?" if near else "use others:"
    return f"{where}: the emoji model does not know the word {word!r}; {remedy} da.networks.emoji_words() lists all"


_FREQUENCIES = 64
_PATCH = 4  # pixels along a side
_FINE = 32  # planes of the convolution that patches are cut from


@final
class PatchTransformer(nn.Module):
    """(pictures (m, 3, side, side), timesteps (m,), words (m, number, width)) -> answers (m, answers, side, side).

    Patches and words attend to each other in every layer. The time decides how a layer scales and shifts its input and
    how much it adds. A convolution before and after lets patches fit together.
    """

    def __init__(self, side: int, *, width: int, layers: int, heads: int, answers: int, dropout: float) -> None:
        super().__init__()
        self.patches = (side // _PATCH) ** 2
        self.time = nn.Sequential(nn.Linear(2 * _FREQUENCIES, width), nn.SiLU(), nn.Linear(width, width))
        self.first = nn.Conv2d(3, _FINE, 3, padding=1)
        self.into, self.out_of = nn.Linear(_FINE * _PATCH**2, width), nn.Linear(width, _FINE * _PATCH**2)
        self.place = nn.Parameter(torch.randn(self.patches, width) * 0.02)
        self.told = nn.Linear(width, 6 * width)
        self.layers = nn.ModuleList(_Layer(width, heads, dropout) for _ in range(layers))
        self.last = nn.Conv2d(2 * _FINE, answers, 3, padding=1)
        for weight in (self.told.weight, self.told.bias, self.last.weight, self.last.bias):
            assert weight is not None
            nn.init.zeros_(weight)

    def forward(self, x: Tensor, time: Tensor, text: Tensor) -> Tensor:
        told = self.time(torch.cat(waves(time, _FREQUENCIES), dim=-1).to(x.dtype)) + text.mean(1)
        told = self.told(silu(told)).unflatten(-1, (6, 1, -1))  # (m, 6, 1, width)
        pixels = self.first(x)
        seen = pixel_unshuffle(pixels, _PATCH)  # (m, planes of a patch, ...)
        tokens = torch.cat([self.into(seen.flatten(2).transpose(1, 2)) + self.place, text], dim=1)
        for layer in self.layers:
            tokens = layer(tokens, told)
        drawn = self.out_of(layer_norm(tokens[:, : self.patches], tokens.shape[-1:])).transpose(1, 2)
        drawn = pixel_shuffle(drawn.unflatten(-1, seen.shape[2:]), _PATCH)
        answers: Tensor = self.last(silu(torch.cat([pixels, drawn], dim=1)))
        return answers


@final
class _Layer(nn.Module):
    """Attention, then each token by itself; both read normalised tokens, and add to them."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(dropout)
        # Shift, scale and share of what is added, for both halves; at first nothing is added.
        start = torch.tensor([0.0, 1.0, 0.0, 0.0, 1.0, 0.0])
        self.own = nn.Parameter(start[:, None, None].expand(6, 1, width).clone())

    def forward(self, x: Tensor, told: Tensor) -> Tensor:
        shift, scale, share, shift_2, scale_2, share_2 = (told + self.own).unbind(1)  # (m, 1, width) each
        here = torch.addcmul(shift, scale, layer_norm(x, x.shape[-1:]))
        q, k, v = self.qkv(here).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        y = scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        x = torch.addcmul(x, share, self.dropout(self.out(y)))
        here = torch.addcmul(shift_2, scale_2, layer_norm(x, x.shape[-1:]))
        return torch.addcmul(x, share_2, self.dropout(self.down(gelu(self.up(here)))))
