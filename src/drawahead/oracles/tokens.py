"""The token oracle: what a model must answer, once, for every sampler.

A *query* is one conditioning: a sequence with some positions known. Its answer is the row of log-probabilities of
hidden positions. The contract is stated here and nowhere else.
"""

from __future__ import annotations

import abc
import copy
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, final

import torch
from torch import Tensor

from drawahead.errors import AnswerError, InputError
from drawahead.validate import whole

if TYPE_CHECKING:
    from drawahead.show import View

HIDDEN = -1
"""The token that marks a hidden position in a sequence."""


class TokenOracle(abc.ABC):
    """Conditional marginals of a law on [q]^n: mu(X_i = . | X_S = x_S) for every hidden i.

    Only `rows` must be written. `rows_at` and `chain_rows` are faster ways to the same answers; a class that overrides
    one must return the same numbers as the default. The one exception: a model whose answer depends on the order in
    which tokens were drawn (a permutation model, ProteinMPNN) sets `one_pass`, and samplers then use only its
    `chain_rows`; its `rows` treats all visible tokens as evidence.
    """

    length: int
    """n, the number of positions."""
    vocab_size: int
    """q, the number of tokens; tokens are 0 ... q-1."""
    device: torch.device = torch.device("cpu")
    """Where the oracle wants its tokens."""
    one_pass: bool = False
    """True when `chain_rows` costs about one sequence however many prefixes of it are asked."""
    formula: bool = False
    """True where work grows with the steps that are asked about, as in a formula, even where `one_pass` is true."""
    recall_width: int | None = None
    """The widest window for which going on from what is kept of a path (see `remember`) takes less time than a whole
    pass; None: any."""
    order_rates: Tensor | None = None
    """How early positions tend to come in a random order (n,), or of each sequence (m, n): the next one is drawn with
    probability proportional to this. None: all alike."""

    def __repr__(self) -> str:
        length, tokens = getattr(self, "length", "?"), getattr(self, "vocab_size", "?")  # which may not be set yet
        return f"<{type(self).__name__}: {length} positions, {tokens} tokens>"

    def _repr_html_(self) -> str:
        from drawahead.show.notebook import of_oracle  # what people look at comes last

        return of_oracle(self)

    @property
    def note(self) -> str:
        """A remark for reports: how the model is run, where that matters."""
        return ""

    def view(self) -> View | None:
        """The view that shows its samples, such as `drawahead.show.Texts`; None shows symbols."""
        return None

    @abc.abstractmethod
    def rows(self, tokens: Tensor) -> Tensor:
        """Log-probability rows for `tokens` (m, n), hidden positions holding `HIDDEN` -> (m, n, q).

        Rows of visible positions are never read. Rows must be normalised, in any float dtype. A guessed sequence may
        have probability zero: any normalised rows will do there, but not NaN.
        """

    def rows_at(self, tokens: Tensor, context: Tensor, position: Tensor) -> Tensor:
        """Only the rows of the listed cells: (p,) pairs of a sequence's index in `tokens` and a position -> (p, q)."""
        return _checked(self.rows(tokens), tokens, self.vocab_size)[context, position]

    def chain_rows(self, tokens: Tensor, rank: Tensor, row: Tensor, prefix: Tensor, position: Tensor) -> Tensor:
        """Rows along a path, for oracles that can share work between its prefixes.

        `tokens` (r, n) holds complete guesses and `rank` (r, n) the step at which each position is drawn (-1:
        evidence). Cell c asks for the row of position[c] in sequence row[c] given the positions of rank below
        prefix[c]. The (p,) cells come sorted by row, then by prefix. -> (p, q).
        """
        row, prefix, context = contexts(row, prefix)
        return self.rows_at(reveal(tokens, rank, row, prefix), context, position)

    def path_rows(
        self, tokens: Tensor, rank: Tensor, prefix: Tensor, position: Tensor, last_only: bool = True
    ) -> Tensor:
        """`chain_rows` for as many cells of every path: `prefix` and `position` (r, c) -> (r, c, q).

        Each cell's prefix is the rank of its own position, or the last prefix asked of its path; or any, if not
        `last_only`. Shapes are all else that this may depend on, so that it can be captured: nothing may be read back
        from the device.
        """
        row = torch.arange(len(tokens), device=tokens.device).repeat_interleave(prefix.shape[1])
        cells = self.chain_rows(tokens, rank, row, prefix.reshape(-1), position.reshape(-1))
        return cells.view(*prefix.shape, self.vocab_size)

    def remember(self, tokens: Tensor, rank: Tensor) -> dict[str, Tensor]:
        """A cache for each path, used from round to round: tensors with a row for each (r, ...), by name.

        A model that can go on where a path stands, as a transformer with its keys and values can, makes room for them
        here, and enters the evidence: of `tokens` (r, n) those of rank -1; all others are yet to be drawn. `rank` is as
        for `chain_rows`. There is no cache by default.
        """
        return {}

    def recalled_rows(
        self, kept: dict[str, Tensor], token: Tensor, place: Tensor, step: Tensor, prefix: Tensor, position: Tensor
    ) -> Tensor:
        """`path_rows` for cells (r, c), of paths of which the evidence and the first steps are `kept`.

        The steps that come next hold `token` at the positions `place`; their numbers are `step` (r, s). They are to be
        entered into `kept`, in place. Some may be guesses: a step that was entered before is entered anew. Cells see
        what has a number below their prefix, kept or entered now. Padding has place n, and is to be entered nowhere
        that can be seen. Shapes are all this may depend on. Only asked if `remember` keeps something.
        """
        raise NotImplementedError(f"{type(self).__name__} remembers paths, but cannot go on from there")

    def conditioned(self, **rows: Tensor) -> TokenOracle:
        """The same oracle with these rows of a condition: its next calls have as many sequences, in that order."""
        raise InputError(f"{type(self).__name__} takes no condition: give it a method conditioned(**rows)")


