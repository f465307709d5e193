"""The first minute with drawahead: texts and clothes from the shipped networks, the comparison, pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any, final

from rich.console import Console

from drawahead import plots
from drawahead.cli.budget import sample_within
from drawahead.cli.compare import rows_of, table_of
from drawahead.cli.names import named
from drawahead.cli.progress import watching
from drawahead.cli.shipped import Subject, TargetOptions
from drawahead.networks.text import TEMPERATURE
from drawahead.report import Report
from drawahead.sample import Result, as_chain, sample
from drawahead.samplers import SAMPLERS
from drawahead.samplers import named as sampler_named
from drawahead.targets import Ising
from drawahead.views import Texts

PROMPT = "My fellow Americans, the state of our _____ is ______, and we will ____________ for every ______."
_WHY = ", for there is no GPU here"
SECONDS = 20.0  # the recursion has a heavy tail; the picture says so if it is cut


def run(folder: Path, console: Console, *, quiet: bool = False) -> dict[str, Any]:
    """Draw with the shipped networks, compare the samplers; write `fashion.png` and `demo.png` into `folder`.

    -> what was drawn and written, as plain values."""
    plots.check()
    folder.mkdir(parents=True, exist_ok=True)
    demo = _Demo(console, quiet)
    demo.texts()
    demo.clothes(folder / "fashion.png")
    demo.samplers(folder / "demo.png")
    return demo.found


@final
class _Demo:
    """Its parts. A progress line is gone before anything is printed: the two would write over each other."""

    def __init__(self, console: Console, quiet: bool) -> None:
        self.console, self.quiet = console, quiet
        self.found: dict[str, Any] = {"files": [], "texts": [], "reports": [], "comparison": []}

    def texts(self) -> None:
        """Two texts and a prompt filled in."""
        self._title(
            "Two texts of 256 characters",
            f"temperature {TEMPERATURE}; one by one each would take 256 rounds of the network",
        )
        self._show(named("text", TargetOptions()), 2)
        self._title("Blanks filled in", "what is drawn stands out")
        self.console.print(f"{PROMPT}\n", style="dim", highlight=False)
        self._show(named("text", TargetOptions(prompt=PROMPT)), 3)

    def clothes(self, path: Path) -> None:
        """A row of clothes."""
        subject = named("fashion", TargetOptions())
        self._title("Clothes", f"{subject.chain.steps} of the network's 1000 steps" + _WHY * bool(subject.remark))
        result = self._show(subject, 6)
        plots.images(result.samples, path)
        self._wrote(path, "clothes")

    def samplers(self, path: Path) -> None:
        """Every sampler on a law that is known exactly."""
        self._title("Every sampler on one law", "the Ising model on a 4x4 grid, coupling 0.4")
        chain = as_chain(Ising.grid(4, 4, coupling=0.4))
        with watching(self.quiet) as watch:
            rows = list(rows_of(chain, 1000, 0, watch))
        self.found["comparison"] = [row.to_dict() for row in rows]
        self.console.print(table_of(rows, f"{chain.steps} steps a sample", self.console.width))
        plots.progress(self._one_sample_each(), path, title="One sample of the 8x8 Ising model, round by round")
        self._wrote(path, "one sample of the 8x8 grid, round by round")

    def _show(self, subject: Subject, num: int) -> Result:
        with watching(self.quiet) as watch:
            result = sample(subject.chain, num, seed=0, on_round=watch.sampling(subject.name, num))
        self.found["reports"].append({"target": subject.name, **result.report.totals()})
        if isinstance(subject.view, Texts):
            self.found["texts"] += subject.view.plain(result.samples)
        self.console.print(subject.view.terminal(result, self.console), highlight=False)
        self.console.print(f"\n{result.report}\n", highlight=False, style="dim")
        return result

    def _title(self, title: str, rest: str) -> None:
        self.console.print(f"[bold]{title}[/bold]: {rest}\n", highlight=False)

    def _wrote(self, path: Path, what: str) -> None:
        self.found["files"].append(str(path))
        self.console.print(f"wrote {path}: {what}\n", highlight=False)

    def _one_sample_each(self) -> dict[str, Report]:
        """The same sample number drawn by every sampler, on a grid large enough to tell them apart."""
        oracle, reports = Ising.grid(8, 8, coupling=0.4), {}
        with watching(self.quiet) as watch:
            for name in SAMPLERS:
                chosen, on_round = sampler_named(name), watch.sampling(name, 1)
                reports[name] = sample_within(SECONDS, oracle, 1, sampler=chosen, seed=0, on_round=on_round)[0].report
        return reports
