"""A causal language model of transformers as a left-to-right model, with its own cache and logits processors.

All rows of a batch share one cache, which is as long for one as for another. It is used as far as the tokens in it are
those that are asked about, and goes back to there: so answers are a function of the tokens, whatever was asked before.
"""

from __future__ import annotations

from typing import Any, final

import torch
from torch import Tensor

from drawahead.errors import InputError
from drawahead.oracles.causal import SAME, CausalOracle

_RECURRENT = ("cache_params", "state", "mems", "past_buckets_states")


@final
class CausalLM(CausalOracle):
    """`model_kwargs`, with the cache among them, and `processors` are as transformers prepares them for `input_ids`."""

    def __init__(
        self, model: Any, input_ids: Tensor, processors: Any, model_kwargs: dict[str, Any], *, looks_back: bool
    ) -> None:
        self.model, self.processors, self.kwargs = model, processors, model_kwargs
        self.batch, self.width = input_ids.shape
        self.device, self.looks_back = input_ids.device, looks_back
        _check_causal(model, input_ids)
        for processor in processors:
            _check_stateless(processor, input_ids, model)
        self._entered = input_ids[:, :0]  # tokens in the cache
        self._answers = torch.zeros(0)  # (batch, n, q) behind the tokens from `_first` on
        self._first = self.width - 1
        cache = model_kwargs.get("past_key_values")
        if cache is not None and hasattr(cache, "activate_past_recording"):
            cache.activate_past_recording()
        self._ask(input_ids, 0)  # the prompts, with all that belongs to them
        self.vocab_size = self._answers.shape[-1]

    def rows(self, tokens: Tensor, first: int, **condition: Tensor) -> Tensor:
        row = condition["row"]
        whole = tokens.new_zeros(self.batch, tokens.shape[1])
        known = min(tokens.shape[1], self._entered.shape[1])
        whole[:, :known] = self._entered[:, :known]  # of rows that have ended
        whole[row] = tokens
        same = (whole[:, :known] == self._entered[:, :known]).all(0).long().cumprod(0).sum()
        start = min(int(same), first) if first < self._first else int(same)
        if start < whole.shape[1]:
            self._ask(whole, start)
        answers = self._answers[:, first - self._first : whole.shape[1] - self._first]
        if not self.looks_back:
            self._answers, self._first = self._answers[:, first - self._first :], first
        return answers[row]

    def _ask(self, tokens: Tensor, start: int) -> None:
        """Enter the tokens from `start` on, after what is cached before, and keep the answers behind them."""
        length = tokens.shape[1]
        kwargs = dict(self.kwargs)
        if start:
            self._roll_back(start)
            encodes = self.model.config.is_encoder_decoder
            kwargs = self.model._update_model_kwargs_for_generation({}, kwargs, encodes, length - self.width)
        cached = kwargs.get("past_key_values") is not None
        inputs = self.model.prepare_inputs_for_generation(
            tokens,
            next_sequence_length=length - start if cached and start else None,
            is_first_iteration=not start,
            **kwargs,
        )
        first = max(start, self._first)
        if "logits_to_keep" in inputs:
            inputs["logits_to_keep"] = length - first
        outputs = self.model(**inputs, return_dict=True)
        logits = outputs.logits
        if logits.dim() != 3 or len(logits) != self.batch:
            raise InputError(
                f"{type(self.model).__name__} answers {tuple(logits.shape)} logits for {self.batch} sequences, not one "
                "row of them for each token: several codebooks, or guidance inside the model, cannot be drawn ahead"
            )
        if not start:
            self._check_cache(outputs)
        new = logits[:, first - length :].to(self.device, torch.float32)
        laws = [self._law(tokens[:, : first + i + 1], new[:, i]) for i in range(length - first)]
        kept = self._answers[:, : first - self._first] if self._answers.numel() else new[:, :0]
        self._answers, self._entered = torch.cat([kept, torch.stack(laws, dim=1)], dim=1), tokens.clone()

    def _law(self, prefix: Tensor, logits: Tensor) -> Tensor:
        """The law of the next token (batch, q): every processor sees the tokens before it, guesses among them."""
        law: Tensor = self.processors(prefix, logits.clone()).log_softmax(-1)
        return law

    def _check_cache(self, outputs: Any) -> None:
        """Refuse a cache that cannot go back; take the one that the model has made, if it had none."""
        recurrent = next((name for name in _RECURRENT if getattr(outputs, name, None) is not None), None)
        cache = getattr(outputs, "past_key_values", None)
        if not self.kwargs.get("use_cache", True):
            self.kwargs = {name: value for name, value in self.kwargs.items() if name != "past_key_values"}
            return
        layers = _layers(cache)
        if recurrent is not None or not all(_is_static(layer) or layer.is_croppable for layer in layers):
            raise InputError(
                f"the cache of {type(self.model).__name__} is a recurrent state or a ring, which cannot be rolled back "
                "to where guesses were wrong: give use_cache=False, or cache_implementation='dynamic' if it has one"
            )
        if layers:
            self.kwargs = self.kwargs | {"past_key_values": cache}

    def _roll_back(self, length: int) -> None:
        """Let the cache hold the first `length` tokens."""
        for layer in _layers(self.kwargs.get("past_key_values")):
            if _is_static(layer):
                layer.cumulative_length.fill_(length)
            else:
                layer.crop(length - self._entered.shape[1])


def _layers(cache: Any) -> list[Any]:
    """The layers of a cache that hold what was generated."""
    return list(getattr(getattr(cache, "self_attention_cache", cache), "layers", ()))


def _is_static(layer: Any) -> bool:
    """Whether it has room for all tokens, and a number that says how many are there."""
    return isinstance(getattr(layer, "cumulative_length", None), Tensor) and not getattr(layer, "is_sliding", False)


def _check_causal(model: Any, input_ids: Tensor) -> None:
    """Refuse a model whose answer changes with later tokens."""
    if model.config.is_encoder_decoder:
        return  # whose decoder is causal
    tokens = input_ids[:1, -1:].repeat(2, 2)
    tokens[1, 1] = (tokens[0, 1] + 1) % int(model.config.get_text_config().vocab_size)
    try:
        first, second = model(input_ids=tokens, use_cache=False, return_dict=True).logits[:, 0].double().softmax(-1)
    except Exception:  # any: a model that needs more than tokens says so where it is asked for good
        return
    if float((first - second).abs().sum()) / 2 > SAME:
        raise InputError(
            f"the answer of {type(model).__name__} changes with later tokens, so it is not a left-to-right model: load "
            "it as a decoder (is_decoder=True), or draw with adapters.MaskedLM"
        )


def _check_stateless(processor: Any, input_ids: Tensor, model: Any) -> None:
    """Refuse a processor that answers otherwise when it is asked about a longer text in between."""
    size = int(model.config.get_text_config().vocab_size)
    scores = torch.randn(len(input_ids), size, generator=torch.Generator().manual_seed(0)).to(input_ids.device)
    longer = torch.cat([input_ids, (input_ids[:, -1:] + 1) % size], dim=1)
    try:
        first, _, again = (processor(text, scores.clone()) for text in (input_ids, longer, input_ids))
    except Exception as error:  # any: it is the processor's
        raise InputError(f"{type(processor).__name__} failed on the prompt: {error}") from error
    if not torch.equal(first, again):
        raise InputError(
            f"{type(processor).__name__} keeps something between its calls, so it cannot be asked about guesses: leave "
            "it out, or leave custom_generate out"
        )
