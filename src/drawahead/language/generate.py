"""transformers' `generate`, drawn ahead: `model.generate(**inputs, do_sample=True, custom_generate=generate)`.

What transformers prepares (prompts, logits processors, stopping criteria, a cache) is used as it is; only its loop over
single tokens is replaced. Sequences are those of the loop with `Sequential()`, token for token.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

import torch
from torch import Tensor

from drawahead.chains.base import Ends
from drawahead.chains.causal import CausalChain
from drawahead.errors import InputError, SamplingError
from drawahead.executors.local import Local
from drawahead.language.causal_lm import CausalLM
from drawahead.oracles.causal import FirstGuess, LastAnswer, as_guess
from drawahead.oracles.condition import Conditions
from drawahead.oracles.left_to_right import LeftToRight
from drawahead.oracles.tokens import HIDDEN
from drawahead.sample import Result, sample
from drawahead.samplers.base import Sampler
from drawahead.samplers.coupled import Auto, Coupled
from drawahead.samplers.record import as_sampler

if TYPE_CHECKING:
    from collections.abc import Callable

WINDOW = 32


def generate(
    model: Any,
    input_ids: Tensor,
    logits_processor: Any,
    stopping_criteria: Any,
    generation_config: Any,
    *,
    sampler: Sampler | str | None = None,
    first_guess: FirstGuess | None = None,
    seed: int | None = None,
    stream: Any = None,
    on_result: Callable[[Result], None] | None = None,
    synced_gpus: bool = False,
    streamer: Any = None,
    **model_kwargs: Any,
) -> Any:
    """Draws for a causal model of transformers: `model.generate(..., do_sample=True, custom_generate=generate)`.

    It adds these arguments to `model.generate`:

    sampler: how to draw; `Coupled(window=32)` by default. `Sequential()` draws the same tokens one by one.
    first_guess: as for `CausalChain`; `LastAnswer()` by default, and `Above(width)` for images.
    seed: as for `drawahead.sample`; by default one is drawn from torch's generator, which `set_seed` seeds.
    stream: a streamer, which receives tokens as they are committed (transformers does not pass `streamer=` on).
    on_result: called with the `Result`, which has the report.
    """
    _refuse(generation_config, input_ids, synced_gpus)
    rows, width = input_ids.shape
    length = int(generation_config.max_length) - width
    if length < 1:
        raise InputError(f"max_length={generation_config.max_length} leaves no token to draw: the prompt has {width}")
    guess = as_guess(LastAnswer() if first_guess is None else first_guess)
    network = CausalLM(model, input_ids, logits_processor, model_kwargs, looks_back=guess.looks_back)
    oracle = LeftToRight(network, length, guess, width)
    chain = CausalChain(
        oracle,
        max_length=length,
        prompt=input_ids,
        condition={"row": torch.arange(rows, device=input_ids.device)},
        end=_Criteria(stopping_criteria, streamer if stream is None else stream),
        first_guess=guess,
    )
    how = Coupled(window=WINDOW) if sampler is None else as_sampler(sampler)
    if isinstance(how, Auto):
        raise InputError("generate keeps one cache, which Auto's trials would fill: give da.Coupled(window=32) instead")
    seed = int(torch.randint(2**63 - 1, ())) if seed is None else seed
    try:
        result = sample(chain, rows, sampler=how, seed=seed, max_live=rows, executor=Local(max_batch_size=rows))
    except SamplingError as error:
        if isinstance(error.__cause__, InputError):
            raise error.__cause__ from None
        raise
    if on_result is not None:
        on_result(result)
    sequences = _sequences(input_ids, result.samples, chain, generation_config)
    if (put := streamer if stream is None else stream) is not None:
        put.end()
    if not generation_config.return_dict_in_generate:
        return sequences
    from transformers.generation.utils import GenerateDecoderOnlyOutput, GenerateEncoderDecoderOutput

    kind = GenerateEncoderDecoderOutput if model.config.is_encoder_decoder else GenerateDecoderOnlyOutput
    return kind(sequences=sequences)  # type: ignore[arg-type]


def _refuse(config: Any, input_ids: Tensor, synced: bool) -> None:
    """What cannot be drawn ahead, by name."""
    if not config.do_sample:
        raise InputError("do_sample=False is greedy search, which draws nothing: leave custom_generate out")
    if (config.num_beams or 1) > 1:
        raise InputError(f"num_beams={config.num_beams} is beam search, which draws nothing: leave custom_generate out")
    if input_ids.dim() != 2 or not input_ids.shape[1]:
        raise InputError(f"input_ids must be (batch, at least one token), not {tuple(input_ids.shape)}: give input_ids")
    for name in ("output_scores", "output_logits", "output_attentions", "output_hidden_states"):
        if config.return_dict_in_generate and getattr(config, name, False):
            raise InputError(f"{name}=True: only sequences are returned; leave it out, or leave custom_generate out")
    if synced:
        raise InputError("synced_gpus=True: models that are sharded by ZeRO or FSDP cannot be drawn ahead")


@final
class _Criteria(Ends):
    """Stopping criteria of transformers as where samples end: they are asked about tokens that are drawn for good, in
    the order in which they came, each with all that is before it."""

    def __init__(self, criteria: Any, stream: Any) -> None:
        self.criteria, self.stream = criteria, stream

    def __call__(self, tokens: Tensor, before: Tensor, now: Tensor, most: int, condition: Conditions) -> Tensor:
        ended = torch.full_like(now, tokens.shape[1])
        for i, (low, high) in enumerate(zip(before.tolist(), now.tolist(), strict=True)):
            text = torch.cat([condition["prompt"][i], tokens[i]])[None]
            begin = text.shape[1] - tokens.shape[1]
            for length in range(low + 1, high + 1):
                if self.stream is not None:
                    self.stream.put(tokens[i, length - 1 : length].cpu())
                if bool(self.criteria(text[:, : begin + length], None)[0]):
                    ended[i] = length
                    break
        return ended


def _sequences(input_ids: Tensor, samples: Tensor, chain: CausalChain, config: Any) -> Tensor:
    """Prompts and samples, padded on the right as transformers pads them."""
    pad, end = (getattr(config, name, None) for name in ("pad_token_id", "eos_token_id"))
    known = [one for one in (pad, *(end if isinstance(end, list | tuple) else [end])) if one is not None]
    filled = samples.masked_fill(samples == HIDDEN, int(known[0]) if known else 0)
    longest = int(chain.lengths(samples).max())
    return torch.cat([input_ids, filled[:, :longest].to(input_ids)], dim=1)
