"""The reference page of the command line, made from the commands themselves: `python tools/cli_reference.py`."""

from __future__ import annotations

import sys
from typing import Any

import typer

from drawahead.cli.app import app, value

COMMON = ("num", "seed", "sampler", "window", "max_batch_size", "device", "dtype", "out", "json", "quiet")
"""The options that mean the same wherever they are."""
INTRO = """# The command line

<!-- Made by `python tools/cli_reference.py > docs/cli.md`; a test compares. -->

`drawahead` draws samples, writes pages about them, and compares and tests samplers. Install it with `pip install
'drawahead[cli]'`. An option has the same name and meaning in every command that has it:

"""
WHY = """
Upper and lower case do not matter in the names of commands, options, targets and samplers, and the error about a
misspelt name suggests the right one. A command lacks the options that would have no meaning there: `compare` runs every
sampler; your own model, which `verify` tests, already has its device and dtype, and the verdict is an exit status;
`report` shows a finished job; `targets`, `samplers` and `models` only list.

Samples and reports go to stdout. Progress goes to stderr, in one line: samples and steps done, rounds, queries, steps
per second and the time left. It appears on a terminal only, and not with `--quiet`. With `--json`, stdout holds one
JSON object and nothing else.

| exit status | |
|---|---|
| 0 | success |
| 1 | failure: one line on stderr says why |
| 2 | no such command or option |
| 3 | `verify`: the model failed a check |
| 130 | Ctrl-C: finished samples are kept |

`drawahead --install-completion` sets up completion in your shell: commands, options, names of targets and samplers.
"""


def page() -> str:
    """The whole page, in Markdown."""
    group: Any = typer.main.get_command(app)
    commands: dict[str, Any] = group.commands
    parts = [INTRO, _matrix(commands), WHY]
    parts += [_section(name, command) for name, command in commands.items()]
    return "".join(parts)


def _matrix(commands: dict[str, Any]) -> str:
    """Which command has which of the common options."""
    head = f"| | {' | '.join(f'`{name}`' for name in commands)} |\n|---|{'---|' * len(commands)}\n"
    rows = ""
    for option in COMMON:
        has = ["yes" if any(p.name == option for p in command.params) else "" for command in commands.values()]
        if any(has):
            rows += f"| `--{option.replace('_', '-')}` | {' | '.join(has)} |\n"
    return head + rows


def _section(name: str, command: Any) -> str:
    arguments = [p for p in command.params if not p.opts[0].startswith("-")]
    usage = " ".join(["drawahead", name, *((p.metavar or p.name).upper() for p in arguments), "[options]"])
    parts = [f"\n## {name}\n\n{command.help}\n\n```\n{usage}\n```\n"]
    if command.params:
        parts.append("\n| | | usually |\n|---|---|---|\n")
    parts += [f"| {_spelled(p)} | {_cell(p.help or '')} | {_cell(_usual(p))} |\n" for p in command.params]
    return "".join(parts)


def _spelled(parameter: Any) -> str:
    if not parameter.opts[0].startswith("-"):
        return f"`{(parameter.metavar or parameter.name).upper()}`"
    return f"{', '.join(f'`{name}`' for name in parameter.opts)} {_cell(value(parameter))}".rstrip()


def _usual(parameter: Any) -> str:
    shown, default = getattr(parameter, "show_default", None), parameter.default
    if isinstance(shown, str):
        return shown
    return "" if default is None or default is False or not shown else str(default)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    sys.stdout.write(page())
