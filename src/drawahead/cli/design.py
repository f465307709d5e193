"""`drawahead design`: sequences for folders of protein structures."""

from __future__ import annotations

import json as json_format
import shlex
import sys
from pathlib import Path
from typing import Any

import torch
import typer

from drawahead import design as tool
from drawahead.cli import design_options as own
from drawahead.cli import options
from drawahead.cli.failing import INTERRUPTED, Stopped, fail
from drawahead.design import scoring
from drawahead.design.folder import MANIFEST
from drawahead.design.page import page
from drawahead.design.standing import Standing
from drawahead.design.tables import is_file
from drawahead.errors import InputError
from drawahead.jobs import files
from drawahead.progress import bar, visible


def design(
    structures: own.Structures = None,
    out: own.Out = Path("designs"),
    model: own.Model = None,
    weights: own.WeightFolder = None,
    soluble: own.Soluble = None,
    ca_only: own.CaOnly = None,
    num: own.Num = None,
    temperature: own.Temperature = None,
    seed: options.Seed = None,
    backbone_noise: own.Noise = None,
    membrane: own.Membrane = None,
    chains: own.Chains = None,
    fixed_chains: own.FixedChains = None,
    fixed: own.Fixed = None,
    redesign: own.Redesign = None,
    tied: own.Tied = None,
    symmetry: own.Symmetry = None,
    symmetry_weights: own.SymmetryWeights = None,
    omit: own.Omit = None,
    omit_at: own.OmitAt = None,
    bias: own.Bias = None,
    bias_file: own.BiasFile = None,
    pssm: own.Pssm = None,
    pssm_share: own.PssmShare = None,
    pssm_threshold: own.PssmThreshold = None,
    pssm_log_odds: own.PssmLogOdds = None,
    batch: own.Batch = None,
    device: options.Device = None,
    dtype: options.Dtype = None,
    score_only: own.ScoreOnly = False,
    unconditional_probs: own.Unconditional = False,
    resume: own.Resume = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Design protein sequences for structures with ProteinMPNN, into FASTA files, a table and a page."""
    given: dict[str, Any] = {
        "model": model,
        "weights": None if weights is None else str(Path(weights).absolute()),
        "soluble": soluble,
        "ca_only": ca_only,
        "num": num,
        "temperature": _numbers("--temperature", temperature),
        "seed": seed,
        "backbone_noise": backbone_noise,
        "membrane": membrane,
        "chains": chains,
        "fixed_chains": fixed_chains,
        "fixed": fixed,
        "redesign": redesign,
        "tied": tied,
        "symmetry": symmetry,
        "symmetry_weights": _numbers("--symmetry-weights", symmetry_weights),
        "omit": omit,
        "omit_at": omit_at,
        "bias": bias,
        "bias_file": bias_file,
        "pssm": pssm,
        "pssm_share": pssm_share,
        "pssm_threshold": pssm_threshold,
        "pssm_log_odds": pssm_log_odds,
        "dtype": dtype,
    }
    given = {name: _absolute(value) for name, value in given.items() if value is not None}
    paths: list[Any] = list(structures or [])
    if resume and (out / MANIFEST).exists():
        begun, before = tool.settings(out)
        given, paths = begun.to_dict() | given, paths or before
    asked, where = tool.Options.of(given), device or ("cuda" if torch.cuda.is_available() else "cpu")
    if score_only or unconditional_probs:
        _score(out, paths, asked, where, unconditional_probs, json=json, quiet=quiet)
    else:
        _design(out, paths, asked, where, batch, resume, json=json, quiet=quiet)


def _design(
    out: Path,
    paths: list[Any],
    asked: tool.Options,
    device: str,
    batch: int | None,
    resume: bool,
    *,
    json: bool,
    quiet: bool,
) -> None:
    try:
        with bar() as show:

            def watch(standing: Standing) -> None:
                if not quiet:
                    show(standing.share, standing.parts())

            job = tool.run(out, paths, asked, device=device, batch=batch, resume=resume, watch=watch, on_fail=_tell)
    except KeyboardInterrupt:
        raise Stopped(f"interrupted; {_what_is_kept(out)}", INTERRUPTED) from None
    if job.parts:
        files.write(out / "report.html", page(job).encode())
    if json:
        typer.echo(json_format.dumps(_to_dict(job)))
    elif not quiet:
        for name, part in job.parts.items():
            rounds = sum(each.rounds for each in part.designed) / len(part.designed)
            recovery = sum(each.recovery for each in part.designed) / len(part.designed)
            typer.echo(
                f"{name}: {len(part.designed)} sequences, {rounds:.1f} passes instead of {part.steps}, "
                f"recovery {recovery:.0%}" + (f", without {', '.join(part.dropped[:5])}" if part.dropped else "")
            )
        typer.echo(f"wrote {out / 'seqs'}, {out / 'designs.csv'}" + (f" and {out / 'report.html'}" * bool(job.parts)))
    _end(job.failed, len(job.parts), out)


def _score(
    out: Path, paths: list[Any], asked: tool.Options, device: str, probabilities: bool, *, json: bool, quiet: bool
) -> None:
    scores, failed = scoring.score(out, paths, asked, probabilities=probabilities, device=device, on_fail=_tell)
    if json:
        typer.echo(json_format.dumps({"scores": [vars(each) for each in scores], "failed": failed}))
    else:
        for each in scores:
            typer.echo(
                f"{each.name}: score {each.score:.4f}, global score {each.global_score:.4f}, {each.orders} orders"
            )
    _end(failed, len(scores), out)


def _tell(name: str, why: str) -> None:
    """What is wrong with a structure, in a line of its own, not behind the progress."""
    if visible(sys.stderr):
        sys.stderr.write("\r\x1b[K")
    fail(f"{name}: {why}", 1)


def _end(failed: dict[str, str], done: int, out: Path) -> None:
    if failed:
        raise Stopped(f"{len(failed)} of {len(failed) + done} structures could not be done; the others are in {out}", 1)


def _what_is_kept(out: Path) -> str:
    if not (out / MANIFEST).exists():
        return "nothing was finished"
    kept = len(list((out / "parts").glob("[!.]*.json")))
    command = shlex.join(["drawahead", "design", "--out", str(out), "--resume"])
    return f"{kept} structures are kept in {out}; go on with: {command}"


def _to_dict(job: tool.Job) -> dict[str, Any]:
    return {
        "folder": str(job.folder),
        "structures": {
            name: {
                "steps": part.steps,
                "native": vars(part.native),
                "designs": [vars(each) for each in part.designed],
                "dropped": list(part.dropped),
            }
            for name, part in job.parts.items()
        },
        "failed": job.failed,
        "rounds": job.standing.rounds,
    }


def _absolute(value: Any) -> Any:
    """A file by its whole path, so that a job may be resumed from anywhere; anything else as it is."""
    return (
        str(Path(value).absolute()) if isinstance(value, str) and (is_file(value) or value.endswith(".pt")) else value
    )


def _numbers(name: str, text: str | None) -> list[float] | None:
    try:
        return None if text is None else [float(part) for part in text.replace(",", " ").split()]
    except ValueError:
        raise InputError(f"{name} must be numbers such as 0.1,0.2, not {text!r}") from None
