"""Ising models: on grids, by the transfer matrix taken site by site (Kramers and Wannier, 1941); on trees, by belief
propagation (Pearl, 1988), in one pass up and one pass down."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, final

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from drawahead.errors import InputError
from drawahead.oracles.tokens import HIDDEN, TokenOracle
from drawahead.randomness import seeded
from drawahead.validate import Array, copied, number, whole, wholes

if TYPE_CHECKING:
    from drawahead.show import View

MAX_WIDTH = 16
"""The frontier has 2^width states; a query of a square grid holds 5 MB at 12, and 137 MB at 16."""

SPIN = torch.tensor([-1.0, 1.0], dtype=torch.float64)


@final
class Ising(TokenOracle):
    """P(s) proportional to exp(coupling sum_<ij> s_i s_j + field sum_i s_i), s = 2x - 1, free boundary.

    Position r * cols + c is the site in row r and column c. Sites are taken line by line, lines along the shorter
    side. A message lives on the frontier, the last site taken in each slot of a line; slot c is one binary digit
    of its state. Messages are logarithms: neither large couplings nor long grids underflow.
    """

    formula = True

    def __init__(self, rows: int, cols: int, coupling: float = 0.4, field: float = 0.0) -> None:
        self.width = min(whole("rows", rows, 1), whole("cols", cols, 1))
        if self.width > MAX_WIDTH:
            raise InputError(
                f"the shorter side of rows x cols must be at most {MAX_WIDTH}, not {self.width}: use a smaller grid"
            )
        self.length, self.vocab_size, self.columns = rows * cols, 2, cols
        self.coupling, self.field = number("coupling", coupling), number("field", field)
        site = torch.arange(rows * cols).view(rows, cols)
        self.sites: list[int] = (site if cols <= rows else site.T).flatten().tolist()  # in the order they are taken
        self.bytes_per_query = 8 * (self.length + 6) * 2**self.width

    @classmethod
    def grid(cls, rows: int, cols: int, coupling: float = 0.4, field: float = 0.0) -> Ising:
        """The same as the constructor, by the name of the graph."""
        return cls(rows, cols, coupling, field)

    def view(self) -> View:
        from drawahead.show import Grids

        return Grids(self.columns, 2)

    def rows(self, tokens: Tensor) -> Tensor:
        m = len(tokens)
        contradicted = (tokens != HIDDEN)[..., None] & (tokens[..., None] != torch.arange(2))
        weight = torch.where(contradicted, -torch.inf, self.field * SPIN)  # (m, n, 2)
        message = torch.zeros(m, 2**self.width, dtype=torch.float64)  # above the first line: free
        before = []  # the message that includes sites 0 ... t
        for t, site in enumerate(self.sites):
            message = _scaled(self._cross(message, t) + self._local(weight[:, site], t))
            before.append(message.flatten(1))
        answer = torch.empty(m, self.length, 2, dtype=torch.float64)
        message = torch.zeros(m, 2**self.width, dtype=torch.float64)  # the sum over sites t + 1 ... n
        for t, site in reversed(list(enumerate(self.sites))):
            both = self._slotted(before.pop() + message, t)  # (m, a, 2, b)
            answer[:, site] = both.logsumexp((1, 3)).log_softmax(1)
            message = self._slotted(message, t) + self._local(weight[:, site], t)
            message = _scaled(self._cross(message.flatten(1), t)).flatten(1)
        return answer

    def _slotted(self, message: Tensor, t: int) -> Tensor:
        """The frontier with the slot of site t apart: (m, 2^w) -> (m, a, 2, b), a the slots before it, b after."""
        slot = t % self.width
        return message.view(len(message), 2**slot, 2, 2 ** (self.width - 1 - slot))

    def _cross(self, message: Tensor, t: int) -> Tensor:
        """Sum over one spin of the bond between site t and the site before it in its slot. Symmetric in the two."""
        bond = self.coupling * SPIN[:, None] if t >= self.width else torch.zeros(2, 1, dtype=torch.float64)
        down, up = self._slotted(message, t).chunk(2, dim=2)  # (m, a, 1, b) each
        return torch.logaddexp(down - bond, up + bond)

    def _local(self, weight: Tensor, t: int) -> Tensor:
        """Field and evidence of site t (m, 2), and its bond to the previous slot -> (m, a or 1, 2, 1)."""
        local = weight[:, None, :, None]
        slot = t % self.width
        if slot == 0:
            return local
        previous = SPIN.repeat(2 ** (slot - 1))  # (a,): the last digit of a
        return local + self.coupling * (previous[:, None] * SPIN)[:, :, None]


def _scaled(message: Tensor) -> Tensor:
    """(m, a, 2, b), shifted so that the largest entry is 0: the scale cancels, precision stays."""
    return message - message.amax((1, 2, 3), keepdim=True)


@final
class TreeIsing(TokenOracle):
    """P(s) proportional to exp(sum_i coupling_i s_i s_parent(i) + sum_i field_i s_i), s = 2x - 1 in {-1, +1}.

    `parents[i]` is an earlier position, or -1 for a root; several roots make a forest. `coupling` and `field` are
    one number or one for each position (a root's coupling is not used). A message is the effective field that one
    end of an edge exerts on the other; all messages of a depth are computed together.
    """

    formula = True

    def __init__(self, parents: Sequence[int], coupling: Array = 0.5, field: Array = 0.0) -> None:
        parents = wholes("parents", parents)
        n = whole("the length of parents", len(parents), 1)
        if any(not -1 <= parent < i for i, parent in enumerate(parents)):
            raise InputError("parents must name earlier positions: -1 <= parents[i] < i; renumber the tree from a root")
        self.length, self.vocab_size = n, 2
        self.parents = torch.tensor(list(parents))
        self.coupling = _one_each(coupling, n, "coupling")[:, None]  # (n, 1)
        self.field = _one_each(field, n, "field")[:, None]
        depth = [0] * n
        for i, parent in enumerate(parents):
            depth[i] = depth[parent] + 1 if parent >= 0 else 0
        by_depth: list[list[int]] = [[] for _ in range(max(depth) + 1)]
        for i, level in enumerate(depth):
            by_depth[level].append(i)
        self.levels = [torch.tensor(nodes) for nodes in by_depth]
        self.bytes_per_query = 8 * n * 10

    @classmethod
    def random(cls, n: int, coupling: float = 0.5, seed: int = 0, field: float = 0.0) -> TreeIsing:
        """A random recursive tree: each position hangs on a uniformly chosen earlier one. Its depth is O(log n)."""
        pick = torch.rand(whole("n", n, 1), dtype=torch.float64, generator=seeded(seed))
        return cls([-1, *(pick * torch.arange(n)).long().tolist()[1:]], coupling, field)

    @classmethod
    def path(cls, n: int, coupling: float = 0.5, field: float = 0.0) -> TreeIsing:
        """The chain 1 - 2 - ... - n. (It has n levels: for long ones `MarkovChain` is faster.)"""
        return cls(list(range(-1, whole("n", n, 1) - 1)), coupling, field)

    def rows(self, tokens: Tensor) -> Tensor:
        spin = tokens.T.double() * 2 - 1  # (n, m): a level is a set of whole lines
        known = tokens.T != HIDDEN
        local = self.field.expand_as(spin).clone()  # the field on i from its subtree
        upward = torch.zeros_like(spin)  # the field of i on its parent
        for nodes in reversed(self.levels[1:]):
            upward[nodes] = _message(self.coupling[nodes], local[nodes], spin[nodes], known[nodes])
            local.index_add_(0, self.parents[nodes], upward[nodes])
        total = local  # ... and now from the rest of the tree too
        for nodes in self.levels[1:]:
            parents = self.parents[nodes]
            without = total[parents] - upward[nodes]  # the parent's field, were i not there
            total[nodes] += _message(self.coupling[nodes], without, spin[parents], known[parents])
        return torch.stack([logsigmoid(-2 * total.T), logsigmoid(2 * total.T)], dim=2)  # (m, n, 2)


def _message(coupling: Tensor, field: Tensor, spin: Tensor, known: Tensor) -> Tensor:
    """The field that a spin exerts across an edge: J s if it is known, else atanh(tanh J tanh h)."""
    across = (_log_cosh(coupling + field) - _log_cosh(coupling - field)) / 2  # the same, without overflow
    return torch.where(known, coupling * spin, across)


def _log_cosh(x: Tensor) -> Tensor:
    """log(2 cosh x)."""
    return x.abs() + torch.log1p(torch.exp(-2 * x.abs()))


def _one_each(values: Array, n: int, name: str) -> Tensor:
    tensor = copied(name, values)
    if tensor.shape not in ((), (n,)):
        raise InputError(f"{name} must be one number or {n} of them, one for each position, not {tuple(tensor.shape)}")
    return tensor.expand(n)
