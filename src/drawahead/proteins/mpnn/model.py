"""ProteinMPNN: sequences for a protein backbone, in any order of the residues."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, final

import torch
from torch import Tensor

from drawahead.chains.base import Tally
from drawahead.chains.tokens import TokenChain
from drawahead.errors import InputError
from drawahead.oracles.condition import Order
from drawahead.oracles.tokens import HIDDEN
from drawahead.proteins.choices import (
    ALPHABET,
    Fixed,
    Tied,
    evidence_places,
    groups,
    known_steps,
    letters,
    membrane_labels,
    native_tokens,
    steps,
)
from drawahead.proteins.law import Profile, design_law
from drawahead.proteins.mpnn.decoder import Decoder
from drawahead.proteins.mpnn.encoded import Steps
from drawahead.proteins.mpnn.encoder import Weights, encode
from drawahead.proteins.mpnn.oracle import BackboneOracle
from drawahead.proteins.scores import Designs, Scores, scored
from drawahead.proteins.structures.files import as_backbone
from drawahead.randomness import seed_from
from drawahead.sample import Result, sample
from drawahead.samplers import Coupled, Sampler
from drawahead.samplers.record import as_sampler
from drawahead.validate import as_device, floating, number, whole

__all__ = ["ALPHABET", "Designs", "Profile", "ProteinMPNN", "Scores", "Weights"]


@final
class ProteinMPNN(BackboneOracle):
    """ProteinMPNN on one structure: `mpnn.design(8).sequences`. It is an oracle, too: `da.sample(mpnn.chain(), 8)`.

    weights: a published weight file of ProteinMPNN or LigandMPNN, such as v_48_020.pt, or `Weights.load` of one. Those
        of CA-only models read the positions of CA and nothing else, those of LigandMPNN the ligand of the structure.
    structure: the path of a PDB or mmCIF file, a `Backbone`, or coordinates (n, 4, 3) of N, CA, C, O.
    temperature: logits are divided by it.
    omit: letters that are never drawn, everywhere or by residue: "C", or {"A10-25": "C", "*": "W"}. X is omitted too,
        unless `omit` is empty.
    bias: added to the logits before the temperature: a number for each of some letters, {"A": -0.5}, or for letters of
        some residues, {"A10": {"W": 2.0}}; or an array (n, 21).
    tied: groups of residues that get the same amino acid, such as [["A1", "B1"], {"A2": 1.0, "B2": 0.5}]: each group is
        one step, drawn from the weighted mean of its members' logits.
    profile: amino acid frequencies from elsewhere, such as an alignment, mixed into the distribution.
    membrane: for membrane models, where residues lie: 0, 1 (at its surface) or 2 (inside), or {"A10-25": 2} for some;
        for the one with a global label, 1 for a transmembrane protein.
    evidence_order: a permutation of the steps; fixed ones are decoded first, in this order (default: a fixed random
        one). Residues decoded later attend to a fixed residue's token and to its own context.
    backbone_noise: the standard deviation, in angstroms, of noise added to the coordinates, once, from `noise_seed`.

    Residues are named by position, by label ("A42"), by range ("A10-25") or by chain ("A"); see `Backbone.select`. The
    encoder runs once, in the constructor, for all sequences. Steps are residues, unless some are tied.
    """

    def __init__(
        self,
        weights: str | Path | Weights,
        structure: Any,
        *,
        temperature: float = 0.1,
        omit: str | Mapping[int | str, str] = "X",
        bias: Any = None,
        tied: Tied | None = None,
        profile: Profile | None = None,
        membrane: Mapping[int | str, int] | int = 0,
        evidence_order: Order = None,
        backbone_noise: float = 0.0,
        noise_seed: int = 0,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str = "cpu",
    ) -> None:
        self.temperature = number("temperature", temperature, above=0)
        self.device = as_device("device", device)
        network = (weights if isinstance(weights, Weights) else Weights.load(weights)).to(
            floating("dtype", dtype), self.device
        )
        self.structure = as_backbone(structure, ca_only=network.ca_only)
        self.groups = groups(self.structure, tied)
        self.steps = steps(len(self.structure), self.groups)
        self.length, self.vocab_size = len(self.steps.members), len(ALPHABET)
        self.law = design_law(self.structure, self.steps, omit, bias, profile).to(self.device, dtype)
        self.place = evidence_places(self.length, evidence_order)[None].to(self.device)
        if bool((self.steps.count != self.steps.count[0]).any()):
            self.rates = self.steps.count.double()
        names, noise_seed = self.structure.chains, whole("noise_seed", noise_seed, 0, 2**63 - 1)
        noise = torch.randn(self.structure.coordinates.shape, generator=torch.Generator().manual_seed(noise_seed))
        moved = self.structure.coordinates + number("backbone_noise", backbone_noise, least=0) * noise
        graph = encode(
            network,
            moved.to(self.device, dtype),
            self.structure.index.to(self.device),
            torch.tensor([names.index(name) for name in self.structure.chain], device=self.device),
            (self.structure.ligand.to(self.device, dtype), self.structure.elements.to(self.device)),
            membrane_labels(self.structure, membrane).to(self.device),
        )
        self.decoder = Decoder.on(network, graph, self.steps)
        self.bytes_per_query = 3 * graph.edges.numel() * graph.edges.element_size()

    def chain(
        self,
        fixed: Fixed = None,
        order: Order = None,
        *,
        design_chains: Sequence[str] | None = None,
        redesign: int | str | Sequence[int | str] | None = None,
    ) -> TokenChain:
        """The chain that designs every residue but the fixed ones.

        fixed: residues that keep the letter of the structure, ["A10", "A20-25"]; letters of some residues,
            {0: "M", "A42": "C"}; or a sequence with X or - where a residue is to be designed (/ between chains is
            ignored).
        order: as for `TokenChain`; each sample gets a random one by default.
        design_chains, redesign: the only chains, or residues, to be designed; all others are as in the structure.
        """
        known = known_steps(self.structure, self.groups, self.steps, fixed, design_chains, redesign)
        return TokenChain(self, order=order, evidence=known if bool((known != HIDDEN).any()) else None)

    def design(
        self,
        num: int = 1,
        *,
        fixed: Fixed = None,
        design_chains: Sequence[str] | None = None,
        redesign: int | str | Sequence[int | str] | None = None,
        order: Order = None,
        sampler: Sampler | str | None = None,
        seed: int | None = None,
        first: int = 0,
        max_batch_size: int | None = None,
        progress: bool | None = None,
    ) -> Designs:
        """Draw `num` sequences; `Designs` holds them with their scores. Arguments are those of `chain` and `sample`;
        the sampler is `Coupled()` by default."""
        chain = self.chain(fixed, order, design_chains=design_chains, redesign=redesign)
        result = sample(
            chain,
            num,
            first=first,
            sampler=as_sampler(sampler) or Coupled(),
            seed=seed_from(seed, None),
            max_batch_size=max_batch_size,
            progress=progress,
        )
        return self.designs(chain, result)

    def designs(self, chain: TokenChain, result: Result) -> Designs:
        """Samples of a chain of this model as sequences with scores, each scored in the order it was drawn in."""
        rank = chain.start(result.report.seed, result.numbers, Tally()).rank
        tokens = self.residues(result.samples)
        designed = self.designed(chain)
        scores = scored(self, tokens, rank, designed)
        alike = (tokens == native_tokens(self.structure))[:, designed].double()
        recovery = alike.mean(1) if bool(designed.any()) else torch.full((len(tokens),), torch.nan).double()
        return Designs(self.sequences(result.samples), tokens, scores.score, scores.global_score, recovery, result)

    def score(
        self,
        sequences: Sequence[str] | str,
        *,
        fixed: Fixed = None,
        design_chains: Sequence[str] | None = None,
        redesign: int | str | Sequence[int | str] | None = None,
        order: Order = None,
        seed: int = 0,
    ) -> Scores:
        """The mean negative log-probability of the designed residues of each sequence, and of all residues.

        As in the published tool it is the model's own, without temperature, bias or omitted letters, in a random order
        of the designed residues (`order` sets it) after the fixed ones.
        """
        tokens = self.tokens([sequences] if isinstance(sequences, str) else sequences)
        chain = self.chain(fixed, order, design_chains=design_chains, redesign=redesign)
        rank = chain.start(seed, torch.arange(len(tokens)), Tally()).rank
        return scored(self, tokens, rank, self.designed(chain))

    def log_probs(self, sequences: Sequence[str] | str | None = None, *, order: Order = None, seed: int = 0) -> Tensor:
        """The model's own log-probabilities: of every residue given the backbone alone (n, 21); or, of sequences, given
        those before it in the order (m, n, 21), which is random by default."""
        if sequences is None:
            hidden = torch.zeros(1, len(self.structure), dtype=torch.int64, device=self.device)
            with torch.no_grad():
                logits, _ = self.plain.decode(hidden, hidden, hidden)
            return logits[0].log_softmax(-1).cpu()
        tokens = self.tokens([sequences] if isinstance(sequences, str) else sequences)
        rank = self.chain(order=order).start(seed, torch.arange(len(tokens)), Tally()).rank
        return scored(self, tokens, rank, torch.ones(len(self.structure), dtype=torch.bool)).log_probs

    def sequences(self, samples: Tensor) -> list[str]:
        """Samples (m, steps) as strings, with / between chains."""
        chain = self.structure.chain
        breaks = ["/" if i and chain[i] != chain[i - 1] else "" for i in range(len(chain))]
        tokens = self.residues(samples).tolist()
        return ["".join(b + ALPHABET[t] for b, t in zip(breaks, row, strict=True)) for row in tokens]

    def residues(self, samples: Tensor) -> Tensor:
        """Samples (m, steps) as tokens of every residue (m, n)."""
        return samples[:, self.steps.of_residue.to(samples.device)]

    def tokens(self, sequences: Sequence[str]) -> Tensor:
        """Sequences as tokens of every residue (m, n)."""
        rows = [letters(f"sequences[{i}]", text.replace("/", "")) for i, text in enumerate(sequences)]
        for i, row in enumerate(rows):
            if len(row) != len(self.structure):
                raise InputError(
                    f"sequences[{i}] has {len(row)} letters, but the structure has {len(self.structure)} residues"
                )
        return torch.tensor(rows, dtype=torch.int64).view(len(rows), len(self.structure))

    def designed(self, chain: TokenChain) -> Tensor:
        """Which residues (n,) a chain designs."""
        known = torch.full((self.length,), HIDDEN) if chain.evidence is None else chain.evidence
        return (known == HIDDEN)[self.steps.of_residue]

    @property
    def plain(self) -> Decoder:
        """The decoder that takes every residue by itself, tied or not."""
        return self.decoder.with_steps(Steps.single(len(self.structure)))
