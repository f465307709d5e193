"""What masked and permutation language models share: a model and its tokenizer, prompts in, text out, and the law that
logits become."""

from __future__ import annotations

import abc
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import torch
from torch import Tensor, nn

from drawahead.chains.tokens import TokenChain
from drawahead.errors import InputError
from drawahead.language.network import Network
from drawahead.oracles.condition import Order
from drawahead.oracles.tokens import HIDDEN, TokenOracle
from drawahead.validate import number, short, whole
from drawahead.values import refusal

if TYPE_CHECKING:
    from drawahead.show import View

Prompts = str | Tensor | Sequence[str] | Sequence[int] | Sequence[Tensor] | Sequence[Sequence[int]]


@final
@dataclass(frozen=True)
class TokenLaw:
    """From logits to the law a token is drawn from. It is part of the target: drafts and targets both pass here.

    Forbidden tokens go first; then the temperature; then all but the `top_k` most probable tokens; then all but the
    fewest of those left whose probability reaches `top_p`; what remains is normalised, in float64. Tokens that tie
    with the last one kept are kept too, so that the law does not depend on how a sort breaks ties.
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None

    def __post_init__(self) -> None:
        if not number("temperature", self.temperature) > 0:
            raise InputError(
                f"temperature must be positive, not {self.temperature}: for the most probable token use top_k=1"
            )
        if self.top_k is not None:
            whole("top_k", self.top_k, 1)
        if self.top_p is not None and not 0 < number("top_p", self.top_p) <= 1:
            raise InputError(f"top_p must be above 0 and at most 1, not {self.top_p}")

    def __call__(self, logits: Tensor, forbidden: Tensor) -> Tensor:
        """Logits (..., q) of any dtype, `forbidden` (q,) -> log-probabilities in float64."""
        scores = logits.to(torch.float64).masked_fill(forbidden, -torch.inf)
        scores = (scores - scores.amax(-1, keepdim=True)) / self.temperature  # from the best: no overflow
        if self.top_k is not None or self.top_p is not None:
            scores = scores.masked_fill(scores < self._least(scores), -torch.inf)
        return scores.log_softmax(-1)

    def _least(self, scores: Tensor) -> Tensor:
        """The score of the last token that is kept (..., 1)."""
        if self.top_k is None:
            best = scores.sort(-1, descending=True).values
        else:
            best = scores.topk(min(self.top_k, scores.shape[-1])).values
        if self.top_p is not None and self.top_p < 1:
            share = best.softmax(-1)
            before = share.cumsum(-1) - share
            best = best.masked_fill(before >= self.top_p, torch.inf)
        return best.amin(-1, keepdim=True)


class LanguageModel(abc.ABC):
    """A model and its tokenizer, and what may be drawn from them: see the final classes."""

    def __init__(
        self,
        model: nn.Module,
        tokenizer: Any,
        *,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        forbid: Iterable[str | int] = (),
    ) -> None:
        self._suits(model.eval())
        self.law = TokenLaw(temperature, top_k, top_p)
        """How logits become probabilities."""
        self.tokenizer = tokenizer
        self.mask, self.pad = self._special("mask"), self._special("pad")
        self.model = model
        """Its weights and layers may be changed."""
        self._agreed()
        table: Any = getattr(model, "get_input_embeddings", lambda: None)()
        if isinstance(table, nn.Embedding):
            self._has_room(table.num_embeddings)
        self.network = self._network()
        self.vocab_size = self.network.vocab_size
        self._has_room(self.vocab_size)
        self.forbidden = self._forbidden(forbid).to(self.device)
        """Which tokens are never drawn (q,)."""
        self.positions = _positions(model)

    def __setattr__(self, name: str, value: object) -> None:
        if "positions" in vars(self):  # it is made
            raise refusal(kind := type(self).__name__, f"{kind}(lm.model, lm.tokenizer, {name}=...)")
        super().__setattr__(name, value)

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return next(self.model.parameters()).device

    def captured_parts(self) -> dict[str, Any]:
        """What answers depend on: the tokenizer has no part in them."""
        return {name: part for name, part in vars(self).items() if name != "tokenizer"}

    @abc.abstractmethod
    def oracle(self, length: int, *, padded: bool = True) -> TokenOracle:
        """The model as an oracle on sequences of this many tokens. `padded=False` promises that none is a pad token."""

    @abc.abstractmethod
    def _suits(self, model: nn.Module) -> None:
        """Refuse a model of another kind, before anything is asked of its tokenizer."""

    @abc.abstractmethod
    def _network(self) -> Network:
        """The model as the oracle will ask it."""

    def chain(self, prompts: Prompts, *, order: Order = None) -> TokenChain:
        """What is to be drawn: one prompt, of which any number of samples can be drawn, or a list of them, of which
        sample i completes the i-th (so `prompts * 10` gives ten samples of each).

        A prompt is text with the tokenizer's mask token where tokens are to be drawn, or the token ids of such a
        text. `order` is as in `TokenChain`, over the positions of the padded prompts; or "left-to-right".
        """
        evidence = self.evidence(prompts)
        if isinstance(order, str) and order == "left-to-right":
            order = torch.arange(evidence.shape[-1])
        if not bool((evidence == HIDDEN).any()):
            raise InputError(
                f"prompts hold no mask token {self.tokenizer.mask_token!r}: put one wherever a token is to be drawn"
            )
        return TokenChain(self._oracle_for(evidence), order=order, evidence=evidence)

    def _oracle_for(self, evidence: Tensor) -> TokenOracle:
        """The oracle for these prompts."""
        return self.oracle(evidence.shape[-1], padded=bool((evidence == self.pad).any()))

    def evidence(self, prompts: Prompts) -> Tensor:
        """Prompts as evidence for a `TokenChain`: token ids, `HIDDEN` where a token is to be drawn, padded on the
        right. (n,) for one prompt, (prompts, n) for a list."""
        one = isinstance(prompts, str) or _is_ids(prompts)
        rows = [self._ids(i, prompt) for i, prompt in enumerate([prompts] if one else prompts)]
        if not rows:
            raise InputError("prompts are empty: give at least one")
        evidence = nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=self.pad)
        evidence = torch.where(evidence == self.mask, HIDDEN, evidence)
        return evidence[0] if one else evidence

    def text(self, samples: Tensor) -> Any:
        """Samples as text without special tokens: a list of strings, or a string for a single sample (n,)."""
        if samples.dim() > 1:
            return [self.text(sample) for sample in samples]
        return self.tokenizer.decode(samples.tolist(), skip_special_tokens=True)

    def _ids(self, i: int, prompt: Any) -> Tensor:
        if isinstance(prompt, str):
            ids = torch.tensor(self.tokenizer(prompt)["input_ids"], dtype=torch.int64)
            unknown = getattr(self.tokenizer, "unk_token_id", None)
            if unknown is not None and bool((ids == unknown).any()):
                raise InputError(
                    f"prompts[{i}] holds text that the tokenizer does not know (it becomes "
                    f"{self.tokenizer.unk_token!r}): write it as the tokenizer expects, or give token ids"
                )
        elif _is_ids(prompt):
            ids = torch.as_tensor(prompt).cpu()
        else:
            raise InputError(f"prompts[{i}] must be text or whole numbers (token ids), not {type(prompt).__name__}")
        if not len(ids):
            raise InputError(f"prompts[{i}] is empty")
        if self.positions is not None and len(ids) > self.positions:
            raise InputError(f"prompts[{i}] has {len(ids)} tokens, but the model has {self.positions} positions")
        bad = ((ids < 0) & (ids != HIDDEN)) | (ids >= self.vocab_size)
        if bool(bad.any()):
            raise InputError(f"prompts[{i}] holds token {int(ids[bad][0])}: the model has 0 ... {self.vocab_size - 1}")
        return ids.to(torch.int64)

    def _special(self, name: str) -> int:
        token = getattr(self.tokenizer, f"{name}_token_id", None)
        if token is None:
            raise InputError(
                f"the tokenizer has no {name} token: set tokenizer.{name}_token to the one the model was trained with"
            )
        return int(token)

    def _agreed(self) -> None:
        """Some models know the mask and pad tokens themselves; they must be the tokenizer's."""
        config, table = getattr(self.model, "config", None), _position_table(self.model)
        known = {"mask": getattr(config, "mask_token_id", None), "pad": table.padding_idx if table else None}
        for name, token in known.items():
            if token not in (None, self._special(name)):
                raise InputError(
                    f"the model takes token {token} for the {name} token, the tokenizer {self._special(name)}: "
                    "model and tokenizer do not belong together"
                )

    def _has_room(self, tokens: int) -> None:
        if max(self.mask, self.pad) >= tokens:
            raise InputError(
                f"the model has {tokens} tokens, but the tokenizer's mask and pad tokens are numbers {self.mask} and "
                f"{self.pad}: model and tokenizer do not belong together"
            )

    def _forbidden(self, forbid: Iterable[str | int]) -> Tensor:
        """Tokens that are never drawn (q,): special ones, numbers without a token, and those asked for."""
        if isinstance(forbid, str):
            raise InputError(f"forbid must be a list of tokens, not {short(forbid)}")
        vocabulary: dict[str, int] = self.tokenizer.get_vocab()
        numbers = set(vocabulary.values()) - set(self.tokenizer.all_special_ids)
        for token in forbid:
            one = vocabulary.get(token) if isinstance(token, str) else whole("forbid", token, 0)
            if one is None or one >= self.vocab_size:
                raise InputError(f"forbid names {token!r}, which is not a token of the model")
            numbers.discard(one)
        allowed = torch.tensor(sorted(one for one in numbers if one < self.vocab_size), dtype=torch.int64)
        if not len(allowed):
            raise InputError("forbid leaves no token to draw")
        return torch.ones(self.vocab_size, dtype=torch.bool).index_fill_(0, allowed, False)


