"""`drawahead design`: sequences for folders of protein structures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from drawahead.cli import options
from drawahead.errors import InputError
from drawahead.proteins.commands import options as own


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
    workers: own.Workers = None,
    address: options.Address = None,
    gpus_per_worker: options.GpusPerWorker = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Design protein sequences for structures with ProteinMPNN, into FASTA files, a table and a page."""
    given: dict[str, Any] = dict(locals())  # every option, by its name
    from drawahead.jobs.commands.workers import workers_named
    from drawahead.proteins.commands.designing import begun, draw, score

    given |= {
        "weights": None if weights is None else str(Path(weights).absolute()),
        "temperature": _numbers("--temperature", temperature),
        "symmetry_weights": _numbers("--symmetry-weights", symmetry_weights),
    }
    if not (structures or resume):
        raise InputError("which structures? Give PDB or mmCIF files, or folders of them")
    cluster = workers_named(workers, address, gpus_per_worker)
    if device is None and cluster is not None:
        device = "cuda" if cluster.gpus else "cpu"
    paths, asked, where = begun(out, list(structures or []), given, device, resume=resume)
    if score_only or unconditional_probs:
        if cluster is not None:
            raise InputError("--workers does not apply to scoring: leave it out")
        score(out, paths, asked, where, unconditional_probs, json=json, quiet=quiet)
    else:
        draw(out, paths, asked, where, batch, resume, cluster, json=json, quiet=quiet)


def _numbers(name: str, text: str | None) -> list[float] | None:
    try:
        return None if text is None else [float(part) for part in text.replace(",", " ").split()]
    except ValueError:
        raise InputError(f"{name} must be numbers such as 0.1,0.2, not {text!r}") from None
