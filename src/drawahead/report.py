"""What a run cost: rounds, queries and seconds, apart from the samples themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import cached_property
from operator import gt
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import torch
from torch import Tensor

from drawahead.errors import InputError
from drawahead.validate import short
from drawahead.values import dataclass
from drawahead.words import counted, printable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from drawahead.show import Film, Gallery

_LISTS = ("widths", "committed", "drafts", "kept", "sample_rounds")


@final
@dataclass(frozen=True, eq=False)
class History:
    """The lists of a run, as far as they had come when this was made.

    `on_round` gets a report after every round. Copying the rounds so far each time would make a long run quadratic in
    its rounds, so they are copied when they are read. The lists may grow behind their present end, and nothing else.
    """

    widths: Sequence[int] = ()
    committed: Sequence[int] = ()
    drafts: Sequence[int] = ()
    kept: Sequence[int] = ()
    finished: Sequence[tuple[Tensor, Tensor | int]] = ()
    """The numbers of samples that ended together, with the rounds they took."""
    progress: Mapping[int, Sequence[int]] = field(default_factory=dict)
    ends: dict[str | int, int] = field(init=False)

    def __post_init__(self) -> None:
        names = ("widths", "committed", "drafts", "kept", "finished")
        ends = {name: len(getattr(self, name)) for name in names}
        object.__setattr__(self, "ends", ends | {number: len(steps) for number, steps in self.progress.items()})

    def cut(self, name: str) -> tuple[Any, ...]:
        """One of the lists."""
        return tuple(getattr(self, name)[: self.ends[name]])


@dataclass(frozen=True, eq=False)
class Report:
    """The cost of one run, counted by the engine."""

    sampler: str
    choice: str
    """Why `Auto` chose this sampler, if it did, and what else happened to the model: whether it was compiled."""
    exact: bool
    seed: int
    num_samples: int
    """Samples finished."""
    steps: int
    """N: the most steps a sample takes, which is also the rounds a sequential run needs."""
    rounds: int
    """Barriers: batches of oracle queries, each of which waited for the one before."""
    passes: int
    """Sequences or states that the model processed: fewer than queries where one pass answers a whole path, and twice
    as many with guidance."""
    probes: int
    """Queries that `Auto` asked to measure the model before it chose; not among `queries`."""
    drafted: int
    """Steps drawn from a draft law."""
    accepted: int
    """Drafted steps that were accepted."""
    candidates: int
    """Second and later tries at a rejected segment; only `Recursive` makes them."""
    seconds: float
    oracle_seconds: float
    history: History = field(repr=False)
    """Round by round: what the properties below read."""

    @cached_property
    def widths(self) -> tuple[int, ...]:
        """Queries in each round."""
        return self.history.cut("widths")

    @cached_property
    def committed(self) -> tuple[int, ...]:
        """Steps committed in each round."""
        return self.history.cut("committed")

    @cached_property
    def drafts(self) -> tuple[int, ...]:
        """Drafted steps that each round judged: `drafted`, round by round. The first round has none to judge."""
        return self.history.cut("drafts")

    @cached_property
    def kept(self) -> tuple[int, ...]:
        """Drafted steps that each round accepted: `accepted`, round by round."""
        return self.history.cut("kept")

    @cached_property
    def sample_rounds(self) -> tuple[int, ...]:
        """Rounds each finished sample took, in the order of their numbers."""
        done = self.history.cut("finished")
        if not done:
            return ()
        rounds = torch.cat([torch.as_tensor(taken).expand(len(numbers)) for numbers, taken in done])
        return tuple(rounds[torch.cat([numbers for numbers, _ in done]).argsort()].tolist())

    @cached_property
    def progress(self) -> dict[int, tuple[int, ...]]:
        """For the first few samples: steps committed after each of their rounds."""
        steps, ends = self.history.progress, self.history.ends
        return {number: tuple(steps[number][: ends[number]]) for number in sorted(steps) if number in ends}

    @cached_property
    def queries(self) -> int:
        """Queries of all samples: contexts that the model answered."""
        return sum(self.widths)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Report) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]

    @property
    def acceptance(self) -> float:
        """The share of drafted steps that were kept (NaN if nothing was drafted)."""
        return self.accepted / self.drafted if self.drafted else float("nan")

    @property
    def mean_rounds(self) -> float:
        """Rounds a sample took, on average: what to compare with `steps`."""
        return sum(self.sample_rounds) / len(self.sample_rounds) if self.sample_rounds else float("nan")

    @property
    def queries_per_sample(self) -> float:
        return self.queries / self.num_samples if self.num_samples else float("nan")

    def totals(self) -> dict[str, Any]:
        """`to_dict` without the counts for each round and each sample."""
        out = {name: getattr(self, name) for name in _KINDS}
        out["queries"] = self.queries
        out["acceptance"] = self.acceptance if self.drafted else None
        out["mean_rounds"] = self.mean_rounds if self.sample_rounds else None
        return out

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, strings, lists and dicts, ready for json.dumps."""
        out = self.totals()
        out["progress"] = {str(k): list(v) for k, v in self.progress.items()}
        return out | {name: list(getattr(self, name)) for name in _LISTS}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Report:
        """The report that `to_dict` wrote; anything else raises an InputError."""
        if not isinstance(plain, Mapping):
            raise InputError(f"a report must be a mapping, not {short(plain)}")
        values = {name: _checked(name, plain.get(name), kind) for name, kind in _KINDS.items()}
        widths, committed, drafts, kept, rounds = (_counts(name, plain.get(name)) for name in _LISTS)
        progress = plain.get("progress")
        if not isinstance(progress, dict) or not all(str(key).isdecimal() and len(str(key)) < 20 for key in progress):
            raise InputError("progress of a report must have the numbers of samples as keys")
        by_round = (widths, committed, drafts, kept)
        if any(len(counts) != values["rounds"] for counts in by_round) or len(rounds) != values["num_samples"]:
            raise InputError("a report must have a width for every round, and rounds for every sample")
        if (sum(drafts), sum(kept)) != (values["drafted"], values["accepted"]) or any(map(gt, kept, drafts)):
            raise InputError("drafts and kept of a report must fit each other, drafted and accepted")
        steps = {int(key): _counts("progress", counts) for key, counts in progress.items()}
        finished = [(torch.arange(len(rounds)), torch.tensor(rounds))]
        return cls(**values, history=History(*by_round, finished, steps))

    def to_html(
        self,
        path: str | Path | None = None,
        *,
        title: str = "",
        samples: Gallery | Tensor | Sequence[str] | None = None,
        film: Film | None = None,
        about: Mapping[str, object] | None = None,
        note: str = "",
    ) -> str:
        """This report as one HTML page that needs nothing else; written to `path` if one is given.

        samples: a gallery made by `drawahead.show.gallery`, or images, vectors (number, ...) or texts.
        film: an animation made by `drawahead.show.film`.
        about: more lines for the configuration.
        note: a warning for readers.

        `drawahead.show.page` does all of this for a result.
        """
        from drawahead.show import document  # what people look at comes last

        return document(self, path, title=title, samples=samples, film=film, about=about, note=note)

    def plot(self, path: str | Path | None = None) -> Figure:
        """This report as a matplotlib figure, saved to `path` if one is given; needs the extra `plots`."""
        from drawahead.show.plots import of_report

        return of_report(self, path)

    def __repr__(self) -> str:
        kind = "exact" if self.exact else "NOT exact"
        cost = f"{self.mean_rounds:.1f} rounds and {self.queries_per_sample:.1f} queries per sample"
        return f"<Report: {self.sampler}, {self.num_samples} of {self.steps} steps, {cost}, {kind}, seed {self.seed}>"

    def _repr_html_(self) -> str:
        from drawahead.show.notebook import of_report

        return of_report(self)

    def __str__(self) -> str:
        kind = "exact" if self.exact else "NOT exact"
        samples, steps = counted(self.num_samples, "sample"), counted(self.steps, "step")
        lines = [
            f"{printable(self.sampler)}: {samples} of {steps}, {kind}, seed {self.seed}",
            *([f"  chosen      {printable(self.choice)}"] if self.choice else []),
            f"  rounds      {self.rounds} in all, {self.mean_rounds:.1f} per sample{self._fewer()}",
            f"  queries     {self.queries} in all, {self.queries_per_sample:.1f} per sample"
            + (f" ({self.probes} more to choose)" if self.probes else ""),
            f"  acceptance  {self.acceptance:.1%} of {self.drafted} drafted steps" if self.drafted else "  no drafts",
            f"  seconds     {self.seconds:.3f}, of which oracle {self.oracle_seconds:.3f}",
        ]
        if self.candidates:
            lines.insert(-1, f"  candidates  {self.candidates} for rejected segments")
        return "\n".join(lines)

    def _fewer(self) -> str:
        """The rounds of a sample beside those of a sequential run, where they differ."""
        if not any(self.sample_rounds):
            return ""
        ratio = self.steps / self.mean_rounds
        if ratio >= 1.05:
            return f" ({ratio:.1f}x fewer)"
        return f" ({1 / ratio:.1f}x as many)" if ratio <= 0.95 else " (as many as one by one)"


_KINDS = {name: str(kind) for name, kind in Report.__annotations__.items() if name != "history"}
"""The fields that are one plain value each, with the names of their types."""


def _checked(name: str, value: object, kind: str) -> Any:
    if kind == "float" and isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 2**63:
        return float(value)
    if kind == "int" and type(value) is int and (name == "seed" or 0 <= value < 2**63):
        return value
    if (kind == "str" and isinstance(value, str)) or (kind == "bool" and isinstance(value, bool)):
        return value
    raise InputError(f"{name} of a report must be {kind}, not {str(value)[:80]!r}")


def _counts(name: str, value: object) -> Sequence[int]:
    if not isinstance(value, list) or not all(type(v) is int and 0 <= v < 2**63 for v in value):
        raise InputError(f"{name} of a report must be a list of whole numbers")
    return value
