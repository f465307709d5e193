"""Masked models of protein sequences: ESM-2, AntiBERTy, and order-agnostic ones in the style of EvoDiff.

    lm = ProteinLM(model, tokenizer)
    chain = lm.chain("MKTAY____LVQGD", num_samples=10)
    lm.sequences(drawahead.sample(chain, 10).samples)

Such a model gives the law of every hidden residue given the known ones; what is drawn is the chain-rule law along each
sample's order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

import torch
from torch import Tensor, nn

from drawahead.chains.base import Tally
from drawahead.chains.tokens import TokenChain
from drawahead.errors import InputError
from drawahead.language.masked_lm import MaskedLM
from drawahead.oracles.condition import Order
from drawahead.oracles.tokens import HIDDEN, FunctionOracle, TokenOracle
from drawahead.sample import Result
from drawahead.validate import short, whole

AMINO_ACIDS = "ACDEFGHIKLMNPQRSTVWY"
_BLANK = "_"


@final
class ProteinLM:
    """A masked model of proteins, with sequences in and out.

    model, tokenizer: as for `MaskedLM`; only the 20 amino acids are drawn. temperature, top_k, top_p: change the
        distribution itself. omit: amino acids that are never drawn.
    """

    def __init__(
        self,
        model: nn.Module,
        tokenizer: Any,
        *,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        omit: str = "",
    ) -> None:
        vocabulary: dict[str, int] = tokenizer.get_vocab()
        missing = [letter for letter in AMINO_ACIDS if letter not in vocabulary]
        if missing:
            raise InputError(f"the tokenizer has no token for {', '.join(missing)}: it is not one of proteins")
        if any(letter not in AMINO_ACIDS for letter in omit):
            raise InputError(f"omit must be of the letters {AMINO_ACIDS}, not {short(omit)}")
        special = set(tokenizer.all_special_tokens)
        forbid = [token for token in vocabulary if (token not in AMINO_ACIDS or token in omit) and token not in special]
        self.lm = MaskedLM(model, tokenizer, temperature=temperature, top_k=top_k, top_p=top_p, forbid=forbid)
        self._token = {letter: vocabulary[letter] for letter in AMINO_ACIDS}
        single = list(tokenizer("A")["input_ids"])  # one residue, and what the tokenizer puts around a sequence
        at = single.index(self._token["A"])
        self._before, self._after = single[:at], single[at + 1 :]
        self._letter = {token: letter for letter, token in vocabulary.items() if len(letter) == 1}

    def chain(self, sequences: str | Sequence[str], *, num_samples: int = 1, order: Order = None) -> TokenChain:
        """The chain that draws `num_samples` sequences for each of these, with _ for each residue to be drawn.

        order: None (random), "left-to-right", "spread" or a permutation of the tokens, ends included. A single sequence
        can be drawn any number of times, whatever `num_samples` says.
        """
        one = isinstance(sequences, str)
        given = [sequences] if isinstance(sequences, str) else list(sequences)
        ids = [self._ids(i, sequence) for i, sequence in enumerate(given)]
        times = whole("num_samples", num_samples, 1)
        prompts: Any = ids[0] if one else [row for row in ids for _ in range(times)]
        if isinstance(order, str) and order == "left-to-right":
            order = torch.arange(max(map(len, ids)))
        return self.lm.chain(prompts, order=order)

    def sequences(self, samples: Tensor) -> list[str]:
        """Samples as sequences: letters with nothing between them."""
        return ["".join(self._letter.get(token, "") for token in row) for row in samples.tolist()]

    @staticmethod
    @torch.no_grad()
    def log_probs(chain: TokenChain, result: Result) -> Tensor:
        """The log-probability (m,) of each sample, by the chain rule along the order it was drawn in: a query for each
        residue drawn."""
        paths = chain.start(result.report.seed, result.numbers, Tally())
        found = []
        for number, tokens, rank in zip(result.numbers, result.samples.to(paths.rank.device), paths.rank, strict=True):
            steps = rank.argsort()[int((rank < 0).sum()) :]  # positions in the order they were drawn
            prefix = torch.arange(len(steps), device=steps.device)
            oracle = chain.oracle_of(number[None])
            rows = oracle.chain_rows(tokens[None], rank[None], torch.zeros_like(prefix), prefix, steps)
            found.append(rows.double().gather(1, tokens[steps, None]).sum().cpu())
        return torch.stack(found)

    def _ids(self, i: int, sequence: Any) -> Tensor:
        if any(letter not in self._token and letter != _BLANK for letter in sequence):
            raise InputError(f"sequences[{i}] must be of the letters {AMINO_ACIDS} and {_BLANK}, not {short(sequence)}")
        tokens = [self.lm.mask if letter == _BLANK else self._token[letter] for letter in sequence]
        return torch.tensor([*self._before, *tokens, *self._after], dtype=torch.int64)


def order_agnostic(
    network: Callable[[Tensor], Tensor], alphabet: str, mask: int, length: int, *, temperature: float = 1.0
) -> TokenOracle:
    """A network in the style of EvoDiff as an oracle on sequences of this length.

    network: ids (m, n), `mask` where hidden -> logits (m, n, letters or more); ids 0 ... are the letters of `alphabet`,
        which alone are drawn.
    """
    count = len(alphabet)
    if not count or 0 <= whole("mask", mask, 0) < count:
        raise InputError(f"mask must be a number past the letters, {count} or more, not {mask}")

    def rows(tokens: Tensor) -> Tensor:
        logits = network(torch.where(tokens == HIDDEN, mask, tokens))[..., :count]
        return (logits.to(torch.float64) / temperature).log_softmax(-1)

    return FunctionOracle(rows, length, count)
