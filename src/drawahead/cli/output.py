"""Where samples go: the terminal, a file, or one JSON object."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import final

from rich.console import Console

from drawahead.cli import files
from drawahead.cli.names import setup
from drawahead.cli.saying import say, say_json
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
            say_json(files.to_dict(self.subject, result))
        elif not self.quiet:
            console.print(self.subject.view.terminal(result, console))
            say("", *f"{result.report}{setup(self.subject.setup_seconds)}".splitlines())
            if self.out is not None:
                say(f"wrote {self.out}")
        elif self.out is None:
            say(*(self.subject.view.line(values) for values in result.samples))
