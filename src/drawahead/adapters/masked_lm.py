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

from drawahead.adapters._language import LanguageModel, LanguageOracle
from drawahead.adapters._network import Network, activation_bytes
from drawahead.errors import InputError
from drawahead.models.oracles import HIDDEN


@final
class MaskedLM(LanguageModel):
    """A masked language model and its tokenizer, as chains to draw from.

    `model` is any `AutoModelForMaskedLM`, `tokenizer` the one it was trained with. `temperature`, `top_k` and `top_p`
    shape the law itself, so that every sampler draws from the same one. Special tokens are never drawn, nor are those
    of `forbid` (tokens or their numbers).

    The model is put into evaluation mode, and stays where it is: device and dtype are the model's.
    """

    def oracle(self, length: int, *, padded: bool = True) -> MaskedOracle:
        return MaskedOracle(self, length, padded)

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


@torch.no_grad()
def _is_causal(model: nn.Module) -> bool:
    """Whether the last position hears of the first, but the first not of the last; tried on three short texts."""
    ids = torch.tensor([[0, 0, 0], [0, 0, 1], [1, 0, 0]], device=next(model.parameters()).device)
    try:
        logits: Tensor = model(input_ids=ids, attention_mask=torch.ones_like(ids), return_dict=True).logits
        return torch.equal(logits[0, 0], logits[1, 0]) and not torch.equal(logits[0, 2], logits[2, 2])
    except Exception:  # any: it is the model's, and is told of where the model is asked in earnest
        return False


@final
class MaskedOracle(LanguageOracle):
    """One forward pass a conditioning. Pad tokens are hidden from attention."""

    def __init__(self, language_model: MaskedLM, length: int, padded: bool = True) -> None:
        super().__init__(language_model, length, padded)
        self.bytes_per_query = activation_bytes(language_model.network, length)

    def rows(self, tokens: Tensor) -> Tensor:
        return self._law(self._inputs(tokens))

    def rows_at(self, tokens: Tensor, context: Tensor, position: Tensor) -> Tensor:
        return self._law(self._inputs(tokens), context, position)

    def _inputs(self, tokens: Tensor) -> dict[str, Any]:
        lm = self.language_model
        ids = torch.where(tokens == HIDDEN, lm.mask, tokens)
        # Without a mask transformers need not look whether it hides anything, which would wait for the device.
        return {"input_ids": ids, "attention_mask": (ids != lm.pad).long() if self.padded else None}
