"""Several structures as one oracle: sequences for proteins of different lengths share rounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor
from torch.nn.functional import pad

from drawahead.chains.tokens import TokenChain
from drawahead.errors import InputError
from drawahead.oracles.tokens import HIDDEN
from drawahead.proteins.choices import ALPHABET
from drawahead.proteins.law import DesignLaw
from drawahead.proteins.mpnn.decoder import Decoder
from drawahead.proteins.mpnn.encoded import stacked
from drawahead.proteins.mpnn.model import ProteinMPNN
from drawahead.proteins.mpnn.oracle import BackboneOracle

_NEUTRAL = {"share": 0.0, "profile": 0.0, "factor": 1.0, "omitted": False}  # what changes no law


def rung(length: int) -> int:
    """The length that a structure is padded to: the next one of a ladder with eight rungs an octave, so that padding is
    an eighth at most, and structures of similar lengths have the same."""
    step = max(8, 1 << max(0, length.bit_length() - 4))
    return -(-length // step) * step


@final
class Backbones(BackboneOracle):
    """ProteinMPNN on several structures, each with its own options: a chain of it draws sequences for all of them in
    shared rounds, the very sequences that each model draws alone.

    models: of the same weights, device and dtype, on structures with as many neighbours a residue: all that are not
        shorter than the network's neighbourhood, 48 residues, have.
    """

    def __init__(self, models: Sequence[ProteinMPNN]) -> None:
        if not models or not all(isinstance(each, ProteinMPNN) for each in models):
            raise InputError("models must be one or more ProteinMPNN")
        self.models = list(models)
        first = models[0]
        for i, each in enumerate(models):
            if not alike(first, each):
                raise InputError(
                    f"models[{i}] cannot share rounds with models[0]: weights, device, dtype and the number of "
                    "neighbours a residue must be the same"
                )
        self.device, self.vocab_size, self.temperature = first.device, len(ALPHABET), first.temperature
        self.length = rung(max(len(each.structure) for each in models))
        self.decoder = Decoder(
            first.decoder.weights, stacked([each.decoder.structures for each in models], self.length)
        )
        self.law = self._laws()
        self.place = torch.cat([self._padded(each.place) for each in models])
        if any(each.rates is not None for each in models):
            counts = torch.cat([self._padded(each.steps.count[None].double(), 1.0) for each in models])
            self.rates = counts.to(self.device)
        self.bytes_per_query = 4 * self.length * first.bytes_per_query // (3 * len(first.structure))

    def chain(
        self, structure: Tensor, evidence: Sequence[Tensor | None], numbers: Tensor, temperature: Tensor
    ) -> TokenChain:
        """The chain of sequences i on structure[i] (m,) at temperature[i], with the noise of sample numbers[i].

        evidence: of each structure, the tokens of its steps, `HIDDEN` where they are to be drawn, or None.
        """
        known = torch.zeros(len(self.models), self.length, dtype=torch.int64)
        for row, (model, given) in enumerate(zip(self.models, evidence, strict=True)):
            known[row, : model.length] = HIDDEN if given is None else given
        condition = {"structure": structure.to(self.device), "temperature": temperature.to(self.device)}
        return TokenChain(self, evidence=known[structure.cpu()], condition=condition, numbers=numbers)

    def _laws(self) -> DesignLaw:
        """The laws of all models, stacked; where only some have a profile, the others get one that changes nothing."""
        laws = [each.law for each in self.models]
        tables: dict[str, Tensor] = {"bias": torch.cat([self._padded(law.bias) for law in laws])}
        for name, neutral in _NEUTRAL.items():
            own = [getattr(law, name) for law in laws]
            one = next((table for table in own if table is not None), None)
            if one is not None:
                none = one.new_full((1, self.length, one.shape[2]), neutral)
                tables[name] = torch.cat([none if table is None else self._padded(table, neutral) for table in own])
        return DesignLaw(**tables)

    def _padded(self, table: Tensor, value: float = 0.0) -> Tensor:
        """A table (1, g, ...) with as many steps as all."""
        return pad(table, (0, 0) * (table.dim() - 2) + (0, self.length - table.shape[1]), value=value)


def alike(one: ProteinMPNN, other: ProteinMPNN) -> bool:
    """Whether two models can share rounds."""
    ours, theirs = one.decoder, other.decoder
    if ours.structures.neighbours.shape[2] != theirs.structures.neighbours.shape[2] or one.device != other.device:
        return False
    mine, yours = ours.weights.tensors, theirs.weights.tensors
    return mine.keys() == yours.keys() and all(
        table is yours[name] or (table.dtype == yours[name].dtype and torch.equal(table, yours[name]))
        for name, table in mine.items()
    )
