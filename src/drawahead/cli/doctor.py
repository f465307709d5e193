"""`drawahead doctor`: versions, GPU, whether rounds are captured, and a self-test, to paste into a bug report."""

from __future__ import annotations

import os
import platform
import time
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Any

import typer

from drawahead.cli import options
from drawahead.cli.saying import say, say_json

NEEDED = ("torch", "numpy")
OPTIONAL = (
    "drawahead-models", "safetensors", "typer", "rich", "triton", "transformers", "diffusers", "matplotlib", "networkx",
    "scikit-learn", "ray",
)  # fmt: skip
FAILED = 3
"""The exit status when the self-test fails, as `verify` has it."""


def doctor(
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="[MODEL]",
            help="A model to look at instead of the shipped text model, as for `drawahead verify`.",
            show_default=False,
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """Say what is installed, what the GPU does, and whether a short self-test passes: for your bug report.

    Exit status: 0 all is well, 3 the self-test failed.
    """
    facts = {**machine(), "rounds": rounds(model), "self_test": self_test()}
    if json:
        say_json(facts)
    else:
        say(*lines(facts))
    if not facts["self_test"]["passed"]:
        raise typer.Exit(FAILED)


def machine() -> dict[str, Any]:
    """The versions of all that matters, and the devices."""
    import torch

    from drawahead import __version__

    gpus = [torch.cuda.get_device_properties(number) for number in range(torch.cuda.device_count())]
    return {
        "drawahead": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "packages": {name: _version(name) for name in (*NEEDED, *OPTIONAL)},
        "cuda": torch.version.cuda,
        "gpus": [{"name": gpu.name, "gibibytes": round(gpu.total_memory / 2**30)} for gpu in gpus],
    }


def rounds(model: str | None) -> dict[str, Any]:
    """How rounds of a model run here, captured or packed, and why; and what drawing one sample took."""
    import torch

    from drawahead import Coupled, Sequential, sample
    from drawahead.cli.registry import named
    from drawahead.cli.subjects import TargetOptions
    from drawahead.errors import InputError

    name = model or "text"
    own = model is not None
    options = TargetOptions() if own else TargetOptions(size=64, device="cuda" if torch.cuda.is_available() else None)
    try:
        chain = named(name, options).chain
    except InputError:
        if own:
            raise
        return {"model": name, "captured": False, "why": "the shipped networks are not installed"}
    facts: dict[str, Any] = {"model": name, "device": str(chain.device)}
    if torch.device(chain.device).type != "cuda":
        facts |= {"captured": False, "why": "the model is not on a GPU, so rounds are packed into batches"}
    else:
        try:
            sample(chain, sampler=Coupled(), seed=0, graphs=True)
            facts |= {"captured": True, "why": "rounds run as CUDA graphs"}
        except InputError as error:
            facts |= {"captured": False, "why": str(error)}
    for key, sampler in (("drawahead", Coupled()), ("one_by_one", Sequential())):
        began = time.perf_counter()
        facts[key] = {"rounds": sample(chain, sampler=sampler, seed=0).report.rounds}
        facts[key]["seconds"] = round(time.perf_counter() - began, 3)
    return facts


def self_test() -> dict[str, Any]:
    """Whether samples of a small token model and of a small diffusion have their distributions: a few seconds."""
    from drawahead import GaussianChain, StochasticLocalization, targets, verify

    began = time.perf_counter()
    tokens = targets.Ising.grid(3, 3)
    vectors = GaussianChain(targets.Hypercube(8), StochasticLocalization(32, radius=1.0, delta=0.05))
    verdicts = [verify(chain, 400, with_power=False) for chain in (tokens, vectors)]
    return {
        "passed": all(verdict.passed for verdict in verdicts),
        "verdicts": [verdict.words for verdict in verdicts],
        "seconds": round(time.perf_counter() - began, 1),
    }


def lines(facts: dict[str, Any]) -> list[str]:
    """The facts as people read them."""
    there = [f"{name} {number}" for name, number in facts["packages"].items() if number]
    missing = [name for name, number in facts["packages"].items() if not number]
    gpus = [f"{gpu['name']}, {gpu['gibibytes']} GiB" for gpu in facts["gpus"]]
    captured, test = facts["rounds"], facts["self_test"]
    out = [
        f"drawahead   {facts['drawahead']}, Python {facts['python']}, {facts['system']}",
        f"installed   {', '.join(there)}",
        *([f"missing     {', '.join(missing)} (optional)"] if missing else []),
        f"GPU         {'; '.join(gpus) or 'none that torch can use'}; torch is built "
        + (f"for CUDA {facts['cuda']}" if facts["cuda"] else "without CUDA"),
        f"rounds      {'captured' if captured['captured'] else 'not captured'}: {captured['why']}",
    ]
    if "drawahead" in captured:
        ours, theirs = captured["drawahead"], captured["one_by_one"]
        out.append(
            f"{captured['model']:11.11} {ours['rounds']} rounds in {ours['seconds']} s; one by one {theirs['rounds']} "
            f"in {theirs['seconds']} s (first calls, on {captured['device']})"
        )
    verdict = "passed" if test["passed"] else "FAILED: " + "; ".join(test["verdicts"])
    return [*out, f"self-test   {verdict} ({test['seconds']} s)"]


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