def with_condition(oracle: TokenOracle, condition: Mapping[str, Tensor]) -> TokenOracle:
    """The oracle, told the rows of a condition."""
    return oracle.conditioned(**condition) if condition else oracle


def contexts(row: Tensor, prefix: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The different pairs of a sequence and a prefix among sorted cells (p,), and which of them each cell has."""
    new = torch.ones_like(row, dtype=torch.bool)
    new[1:] = (row[1:] != row[:-1]) | (prefix[1:] != prefix[:-1])
    return row[new], prefix[new], new.cumsum(0) - 1


def reveal(tokens: Tensor, rank: Tensor, row: Tensor, prefix: Tensor) -> Tensor:
    """The masked sequences (m, n) in which sequence row[i] shows only its positions of rank below prefix[i]."""
    return torch.where(rank[row] < prefix[:, None], tokens[row], HIDDEN)


@final
class FunctionOracle(TokenOracle):
    """A plain callable `tokens (m, n) -> log-probability rows (m, n, q)` as an oracle. With a condition it is called
    with the rows that belong to its sequences: `function(tokens, **rows)`."""

    def __init__(self, function: Callable[[Tensor], Tensor], length: int, vocab_size: int) -> None:
        self.function = function
        self.condition: dict[str, Tensor] = {}
        self.length = whole("length", length, 1)
        self.vocab_size = whole("vocab_size", vocab_size, 1)

    def rows(self, tokens: Tensor) -> Tensor:
        return self.function(tokens, **self.condition)

    def chain_rows(self, tokens: Tensor, rank: Tensor, row: Tensor, prefix: Tensor, position: Tensor) -> Tensor:
        row, prefix, context = contexts(row, prefix)
        shown = reveal(tokens, rank, row, prefix)
        rows = {name: table[row] for name, table in self.condition.items()}
        return with_condition(self, rows).rows_at(shown, context, position)

    def conditioned(self, **rows: Tensor) -> FunctionOracle:
        same = FunctionOracle(self.function, self.length, self.vocab_size)
        same.device, same.condition = self.device, rows
        return same


_LOOKS = frozenset(
    {
        *("length", "vocab_size", "device", "one_pass", "formula", "recall_width", "order_rates", "bytes_per_query"),
        *("possible", "view"),
    }
)


class WrappedOracle(TokenOracle):
    """An oracle made from another: it looks the same from outside, and subclasses say what happens to the answers."""

    def __init__(self, oracle: TokenOracle) -> None:
        self.oracle = oracle

    def __getattribute__(self, name: str) -> Any:
        """What it looks like is asked of the oracle inside, whichever that is by now."""
        if name in _LOOKS and name not in vars(self):
            return getattr(self.oracle, name)
        return super().__getattribute__(name)


class ForwardingOracle(WrappedOracle):
    """An oracle that asks another whatever it is asked, through one method. Subclasses say what happens on the way."""

    def forward(self, door: str, *arguments: Any) -> Tensor:
        """What the oracle inside answers by the method of this name."""
        rows: Tensor = getattr(self.oracle, door)(*arguments)
        return rows

    def rows(self, tokens: Tensor) -> Tensor:
        return self.forward("rows", tokens)

    def rows_at(self, tokens: Tensor, context: Tensor, position: Tensor) -> Tensor:
        return self.forward("rows_at", tokens, context, position)

    def chain_rows(self, tokens: Tensor, rank: Tensor, row: Tensor, prefix: Tensor, position: Tensor) -> Tensor:
        return self.forward("chain_rows", tokens, rank, row, prefix, position)

    def path_rows(
        self, tokens: Tensor, rank: Tensor, prefix: Tensor, position: Tensor, last_only: bool = True
    ) -> Tensor:
        return self.forward("path_rows", tokens, rank, prefix, position, last_only)

    def remember(self, tokens: Tensor, rank: Tensor) -> dict[str, Tensor]:
        return self.oracle.remember(tokens, rank)

    def recalled_rows(
        self, kept: dict[str, Tensor], token: Tensor, place: Tensor, step: Tensor, prefix: Tensor, position: Tensor
    ) -> Tensor:
        return self.forward("recalled_rows", kept, token, place, step, prefix, position)


@final
class CountingOracle(ForwardingOracle):
    """Wraps an oracle and counts `calls`, `queries` (distinct conditionings) and `passes` (sequences).

    It checks the counts in reports; answers are returned unchanged.
    """

    def __init__(self, oracle: TokenOracle) -> None:
        super().__init__(oracle)
        self._home: CountingOracle | None = None  # where a conditioned one counts
        self.calls = self.queries = self.passes = 0

    def forward(self, door: str, *arguments: Any) -> Tensor:
        home, sequences = self._home or self, len(arguments[0])
        queries = sequences
        if door == "chain_rows":
            queries = len(torch.unique_consecutive(torch.stack(arguments[2:4]), dim=1)[0])
        elif door in ("path_rows", "recalled_rows"):
            prefix = arguments[2 if door == "path_rows" else 4]
            queries, sequences = sum(len(row.unique()) for row in prefix), len(prefix)
        home.calls, home.queries, home.passes = home.calls + 1, home.queries + queries, home.passes + sequences
        return super().forward(door, *arguments)

    def conditioned(self, **rows: Tensor) -> CountingOracle:
        same = copy.copy(self)  # which counts where this one does
        same.oracle, same._home = self.oracle.conditioned(**rows), self._home or self
        return same


def tolerance(dtype: torch.dtype) -> float:
    """How far the log of a row's sum may be from 0."""
    return {torch.float64: 1e-6, torch.float32: 1e-3}.get(dtype, 2e-2)


def complaint(row: Tensor) -> str:
    """What is wrong with a row that is no law."""
    if bool(row.isnan().any()):
        return "it contains NaN; check the model's output on this input"
    mass = float(row.double().exp().sum())
    if abs(float(row.double().sum()) - 1) < 1e-3 and bool((row >= 0).all()):
        return "it looks like probabilities; return their logarithms"
    return f"its probabilities sum to {mass:.6g}; return log-probabilities (apply log_softmax to logits)"


def _checked(rows: Tensor, tokens: Tensor, vocab_size: int) -> Tensor:
    expected = (*tokens.shape, vocab_size)
    if not isinstance(rows, Tensor) or rows.shape != expected:
        got = tuple(rows.shape) if isinstance(rows, Tensor) else type(rows).__name__
        raise AnswerError(f"the oracle must answer rows of shape {expected} (sequences, length, vocabulary), not {got}")
    return rows
