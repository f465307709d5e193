"""Everything that the command line knows by name: its commands, and what can be drawn.

Each house brings its own. A command is loaded when it runs, and a house when none before it has the name asked for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drawahead.cli.subjects import Entry, Subject, TargetOptions, in_order
from drawahead.errors import InputError
from drawahead.words import meant, pick

if TYPE_CHECKING:
    from drawahead.samplers import Sampler

COMMANDS = {
    "Draw": {
        "sample": "cli.sampling",
        "design": "proteins.commands.design",
        "report": "jobs.commands.report",
        "demo": "teaching.commands.demo",
    },
    "Long jobs": dict.fromkeys(("status", "check", "export"), "jobs.commands.folders"),
    "Check and measure": {
        "compare": "teaching.commands.compare",
        "verify": "verification.commands",
        "time": "verification.commands",
        "doctor": "cli.doctor",
    },
    "Look up": {
        **dict.fromkeys(("targets", "samplers", "models"), "cli.lookup"),
        "explain": "teaching.commands.explain",
    },
}
"""Under each heading of the help text: the commands, and the module below drawahead that has the function."""
HOUSES = ("networks.commands", "targets.commands", "counting.commands.entries")
"""Modules with `entries()`: what can be drawn from, in the order in which it is listed."""
HINT = "give package.module:name or file.py:name, where name is an oracle, a chain, or a function that makes one"
"""How a model of the user's own is named."""
_NOTED = 0.1  # seconds of setting up that are worth a line


def command(name: str) -> Callable[..., Any]:
    """The function of a command."""
    (module,) = (commands[name] for commands in COMMANDS.values() if name in commands)
    found: Callable[..., Any] = getattr(import_module(f"drawahead.{module}"), name)
    return found


def entries() -> Iterator[Entry]:
    """Everything that can be drawn by name, house by house."""
    for house in HOUSES:
        yield from import_module(f"drawahead.{house}").entries()


def entry_of(name: str) -> Entry | None:
    """The entry that a name means, whatever its case."""
    return next((entry for entry in entries() if meant(name, [entry.name]) == entry.name), None)


def is_own(name: str) -> bool:
    """Whether a name is an import path, a file or a folder: a model of the user's own. A folder that is called like
    something listed, as a job of it often is, must be written ./name."""
    return ":" in name or name.endswith(".py") or (Path(name).is_dir() and entry_of(name) is None)


def known_as(name: str) -> str:
    """A target's name as it is listed; of a model of the user's own, as it is."""
    entry = None if is_own(name) else entry_of(name)
    return name if entry is None else entry.name


def named(name: str, options: TargetOptions) -> Subject:
    """What is called `name`, with these options, and how long it took to make."""
    began = time.perf_counter()
    subject = _own(name, options) if is_own(name) else _listed(name, options)
    if options.compile:
        subject = replace(subject, chain=subject.chain.compiled())
    return replace(subject, setup_seconds=time.perf_counter() - began)


def setup(seconds: float) -> str:
    """A line for the end of a report, where that was long enough to matter."""
    return f"\n  set-up      {seconds:.3f} seconds more, before the first round" if seconds >= _NOTED else ""


def _listed(name: str, options: TargetOptions) -> Subject:
    of_graph = options.graph is not None and meant(name, ["tree"]) == "tree"  # another name of spanning-tree
    entry = entry_of("spanning-tree" if of_graph else name)
    if entry is None:
        entry = pick("target", name, {each.name: each for each in entries()}, f"; for a model of your own: {HINT}")
    called = "tree" if of_graph else entry.name
    options.only(called, *entry.options)
    return entry.make(called, options)


def _own(name: str, options: TargetOptions) -> Subject:
    from drawahead.chains.tokens import TokenChain
    from drawahead.cli import own
    from drawahead.show.views import view_of

    if options.device or options.dtype:
        raise InputError("--device and --dtype are for shipped networks: a model of your own has them already")
    options.only(name, "order", "prompt", "steps", "compile")
    chain = own.own(name, prompt=options.one_prompt, steps=options.steps)
    if isinstance(chain, TokenChain):
        chain = in_order(chain, options.order)
    else:
        options.only(name, "steps", "compile")
    return Subject(name, chain, view_of(chain), options=options.given)


def sampler_named(name: str | None, window: int | None) -> Sampler | None:
    """The sampler that the options name; a window alone stands for `Coupled`. None if neither is set."""
    from drawahead import samplers

    if name is None and window is None:
        return None
    if name is not None and name.lower() == "auto" and window is not None:
        raise InputError("--window does not go with --sampler auto, which chooses its window; name another sampler")
    return samplers.named(name or "coupled", window)