class LanguageOracle(TokenOracle):
    """A language model on sequences of one length."""

    def __init__(self, language_model: LanguageModel, length: int, padded: bool) -> None:
        self.language_model = language_model
        self.padded = padded
        self.length = whole("length", length, 1)
        self.vocab_size = language_model.vocab_size
        self.device = language_model.device

    def view(self) -> View:
        from drawahead.show import Texts

        decode = self.language_model.tokenizer.decode
        return Texts(lambda sample: [decode([token], skip_special_tokens=True) for token in sample.tolist()])

    def _law(self, inputs: dict[str, Any], context: Tensor | None = None, position: Tensor | None = None) -> Tensor:
        lm = self.language_model
        if lm.model.training:
            raise InputError("the model was put back into training mode, where dropout is at work: call model.eval()")
        with torch.no_grad():
            if context is None or position is None:
                return lm.law(lm.network.logits(inputs), lm.forbidden)
            return lm.law(lm.network.logits_at(inputs, context, position), lm.forbidden)


def _position_table(model: nn.Module) -> nn.Embedding | None:
    """The table of learned positions, where the model has one."""
    for name, module in model.named_modules():
        if name.endswith("position_embeddings") and isinstance(module, nn.Embedding):
            return module
    return None


def _positions(model: nn.Module) -> int | None:
    """The most tokens the model can read (None: no limit)."""
    table = _position_table(model)
    if table is not None:  # RoBERTa and its kin number positions from the pad token's number on
        return table.num_embeddings - (0 if table.padding_idx is None else table.padding_idx + 1)
    limit = getattr(getattr(model, "config", None), "max_position_embeddings", None)
    return int(limit) if limit is not None and limit > 0 else None


def _is_ids(prompt: Any) -> bool:
    """Whether this is one prompt as token ids (n,)."""
    if isinstance(prompt, Tensor):
        return prompt.dim() == 1 and not prompt.is_floating_point() and prompt.dtype != torch.bool
    return isinstance(prompt, Sequence) and len(prompt) > 0 and all(type(token) is int for token in prompt)
