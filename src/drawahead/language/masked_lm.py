"""Masked language models of transformers: BERT, RoBERTa, ALBERT, ESM and their kin.

    lm = MaskedLM(model, tokenizer, temperature=0.9)
    result = drawahead.sample(lm.chain("The [MASK] sat on the [MASK]."), 10)
    lm.text(result.samples)

Such a model gives the law of every hidden token given the known ones. These laws need not fit one joint law, so what
is drawn is the chain-rule law along each sample's order.
"""

from __future__ import annotations

import inspect
from typing import Any, final

import torch
from torch import Tensor, nn

from drawahead.errors import InputError
from drawahead.language.network import Network, activation_bytes
from drawahead.language.shared import LanguageModel, LanguageOracle
from drawahead.oracles.tokens import HIDDEN
from drawahead.validate import whole

_CAUSAL = 1e-3  # of what the last position hears: below it, what the first one hears is rounding


@final
class MaskedLM(LanguageModel):
    """A masked language model and its tokenizer, as chains to draw from.

    `model` is any `AutoModelForMaskedLM`, `tokenizer` the one it was trained with. `temperature`, `top_k` and `top_p`
    change the distribution itself, so that every sampler draws from the same one. Special tokens are never drawn, nor
    are those in `forbid` (tokens or their numbers).

    The model is put into evaluation mode; device and dtype are the model's. Prompts of different lengths are padded to
    share batches. If the model's answers depend on the padding, as without attention, each length is a batch of its
    own.
    """

    def oracle(self, length: int, *, padded: bool = True) -> MaskedOracle:
        apart = padded and self._hears_padding(self._texts(whole("length", length, 1)))
        return MaskedOracle(self, length, padded, apart)

    def _oracle_for(self, evidence: Tensor) -> MaskedOracle:
        padded = bool((evidence == self.pad).any())
        rows = torch.where(evidence == HIDDEN, self.mask, evidence).view(-1, evidence.shape[-1])
        return MaskedOracle(self, rows.shape[1], padded, padded and self._hears_padding(rows))

    def _texts(self, length: int) -> Tensor:
        """Made-up texts of a few lengths, padded."""
        allowed = (~self.forbidden.cpu()).nonzero()[:, 0]
        lengths = torch.tensor(sorted({1, length // 4, length // 2, length - 1} - {0, length}), dtype=torch.int64)
        texts = allowed[torch.arange(length) % len(allowed)].repeat(len(lengths), 1)
        texts[:, 1::2] = self.mask
        return texts.masked_fill(torch.arange(length) >= lengths[:, None], self.pad)

    @torch.no_grad()
    def _hears_padding(self, ids: Tensor) -> bool:
        """Whether answers change with the padding behind a text: tried on one text (., n) of each length."""
        ends = _ends(ids, self.pad)
        shown = ids.to(self.device)
        for end in sorted({*ends.tolist()} - {0, ids.shape[1]}):
            row = int((ends == end).nonzero()[0, 0])
            texts = shown[row : row + 1], shown[row : row + 1, :end]
            try:
                padded, alone = (
                    self.network.logits({"input_ids": text, "attention_mask": (text != self.pad).long()})[0, :end]
                    for text in texts
                )
            except Exception:  # any: a model that takes some lengths only must have its padding
                continue
            rounding = torch.finfo(alone.dtype).eps ** 0.5 * float(alone.nan_to_num(0.0, 0.0, 0.0).abs().max())
            if not torch.allclose(padded, alone, rtol=0.0, atol=rounding, equal_nan=True):
                return True
        return False

    def _suits(self, model: nn.Module) -> None:
        if "perm_mask" in inspect.signature(model.forward).parameters:
            raise InputError(f"model {type(model).__name__} is a permutation model: use PermutationLM")
        if _is_causal(model):
            raise InputError(
                f"model {type(model).__name__} is causal: its answer for a token does not depend on the tokens after "
                "it, so it cannot fill in blanks. Load a masked model, with AutoModelForMaskedLM.from_pretrained(...)"
            )

    def _network(self) -> Network:
        ids = torch.tensor([[0, self.mask, 0], [self.mask, 0, self.mask]], device=self.device)
        with torch.no_grad():
            return Network(self.model, {"input_ids": ids, "attention_mask": torch.ones_like(ids)})


def _ends(ids: Tensor, pad: int) -> Tensor:
    """How long texts (m, n) are without the padding behind them (m,)."""
    return ((ids != pad) * torch.arange(1, ids.shape[1] + 1, device=ids.device)).amax(1)


@torch.no_grad()
def _is_causal(model: nn.Module) -> bool:
    """Whether the last position hears of the first, but the first not of the last beyond rounding; tried on three short
    texts."""
    ids = torch.tensor([[0, 0, 0], [0, 0, 1], [1, 0, 0]], device=next(model.parameters()).device)
    try:
        logits: Tensor = model(input_ids=ids, attention_mask=torch.ones_like(ids), return_dict=True).logits
        of_last, of_first = (logits[0, 0] - logits[1, 0]).abs().max(), (logits[0, 2] - logits[2, 2]).abs().max()
        return bool(of_last < _CAUSAL * of_first)
    except Exception:  # any: it is the model's, and is told of where the model is asked in earnest
        return False


@final
class MaskedOracle(LanguageOracle):
    """One forward pass a conditioning. Pad tokens are hidden from attention; with `apart`, also from what else hears of
    them: sequences of one length are asked together, without the padding behind them."""

    def __init__(self, language_model: MaskedLM, length: int, padded: bool = True, apart: bool = False) -> None:
        super().__init__(language_model, length, padded)
        self.apart = apart
        self.bytes_per_query = activation_bytes(language_model.network, length)

    def rows(self, tokens: Tensor) -> Tensor:
        if not self.apart:
            return self._law(self._inputs(tokens))
        context, position = torch.ones_like(tokens).nonzero().T
        return self.rows_at(tokens, context, position).view(*tokens.shape, self.vocab_size)

    def rows_at(self, tokens: Tensor, context: Tensor, position: Tensor) -> Tensor:
        if not self.apart:
            return self._law(self._inputs(tokens), context, position)
        ends = _ends(tokens, self.language_model.pad)
        # Nothing is drawn in the padding: what is said of it is as if the model had said nothing.
        found = tokens.new_zeros(len(context), self.vocab_size, dtype=torch.float64)
        found = self.language_model.law(found, self.language_model.forbidden)
        for end in ends.unique().tolist():
            rows = (ends == end).nonzero()[:, 0]
            cells = ((ends[context] == end) & (position < end)).nonzero()[:, 0]
            if len(cells):
                inputs = self._inputs(tokens[rows, :end])
                found[cells] = self._law(inputs, torch.searchsorted(rows, context[cells]), position[cells])
        return found

    def _inputs(self, tokens: Tensor) -> dict[str, Any]:
        lm = self.language_model
        ids = torch.where(tokens == HIDDEN, lm.mask, tokens)
        # Without a mask transformers need not look whether it hides anything, which would wait for the device.
        return {"input_ids": ids, "attention_mask": (ids != lm.pad).long() if self.padded else None}
