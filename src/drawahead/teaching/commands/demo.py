"""The first minute with drawahead: texts, pictures from words and a tiling, and the rounds they took."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from drawahead.cli import options
from drawahead.cli.registry import named
from drawahead.cli.saying import say_json, watching
from drawahead.cli.subjects import Subject, TargetOptions

if TYPE_CHECKING:
    from rich.console import Console

    from drawahead.report import Report
    from drawahead.sample import Result

PROMPT = "My fellow Americans, the state of our _____ is ______, and we will ____________ for every ______."
WORDS = ["red apple", "cactus"]
FEW = 100  # steps of a picture on a CPU
WINDOW = 16  # of a picture on a CPU, where a wide round takes long
_WHY = ", because there is no GPU here"
TILED = 24  # the order of the tiling: large enough to see the frozen corners
_NEXT = """On a GPU a round of many queries takes little longer than a round of one, so fewer rounds are fewer seconds.
On a CPU they need not be: `drawahead time text` measures that, and `Auto`, the default, does before it draws.
Next: drawahead sample text --prompt "...", or a model of your own: drawahead verify file.py:model"""


def demo(out: options.Folder = Path("out"), json: options.Json = False, quiet: options.Quiet = False) -> None:
    """Draw texts, pictures from words and a tiling, and show how few rounds they took."""
    from rich.console import Console

    from drawahead.show import plots

    plots.check()
    out.mkdir(parents=True, exist_ok=True)
    parts = _Demo(Console(quiet=quiet or json), quiet or json)
    parts.texts()
    parts.pictures(out / "emoji.png")
    parts.tiling(out / "aztec.png")
    parts.one_by_one(out / "demo.png")
    if json:
        say_json(parts.values)


def _coupled(name: str, wanted: TargetOptions, window: int | None = None) -> Subject:
    """A target drawn in few rounds on every machine: `Auto` goes one by one where that is faster, as on most CPUs."""
    from drawahead.samplers import Coupled

    return replace(named(name, wanted), sampler=Coupled(window=window))


@final
class _Demo:
    """Its parts, and what they drew and wrote, as plain values. A progress line is gone before anything is printed."""

    def __init__(self, console: Console, quiet: bool) -> None:
        self.console, self.quiet = console, quiet
        self.values: dict[str, Any] = {"files": [], "texts": [], "reports": [], "rounds": []}
        self.drawn: list[tuple[str, Report]] = []
        self.first: Result

    def texts(self) -> None:
        """Two texts and a prompt filled in."""
        from drawahead.networks.text import TEMPERATURE

        self._title(
            "Two texts of 256 characters",
            f"temperature {TEMPERATURE}; one by one each would take 256 rounds of the network",
        )
        self.first = self._show(_coupled("text", TargetOptions()), 2, "a text of 256 characters")
        self._title("Blanks filled in", "what is drawn stands out")
        self.console.print(f"{PROMPT}\n", style="dim", highlight=False)
        self._show(_coupled("text", TargetOptions(prompt=PROMPT)), 3, f"{PROMPT.count('_')} blanks")

    def pictures(self, path: Path) -> None:
        """A picture of each prompt, in shared rounds."""
        import torch

        steps = None if torch.cuda.is_available() else FEW
        subject = _coupled("emoji", TargetOptions(prompt=WORDS, steps=steps), WINDOW if steps else None)
        words = ", ".join(WORDS)
        self._title(
            "Pictures from words", f"{words}; {subject.chain.steps} of the network's 1000 steps" + _WHY * bool(steps)
        )
        result = self._show(subject, len(WORDS), "a picture")
        subject.view.draw(result.samples, path)
        self._wrote(path, words)

    def tiling(self, path: Path) -> None:
        """A tiling drawn from both ends of many cuts at once."""
        subject = named("aztec", TargetOptions(size=TILED))
        self._title("A random tiling", f"the Aztec diamond of order {TILED}, every tiling as likely as any other")
        result = self._show(subject, 1, f"a tiling of {subject.chain.steps} squares")
        subject.view.draw(result.samples, path)
        self._wrote(path, "the tiling; its corners are frozen, its middle is not")

    def one_by_one(self, path: Path) -> None:
        """The first text once more, as everyone else draws it; and what all of it took."""
        from drawahead.sample import sample
        from drawahead.samplers import Sequential
        from drawahead.show import plots

        self._title("The first text again", "one character at a time, the usual way")
        chain = named("text", TargetOptions()).chain
        with watching(self.quiet) as watch:
            usual = sample(chain, 1, sampler=Sequential(), seed=0, on_round=watch("one by one", 1))
        same = usual.samples[0].equal(self.first.samples[0])
        words = "the same text, character for character" if same else "another text: rounding decided a character"
        rounds = self.first.report.sample_rounds[0]
        self.console.print(f"{words}, after {usual.report.rounds} rounds instead of {rounds}\n", highlight=False)
        reports = {"sequential": usual.report, "coupled": self.first.report}
        plots.progress(reports, path, title="One text, round by round")
        self._wrote(path, "how much of the text was settled after each round")
        self._rounds()

    def _rounds(self) -> None:
        """The end: rounds, beside one by one."""
        from drawahead.show.terminal import titled

        table = titled("Rounds: model calls that wait for the one before", "what", padding=3)
        for heading in ("one by one", "drawahead", "fewer"):
            table.add_column(heading, justify="right")
        for what, report in self.drawn:
            few = report.mean_rounds
            self.values["rounds"].append({"what": what, "one_by_one": report.steps, "drawahead": few})
            table.add_row(what, str(report.steps), f"{few:.1f}", f"{report.steps / few:.0f}x")
        self.console.print(table)
        self.console.print(f"\n{_NEXT}", highlight=False)

    def _show(self, subject: Subject, num: int, what: str) -> Result:
        from drawahead.sample import sample

        with watching(self.quiet) as watch:
            on_round = watch(subject.name, num)
            result = sample(subject.chain, num, sampler=subject.sampler, seed=0, on_round=on_round)
        self.values["reports"].append({"target": subject.name, **result.report.totals()})
        self.drawn.append((what, result.report))
        if ".txt" in subject.view.formats:
            self.values["texts"] += subject.view.plain(result.samples)
        self.console.print(subject.view.terminal(result, self.console), highlight=False)
        self.console.print(f"\n{result.report}\n", highlight=False, style="dim")
        return result

    def _title(self, title: str, rest: str) -> None:
        self.console.print(f"[bold]{title}[/bold]: {rest}\n", highlight=False)

    def _wrote(self, path: Path, what: str) -> None:
        self.values["files"].append(str(path))
        self.console.print(f"wrote {path}: {what}\n", highlight=False)
