"""Where samples go: the terminal, a file, or one JSON object."""

from __future__ import annotations

import json as json_format
from dataclasses import dataclass
from pathlib import Path
from typing import final

import typer
from rich.console import Console

from drawahead.cli import files
from drawahead.cli.names import setup
from drawahead.cli.shipped import Subject
from drawahead.sample import Result


@final
@dataclass(frozen=True)
class Output:
    """Where samples go."""

    subject: Subject
    out: Path | None
    json: bool
    quiet: bool

    def result(self, result: Result) -> None:
        """Write the file that was asked for, and print."""
        console = Console()
        if self.out is not None:
            files.write(self.out, self.subject, result)
        if self.json:
            typer.echo(json_format.dumps(files.to_dict(self.subject, result)))
        elif not self.quiet:
            console.print(self.subject.view.terminal(result, console))
            typer.echo(f"\n{result.report}{setup(self.subject.setup_seconds)}")
            if self.out is not None:
                typer.echo(f"wrote {self.out}")
        elif self.out is None:
            typer.echo("\n".join(self.subject.view.line(values) for values in result.samples))
