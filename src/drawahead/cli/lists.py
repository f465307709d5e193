"""What there is: targets, samplers and models, as plain values; `tables.py` shows them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from importlib.util import find_spec
from typing import Any, final

from drawahead.cli.shipped import SHIPPED, TILINGS
from drawahead.counting.commands.named import COUNTED
from drawahead.samplers import SAMPLERS, Auto, Separated
from drawahead.samplers import Sampler as SamplerBase
from drawahead.targets import CHAINS, TARGETS


@final
@dataclass(frozen=True)
class Model:
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

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"installed": find_spec(self.library) is not None}


_YOURS = "any that the library loads"
ADAPTERS = tuple(
    Model(name, "adapter", summary, f"da.adapters.{name}", library, extra, weights)
    for name, summary, library, extra, weights in (
        ("MaskedLM", "masked language models, such as BERT", "transformers", "transformers", _YOURS),
        ("PermutationLM", "permutation language models: XLNet", "transformers", "transformers", _YOURS),
        ("ProteinLM", "masked models of protein sequences: ESM-2", "transformers", "transformers", _YOURS),
        ("generate", "left-to-right models, by their own generate()", "transformers", "transformers", _YOURS),
        ("from_diffusers", "a network and a scheduler of diffusers", "diffusers", "diffusers", _YOURS),
        ("DrawaheadPipeline", "pipelines of diffusers that draw images", "diffusers", "diffusers", _YOURS),
        ("policy", "diffusion policies, drawn by a copy", "diffusers", "diffusers", "your policy's"),
        ("accelerate", "diffusion policies, changed in place", "diffusers", "diffusers", "your policy's"),
        ("ProteinMPNN", "protein sequences for a backbone", "torch", "proteins", "the published files, as they are"),
    )
)


def models() -> list[dict[str, Any]]:
    """The shipped networks and the adapters, with what each needs, and whether that is installed."""
    shipped = [
        Model(name, "shipped", network.summary, f"drawahead sample {name}", "safetensors", "models", "shipped")
        for name, network in SHIPPED.items()
    ]
    return [model.to_dict() for model in (*shipped, *ADAPTERS)]


def samplers() -> list[dict[str, Any]]:
    """Every sampler and what it guarantees."""
    known: dict[str, type[SamplerBase]] = {"auto": Auto, **SAMPLERS, "separated": Separated}
    return [
        {
            "name": name,
            "exact": sampler.guarantee.exact,
            "rounds": sampler.guarantee.rounds,
            "summary": (sampler.__doc__ or "").strip().split("\n\n")[0].replace("\n    ", " "),
            "reference": sampler.guarantee.reference,
        }
        for name, sampler in known.items()
    ]


def targets() -> list[dict[str, Any]]:
    """Everything `drawahead sample` knows by name, with its usual size and the options of its own."""
    found: list[dict[str, Any]] = []

    def add(name: str, kind: str, summary: str, size: int | None, options: tuple[str, ...], **more: int) -> None:
        found.append({"name": name, "kind": kind, "summary": summary, "size": size, "options": list(options), **more})

    for name, network in SHIPPED.items():
        add(name, "network", network.summary, None, network.options)
    for name, target in TARGETS.items():
        oracle = target.make(target.default_size)
        counts = {"positions": oracle.length, "tokens": oracle.vocab_size}
        add(name, "tokens", target.summary, target.default_size, ("size", "order"), **counts)
    for name, chain in CHAINS.items():
        add(name, "vectors", chain.summary, chain.default_size, ("size",))
    for name, (_, size, summary) in TILINGS.items():
        add(name, "tiling", summary, size, ("size",))
    for name, counted in COUNTED.items():
        add(name, "counting", counted.summary, None, counted.options)
    return found
