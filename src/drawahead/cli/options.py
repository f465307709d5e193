"""The options of the commands: each has one name, one meaning and one help text."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

DRAWN, HOW, WRITTEN = "What is drawn", "How it is drawn", "What is written"
"""The headings of the help text."""


def _targets(incomplete: str) -> list[tuple[str, str]]:
    """For the shell's completion: names with a word about each."""
    from drawahead.cli.registry import entries

    return [(entry.name, entry.summary) for entry in entries() if entry.name.startswith(incomplete.lower())]


def _samplers(incomplete: str) -> list[str]:
    from drawahead.samplers import SAMPLERS

    return [name for name in ("auto", *SAMPLERS) if name.startswith(incomplete.lower())]


def option(
    panel: str | None,
    usage: str,
    text: str,
    *,
    least: int | None = None,
    most: int | None = None,
    usually: str | None = None,
    complete: Callable[[str], list[str]] | None = None,
) -> Any:
    """An option as its usage spells it ("--num -n N"; a flag has no value), under a heading of the help text."""
    words = usage.split()
    names = [word for word in words if word.startswith("-")]
    return typer.Option(
        *names,
        metavar="".join(words[len(names) :]),
        min=least,
        max=most,
        help=text,
        show_default=True if usually is None else usually,
        autocompletion=complete,
        rich_help_panel=panel,
    )


Target = Annotated[
    str,
    typer.Argument(
        metavar="TARGET",
        help="What to draw from; `drawahead targets` lists the names.",
        show_default=False,
        autocompletion=_targets,
    ),
]
Size = Annotated[
    int | None, option(DRAWN, "--size N", "Number of positions, or side of a grid; each target has a default.", least=1)
]
Num = Annotated[int | None, option(DRAWN, "--num -n N", "How many samples.", least=1, usually="8, 4 texts or 1 tiling")]
Seed = Annotated[
    int | None,
    option(DRAWN, "--seed N", "Random seed; with a named sampler, sample i is always the same.", least=0, usually="0"),
]
Sampler = Annotated[
    str | None,
    option(
        HOW,
        "--sampler NAME",
        "The sampler; `drawahead samplers` lists them. Auto measures and chooses.",
        usually="auto, or coupled with --window",
        complete=_samplers,
    ),
]
Window = Annotated[
    int | None, option(HOW, "--window N", "Steps drafted at a time; adapted to the target by default.", least=1)
]
MaxBatchSize = Annotated[
    int | None,
    option(
        HOW,
        "--max-batch-size N",
        "Largest batch for the model. Large rounds are split; their number does not change.",
        least=1,
    ),
]
Device = Annotated[
    Literal["cpu", "cuda"] | None,
    option(HOW, "--device cpu|cuda", "Where a shipped network runs.", usually="cuda if there is one"),
]
Dtype = Annotated[
    Literal["float16", "bfloat16", "float32", "float64"] | None,
    option(
        HOW,
        "--dtype DTYPE",
        "What a shipped network computes in: float16, bfloat16, float32 or float64.",
        usually="float32",
    ),
]
Compile = Annotated[
    bool,
    option(HOW, "--compile", "Put the network through torch.compile: about a minute at first, then faster rounds."),
]
Folder = Annotated[Path, typer.Option("--out", metavar="DIR", help="The folder to write into.", file_okay=False)]
Json = Annotated[bool, option(WRITTEN, "--json", "Print one JSON object, and nothing else, on stdout.")]
Quiet = Annotated[
    bool, option(WRITTEN, "--quiet -q", "No progress; only samples or verdicts, a line each, and nothing with --out.")
]

# Of `drawahead sample` alone.
Order = Annotated[
    Literal["random", "spread"] | None,
    option(DRAWN, "--order random|spread", "Order in which tokens are drawn: uniformly random, or spread evenly."),
]
Prompt = Annotated[
    list[str] | None,
    option(
        DRAWN,
        "--prompt TEXT",
        "For text: what to fill in, with an underscore for each missing character. For emoji: what to show; give it "
        "several times, and prompts take turns.",
    ),
]
Guidance = Annotated[
    float | None,
    option(DRAWN, "--guidance X", "For emoji: how strongly prompts are followed; 1 adds nothing.", usually="3"),
]
Temperature = Annotated[
    float | None,
    option(DRAWN, "--temperature X", "For text; below 1 sharpens the distributions.", usually="0.5"),
]
Steps = Annotated[
    int | None,
    option(
        DRAWN,
        "--steps N",
        "For fashion and emoji: how many of their 1000 steps.",
        least=1,
        usually="1000 on a GPU, else 100",
    ),
]
Graph = Annotated[
    str | None,
    option(
        DRAWN,
        "--graph GRAPH",
        "For spanning-tree (or tree) and matching: grid:N, grid:RxC, complete:N, cycle:N, or a file with weights: "
        "GraphML (.graphml), or a line `a b 2.5` for each edge.",
        usually="grid:16, or grid:8 for a matching",
    ),
]
Kernel = Annotated[
    str | None,
    option(
        DRAWN,
        "--kernel KERNEL",
        "For dpp: points:N, line:N, random:N, or a file with the likelihood kernel L, .npy or .csv.",
        usually="points:12",
    ),
]
Items = Annotated[
    int | None, option(DRAWN, "--items K", "For dpp: only subsets of exactly K items.", least=1, usually="any number")
]
Coupling = Annotated[
    float | None,
    option(DRAWN, "--coupling X", "For ising and tree: how strongly neighbours agree.", usually="0.4, and 0.5"),
]
Out = Annotated[
    Path | None,
    option(
        WRITTEN,
        "--out PATH",
        "Write to this file (.npz or .json, .png for pictures, .txt for texts), or, a name without an "
        "ending, into this folder, shard by shard.",
    ),
]
Resume = Annotated[
    bool,
    option(
        WRITTEN,
        "--resume",
        "Continue the job in the folder, or begin it; options left out are those of the job.",
    ),
]
ShardSize = Annotated[
    int | None,
    option(
        WRITTEN,
        "--shard-size N",
        "Samples in a shard: the most work that a crash can lose.",
        least=1,
        usually="half a minute of work, 64 MiB at most",
    ),
]
AnyVersion = Annotated[
    bool,
    option(
        WRITTEN,
        "--any-version",
        "Resume under another version of drawahead or torch, which may give other samples.",
    ),
]
Workers = Annotated[
    str | None,
    option(
        HOW,
        "--workers ray[:N]",
        "Draw whole shards of the folder on a Ray cluster, with N workers that each hold the model.",
        usually="none; ray: as many as there is room for",
    ),
]
Address = Annotated[
    str | None,
    option(
        HOW, "--address HOST:PORT", "Address of the Ray cluster.", usually="RAY_ADDRESS, or a new one on this machine"
    ),
]
GpusPerWorker = Annotated[
    float | None, option(HOW, "--gpus-per-worker X", "GPUs that Ray reserves for each worker.", usually="0")
]
