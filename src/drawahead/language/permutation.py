"""Permutation language models of transformers: XLNet and whatever takes its `perm_mask` and `target_mapping`.

Such a model reads a text in any order it is told, and each known token only sees those known before it. So all the
conditionings along a guessed path are answered by one forward pass, where a masked model needs one for each; and the
answers depend on the order in which the known tokens were drawn, not only on what they are.

**One pass.** In these models a position has one field of view, as a token that others read and as a question. Cut the
path after its first s steps: a position drawn before the cut sees the steps before its own, every later one sees the
first s. That pass answers

    (prefix k, position of step k)    for every k up to s: the targets,
    (prefix s, any later position)    the draft made at s.

`Sequential` and `Coupled`, which draft from their last answer alone, need one pass a sequence. `Block`, `Stepwise` and
`Recursive` ask for drafts at many prefixes, each of which is a pass of its own; with `Block(pipelined=False)` drafting
and verifying are one pass each. The report's `passes` are sequences handed over: where drafts are made at many
prefixes the network runs more, at most the report's `queries`.
"""

from __future__ import annotations

import copy
import inspect
from typing import Any, final

import torch
from torch import Tensor, nn

from drawahead.errors import InputError
from drawahead.language.network import Network, activation_bytes, replaced
from drawahead.language.shared import LanguageModel, LanguageOracle
from drawahead.oracles.tokens import HIDDEN


@final
class PermutationLM(LanguageModel):
    """A permutation language model and its tokenizer, as chains to draw from. Arguments are those of `MaskedLM`.

    Every prompt must have at least one token that is not a mask (XLNet's tokenizer adds two): without any, attention
    would have nothing to attend to but guesses.
    """

    def oracle(self, length: int, *, padded: bool = True) -> PermutationOracle:
        return PermutationOracle(self, length, padded)

    def _suits(self, model: nn.Module) -> None:
        accepted = inspect.signature(model.forward).parameters
        if not {"perm_mask", "target_mapping"} <= set(accepted):
            raise InputError(
                f"model {type(model).__name__} takes no perm_mask and target_mapping: PermutationLM is for XLNet "
                "and its kin; for a masked language model use MaskedLM"
            )
        config = getattr(model, "config", None)
        if getattr(config, "attn_type", "bi") != "bi" or getattr(config, "bi_data", False):
            raise InputError("the model must attend both ways: config.attn_type 'bi', and config.bi_data False")

    def _network(self) -> Network:
        ids = torch.tensor([[0, 0, self.mask], [0, self.mask, 0]], device=self.device)
        rank = torch.where(ids == self.mask, 0, -1)
        with torch.no_grad():
            return Network(self.model, _pass(self, ids, rank, torch.zeros_like(rank[:, :1])), _in_one_dtype)


@final
class PermutationOracle(LanguageOracle):
    """As few forward passes as the conditionings along each path allow: for `Sequential` and `Coupled`, one."""

    one_pass = True

    def __init__(self, language_model: PermutationLM, length: int, padded: bool = True) -> None:
        super().__init__(language_model, length, padded)
        self.bytes_per_query = activation_bytes(language_model.network, length, streams=2, scores=6)

    def rows(self, tokens: Tensor) -> Tensor:
        """Every hidden position given all known ones, as evidence."""
        rank = torch.where(tokens == HIDDEN, 0, -1)
        tokens = torch.where(tokens == HIDDEN, self.language_model.mask, tokens)
        return self._law(_pass(self.language_model, tokens, rank, torch.zeros_like(rank[:, :1])))

    def chain_rows(self, tokens: Tensor, rank: Tensor, row: Tensor, prefix: Tensor, position: Tensor) -> Tensor:
        if not bool(((rank < 0) & (tokens != self.language_model.pad)).any(1).all()):
            raise InputError("a permutation model needs a known token in every sequence: give it as evidence")
        last = torch.zeros_like(rank[:, 0]).scatter_reduce_(0, row, prefix, "amax")
        ahead = prefix < rank[row, position]
        cut = torch.where(ahead, prefix, last[row])  # the target of a step is answered by every later cut
        passes, context = torch.unique(torch.stack([row, cut]), dim=1, return_inverse=True)
        answers = torch.empty(len(row), self.vocab_size, dtype=torch.float64, device=self.device)
        most = len(tokens)  # at a time, so that memory is that of the sequences handed over
        for start in range(0, passes.shape[1], most):
            of, cut = passes[:, start : start + most]
            cells = ((context >= start) & (context < start + most)).nonzero()[:, 0]
            inputs = _pass(self.language_model, tokens[of], rank[of], cut[:, None])
            answers[cells] = self._law(inputs, context[cells] - start, position[cells])
        return answers


def _pass(lm: LanguageModel, tokens: Tensor, rank: Tensor, cut: Tensor) -> dict[str, Any]:
    """The model's inputs for complete `tokens` (m, n) drawn in the order of `rank` (m, n) and cut at `cut` (m, 1)."""
    m, n = tokens.shape
    dtype = next(lm.model.parameters()).dtype
    sees = torch.minimum(rank, cut).clamp_(min=0)  # each position sees the steps before this one
    unseen = (rank[:, None, :] >= sees[:, :, None]) | (tokens == lm.pad)[:, None, :]  # (m, seeing, seen)
    every = torch.eye(n, dtype=dtype, device=tokens.device).expand(m, n, n)
    return {"input_ids": tokens, "perm_mask": unseen.to(dtype), "target_mapping": every, "use_mems": False}


def _in_one_dtype(model: nn.Module) -> nn.Module:
    """XLNet makes its relative positions in float32 whatever its weights are, and then cannot multiply the two: the
    same model, sharing its weights, with positions in their dtype."""
    prefix = getattr(model, "base_model_prefix", "")
    base: Any = model._modules.get(prefix)
    if not hasattr(base, "relative_positional_encoding"):
        return model

    def encoding(*args: Any, **options: Any) -> Tensor:
        positions: Tensor = base.relative_positional_encoding(*args, **options)
        return positions.to(next(base.parameters()).dtype)

    twin = copy.copy(base)
    twin.relative_positional_encoding = encoding
    return replaced(model, prefix, twin)
