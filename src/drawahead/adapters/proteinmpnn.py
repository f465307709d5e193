"""ProteinMPNN: sequences for a protein backbone, in any order of the residues."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, final

import torch
from torch import Tensor

from drawahead.adapters._mpnn import Decoder, Weights, encode
from drawahead.adapters.structures import Backbone
from drawahead.chains.tokens import Order, TokenChain
from drawahead.errors import InputError
from drawahead.models.oracles import HIDDEN, TokenOracle
from drawahead.validate import as_device, as_float64, readable, short

__all__ = ["ALPHABET", "ProteinMPNN", "Weights"]

ALPHABET = "ACDEFGHIKLMNPQRSTVWYX"
"""Token i is letter i. X, an unknown residue, may be known but is never drawn unless `omit` allows it."""


@final
class ProteinMPNN(TokenOracle):
    """ProteinMPNN on one structure, as an oracle: `da.sample(mpnn.chain(), 8, sampler=da.Coupled())`.

    weights: a published file of full-backbone weights, such as v_48_020.pt, or `Weights.load` of one.
    structure: the path of a PDB file, a `Backbone`, or coordinates (n, 4, 3) of N, CA, C, O.
    temperature: logits are divided by it.
    omit: letters that are never drawn.
    bias: added to the logits before the temperature: a number for each of some letters, or an array (n, 21).
    evidence_order: a permutation of the residues; known ones are decoded first, in this order (default: a fixed random
        one). What is decoded later sees of a known residue its token and what it saw itself.

    The model's answer depends on the order in which the known residues were decoded, so samplers ask `chain_rows`.
    `rows` takes all known residues as evidence. The encoder runs here, once; all sequences share what it found.
    """

    one_pass = True

    def __init__(
        self,
        weights: str | Path | Weights,
        structure: Any,
        *,
        temperature: float = 0.1,
        omit: str = "X",
        bias: Any = None,
        evidence_order: Order = None,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        if not (isinstance(temperature, int | float) and 0 < temperature < math.inf):
            raise InputError(f"temperature must be a positive number, not {short(temperature)}")
        self.device = as_device("device", device)
        self.structure = Backbone.of(structure)
        self.length, self.vocab_size = len(self.structure), len(ALPHABET)
        self.temperature = float(temperature)
        offset = self._bias(bias)
        offset[:, [ALPHABET.index(letter) for letter in _letters("omit", omit)]] = -math.inf
        if bool((offset == -math.inf).all(1).any()):
            raise InputError("omit and bias together leave no letter for some residue")
        self._offset = offset.to(self.device, dtype)
        self._place = self._evidence_places(evidence_order).to(self.device)
        network = (weights if isinstance(weights, Weights) else Weights.load(weights)).to(dtype, self.device)
        names = sorted(set(self.structure.chain))
        graph = encode(
            network,
            self.structure.coordinates.to(self.device, dtype),
            self.structure.index.to(self.device),
            torch.tensor([names.index(name) for name in self.structure.chain], device=self.device),
        )
        self.decoder = Decoder(network, graph)
        self.bytes_per_query = 3 * graph.edges.numel() * graph.edges.element_size()

    def chain(self, fixed: str | Mapping[int | str, str] | None = None, order: Order = None) -> TokenChain:
        """The chain that designs every residue but the fixed ones.

        fixed: a sequence with X or - where a residue is to be designed (/ between chains is ignored), or letters of
            some residues by position or label, such as {0: "M", "A42": "C"}.
        order: as for `TokenChain`; each sample gets a random one by default.
        """
        return TokenChain(self, order=order, evidence=None if fixed is None else self._evidence(fixed))

    def sequences(self, samples: Tensor) -> list[str]:
        """Samples (m, n) as strings, with / between chains."""
        chain = self.structure.chain
        breaks = ["/" if i and chain[i] != chain[i - 1] else "" for i in range(self.length)]
        return ["".join(b + ALPHABET[t] for b, t in zip(breaks, row, strict=True)) for row in samples.tolist()]

    def rows(self, tokens: Tensor) -> Tensor:
        hidden = tokens == HIDDEN
        rank = self._ranked(torch.where(hidden, 0, -1))
        logits, _ = self.decoder.decode(tokens.clamp(min=0), rank, rank)
        return self._law(logits, self._offset)

    def chain_rows(self, tokens: Tensor, rank: Tensor, row: Tensor, prefix: Tensor, position: Tensor) -> Tensor:
        rank = self._ranked(rank)
        # What comes after the last prefix that is asked of a sequence is seen by no cell. So the pass itself can show
        # such residues that prefix, which is what a draft asks for: only drafts from earlier prefixes need more.
        last = torch.zeros_like(rank[:, 0]).scatter_reduce_(0, row, prefix, "amax")
        seen = torch.minimum(rank, last[:, None])
        logits, tables = self.decoder.decode(tokens, rank, seen)
        if _known_true(seen[row, position] == prefix):
            logits = logits[row, position]
        else:
            logits = self.decoder.ask(tables, rank, row, prefix, position)
        return self._law(logits, self._offset[position])

    def path_rows(
        self, tokens: Tensor, rank: Tensor, prefix: Tensor, position: Tensor, last_only: bool = True
    ) -> Tensor:
        if not last_only:
            return super().path_rows(tokens, rank, prefix, position)
        rank = self._ranked(rank)
        seen = torch.minimum(rank, prefix.amax(1, keepdim=True))  # as above: no earlier prefix is drafted from
        logits, _ = self.decoder.decode(tokens, rank, seen)
        logits = logits.gather(1, position[..., None].expand(-1, -1, logits.shape[-1]))
        return self._law(logits, self._offset[position])

    def _ranked(self, rank: Tensor) -> Tensor:
        """Ranks (r, n) in which evidence comes first, each residue at its own place."""
        return torch.where(rank < 0, self._place, rank)

    def _law(self, logits: Tensor, offset: Tensor) -> Tensor:
        return ((logits + offset) / self.temperature).log_softmax(-1)

    def _bias(self, bias: Any) -> Tensor:
        offset = torch.zeros(self.length, len(ALPHABET), dtype=torch.float64)
        if isinstance(bias, Mapping):
            for letter, value in bias.items():
                if not isinstance(value, int | float):
                    raise InputError(f"bias of {letter} must be a number, not {short(value)}")
                offset[:, ALPHABET.index(_letters("bias", letter))] = float(value)
        elif bias is not None:
            given = as_float64("bias", bias, "cpu")
            if given.shape != offset.shape:
                raise InputError(f"bias must be a number a letter or {tuple(offset.shape)}, not {tuple(given.shape)}")
            offset += given
        if bool((offset.isnan() | (offset == math.inf)).any()):
            raise InputError("bias must be numbers (minus infinity forbids a letter)")
        return offset

    def _evidence_places(self, order: Order) -> Tensor:
        """-n ... -1 for every residue: its place among the evidence."""
        n = self.length
        if order is None:
            given = torch.randperm(n, generator=torch.Generator().manual_seed(0))
        else:
            given = torch.as_tensor(order).cpu()
            if given.shape != (n,) or not torch.equal(given.sort().values, torch.arange(n)):
                raise InputError(f"evidence_order must be a permutation of 0 ... {n - 1}")
        return given.argsort() - n

    def _evidence(self, fixed: str | Mapping[int | str, str]) -> Tensor:
        evidence = torch.full((self.length,), HIDDEN)
        if isinstance(fixed, str):
            letters = fixed.replace("/", "").replace("-", "X")
            if len(letters) != self.length:
                raise InputError(f"fixed has {len(letters)} letters, but the structure has {self.length} residues")
            known = [(i, letter) for i, letter in enumerate(letters) if letter != "X"]
        elif isinstance(fixed, Mapping):
            known = [(self._position(key), letter) for key, letter in fixed.items()]
        else:
            raise InputError(f"fixed must be a sequence or letters by residue, not {type(fixed).__name__}")
        for i, letter in known:
            evidence[i] = ALPHABET.index(_letters(f"fixed residue {i}", letter))
        return evidence

    def _position(self, key: int | str) -> int:
        labels: Sequence[str] = self.structure.labels
        if isinstance(key, str) and key in labels:
            return labels.index(key)
        if hasattr(key, "__index__") and 0 <= operator.index(key) < self.length:
            return operator.index(key)
        raise InputError(
            f"the structure has no residue {key!r}: positions are 0 ... {self.length - 1}, labels like {labels[0]!r}"
        )


def _letters(name: str, letters: Any) -> str:
    """The letters, or an InputError that names them."""
    if not isinstance(letters, str) or any(letter not in ALPHABET for letter in letters):
        raise InputError(f"{name} must be of the letters {ALPHABET}, not {short(letters)}")
    return letters


def _known_true(flags: Tensor) -> bool:
    """Whether all are True, where that can be known."""
    return readable(flags) and bool(flags.all())
