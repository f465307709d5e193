"""`drawahead targets`, `samplers` and `models`: what there is, as plain values and as tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from typing import Any, final

from drawahead.cli import options, registry
from drawahead.cli.saying import say_json
from drawahead.cli.subjects import TargetOptions


def targets(json: options.Json = False) -> None:
    """List what can be drawn from: the shipped networks, and distributions with exact oracles to try samplers on."""
    rows = target_rows()
    if json:
        say_json({"targets": rows})
        return
    values = {"vectors": "vectors", "tiling": "partners", "counting": "in or out"}
    networks, others = [], []
    for entry, row in zip(registry.entries(), rows, strict=True):
        flags = [f"--{name}" for name in row["options"]]
        if entry.kind == "network":
            networks.append((entry.name, entry.summary, str(entry.size), " ".join(flags)))
        else:
            tokens = str(row.get("tokens", values.get(entry.kind, "")))
            size = str(entry.size or flags[0])
            others.append((entry.name, entry.summary, size, str(row.get("positions", "")), tokens))
    _print("shipped networks", ("name", "what it is", "size>", "options"), networks)
    headings = ("name", "what it is", "size>", "positions>", "tokens>")
    _print("\ntargets with exact oracles", headings, others)


def samplers(json: options.Json = False) -> None:
    """List the samplers, with what each one guarantees."""
    from drawahead.show.terminal import yes_or_no

    rows = sampler_rows()
    if json:
        say_json({"samplers": rows})
        return
    _print(
        "samplers",
        ("name", "exact", "rounds for n steps", "what it does", "reference"),
        [(row["name"], yes_or_no(row["exact"]), row["rounds"], row["summary"], row["reference"]) for row in rows],
    )


def models(json: options.Json = False) -> None:
    """List the shipped networks and the adapters for other libraries, with what each needs."""
    from rich.text import Text

    rows = model_rows()
    if json:
        say_json({"models": rows})
        return
    missing = {row["name"]: Text(f"pip install 'drawahead[{row['extra']}]'", style="red") for row in rows}
    there = {row["name"]: Text(f"{row['library']}, installed", style="green") for row in rows if row["installed"]}
    _print(
        "models",
        ("name", "what it is", "weights", "library"),
        [(row["name"], row["summary"], row["weights"], (missing | there)[row["name"]]) for row in rows],
        "Shipped: drawahead sample text. Adapters, in Python: da.adapters.MaskedLM and so on.",
    )


@final
@dataclass(frozen=True)
class ListedModel:
    """A model that drawahead ships or adapts."""

    name: str
    kind: str
    summary: str
    use: str
    """The command or the name in Python."""
    library: str
    """What must be installed for it."""
    extra: str
    """The extra that installs it."""
    weights: str
    """Where they come from."""


_SHIPPED = ("safetensors", "models", "shipped")
_YOURS = "any that the library loads"
ADAPTERS = tuple(
    ListedModel(name, "adapter", summary, f"da.adapters.{name}", library, extra, weights)
    for name, summary, library, extra, weights in (
        ("MaskedLM", "masked language models, such as BERT", "transformers", "transformers", _YOURS),
        ("PermutationLM", "permutation language models: XLNet", "transformers", "transformers", _YOURS),
        ("ProteinLM", "masked models of protein sequences: ESM-2", "transformers", "transformers", _YOURS),
        ("generate", "left-to-right models, by their own generate()", "transformers", "transformers", _YOURS),
        ("from_diffusers", "a network and a scheduler of diffusers", "diffusers", "diffusers", _YOURS),
        ("DrawaheadPipeline", "pipelines of diffusers that draw images", "diffusers", "diffusers", _YOURS),
        ("policy", "diffusion policies, drawn by a copy", "diffusers", "diffusers", "your policy's"),
        ("accelerate", "diffusion policies, changed in place", "diffusers", "diffusers", "your policy's"),
        ("from_score_sde", "score functions of SDEs, as in score_sde", "torch", "", "your network's"),
        ("from_denoising_diffusion", "diffusions of denoising-diffusion-pytorch", "torch", "", "your network's"),
        ("from_guided_diffusion", "diffusions of guided-diffusion", "torch", "", "your network's"),
        ("from_k_diffusion", "random samplers of k-diffusion", "torch", "", "your network's"),
        ("ProteinMPNN", "protein sequences for a backbone", "torch", "proteins", "the published files, as they are"),
    )
)


def model_rows() -> list[dict[str, Any]]:
    """The shipped networks and the adapters, with what each needs, and whether that is installed."""
    shipped = [
        ListedModel(entry.name, "shipped", entry.summary, f"drawahead sample {entry.name}", *_SHIPPED)
        for entry in registry.entries()
        if entry.kind == "network"
    ]
    return [asdict(model) | {"installed": find_spec(model.library) is not None} for model in (*shipped, *ADAPTERS)]


def sampler_rows() -> list[dict[str, Any]]:
    """Every sampler and what it guarantees."""
    from drawahead.samplers import SAMPLERS, Auto, Sampler, Separated

    classes: dict[str, type[Sampler]] = {"auto": Auto, **SAMPLERS, "separated": Separated}
    return [
        {
            "name": name,
            "exact": sampler.guarantee.exact,
            "rounds": sampler.guarantee.rounds,
            "summary": (sampler.__doc__ or "").strip().split("\n\n")[0].replace("\n    ", " "),
            "reference": sampler.guarantee.reference,
        }
        for name, sampler in classes.items()
    ]


def target_rows() -> list[dict[str, Any]]:
    """Everything `drawahead sample` knows by name, with its default size and the options of its own."""
    rows: list[dict[str, Any]] = []
    for entry in registry.entries():
        row: dict[str, Any] = {"name": entry.name, "kind": entry.kind, "summary": entry.summary}
        row |= {"size": None if entry.kind == "network" else entry.size, "options": list(entry.options)}
        if entry.kind == "tokens":
            oracle: Any = getattr(entry.make(entry.name, TargetOptions()).chain, "oracle")  # noqa: B009
            row |= {"positions": oracle.length, "tokens": oracle.vocab_size}
        rows.append(row)
    return rows


def _print(title: str, headings: Sequence[str], rows: Sequence[Sequence[Any]], caption: str | None = None) -> None:
    """A table; a heading that ends in > is that of numbers."""
    from rich.console import Console

    from drawahead.show.terminal import titled

    table = titled(title.strip(), headings[0])
    table.caption = caption
    for heading in headings[1:]:
        number = heading.endswith(">")
        table.add_column(heading.rstrip(">"), justify="right" if number else "left", no_wrap=heading == "size>")
    for row in rows:
        table.add_row(*row)
    if title.startswith("\n"):
        Console().print()
    Console().print(table)
