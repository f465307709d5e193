"""A transformer whose attention follows an order: one pass answers every conditional along a path.

Two kinds of token go through the same layers. *Content* tokens carry the sequence, sorted by rank, and attention among
them is causal: each sees those that come before it in the order, and itself. *Queries* carry a position and no token;
one with prefix k sees the evidence and the content of rank below k, so what it predicts is the token at its position
given the first k tokens of the order. Queries are seen by nobody, so any number of them share one pass over the
content. A *sink*, seen by all, stands before the content: nobody is left with nothing to see.

Evidence (rank -1) comes first, from left to right. Keys and queries are rotated by the position of their token, so
attention sees relative positions only.
"""

from __future__ import annotations

import abc
from typing import final

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout, gelu, scaled_dot_product_attention

Turn = tuple[Tensor, Tensor]
"""What each entry of keys and queries, and the one half a vector away, is multiplied by (r, tokens, 1, 1, size)."""


@final
class OrderTransformer(nn.Module):
    """Logits of the token at each position of a query, given the part of the sequence before it in the order."""

    def __init__(self, vocab_size: int, *, width: int = 192, layers: int = 16, heads: int = 6) -> None:
        super().__init__()
        self.heads = heads
        self.token = nn.Embedding(vocab_size, width)
        self.blank = nn.Parameter(torch.zeros(width))  # what a query starts from
        self.sink = nn.Parameter(torch.zeros(width))
        self.layers = nn.ModuleList(_Layer(width, heads, 0.02 / (2 * layers) ** 0.5) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab_size)
        for parameter in (self.token.weight, self.blank, self.sink):
            nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens: Tensor, rank: Tensor, prefix: Tensor, position: Tensor) -> Tensor:
        """tokens, rank (r, n); prefix, position (r, c) -> logits (r, c, vocabulary)."""
        order = rank.argsort(dim=1, stable=True)
        first = 1 + (rank < 0).sum(1, keepdim=True)  # the sink and the evidence are seen by every query
        seen = torch.arange(1 + tokens.shape[1], device=rank.device) < (first + prefix)[..., None]  # (r, c, 1 + n)
        return self._logits(tokens.gather(1, order), order, position, self._hiding(seen))

    def memory(self, rows: int, length: int) -> Tensor:
        """Room for keys and values of the sink, `length` tokens, and one that nobody sees."""
        return self.sink.new_zeros(rows, len(self.layers), length + 2, 2, self.heads, len(self.sink) // self.heads)

    @torch.no_grad()
    def extend(
        self, memory: Tensor, content: Tensor, place: Tensor, slot: Tensor, position: Tensor, seen: Tensor
    ) -> Tensor:
        """Enter content (r, s), which stands at `place`, into slots (r, s) of the memory, where those before it are;
        the logits (r, c, vocabulary) at `position` (r, c) of queries that see the first `seen` (r, c) slots."""
        rows, s = content.shape
        x, turn = self._entered(content, place, position)
        slot = torch.nn.functional.pad(slot, (1, 0))
        sees = torch.cat([slot + 1, seen], dim=1)[..., None] > torch.arange(memory.shape[2], device=slot.device)
        where, hidden = (torch.arange(rows, device=slot.device)[:, None], slot), self._hiding(sees)
        for i, layer in enumerate(self.layers):
            assert isinstance(layer, _Layer)
            x = layer.extend(x, turn, where, hidden, memory[:, i])
        logits: Tensor = self.head(self.norm(x[:, 1 + s :]))
        return logits

    def along(self, tokens: Tensor, order: Tensor) -> Tensor:
        """tokens, order (r, n) -> logits (r, n, vocabulary) of the token at each place of the order, given those
        before it: for training, and for the log-likelihood of a text."""
        return self._logits(tokens.gather(1, order), order, order, None)

    def _hiding(self, seen: Tensor) -> Tensor:
        """What is added to attention (r, 1, tokens, slots), so that only what is `seen` (r, tokens, slots) counts."""
        return torch.zeros_like(seen, dtype=self.sink.dtype).masked_fill_(~seen, -torch.inf)[:, None]

    def _logits(self, content: Tensor, order: Tensor, position: Tensor, hidden: Tensor | None) -> Tensor:
        n = content.shape[1]
        x, turn = self._entered(content, order, position)
        for layer in self.layers:
            x = layer(x, turn, 1 + n, hidden)
        logits: Tensor = self.head(self.norm(x[:, 1 + n :]))
        return logits

    def _entered(self, content: Tensor, place: Tensor, position: Tensor) -> tuple[Tensor, Turn]:
        """The sink, content at `place` and queries at `position`: what they start from (r, tokens, width), and how
        their keys and queries are turned."""
        rows = len(content)
        sink, blank = self.sink.expand(rows, 1, -1), self.blank.expand(rows, position.shape[1], -1)
        x = torch.cat([sink, self.token(content), blank], dim=1)
        half = len(self.sink) // self.heads // 2
        speed = 1000.0 ** -(torch.arange(half, device=position.device) / half)
        angle = torch.cat([torch.zeros_like(place[:, :1]), place, position], dim=1)[..., None] * speed
        return x, turn_by(angle, x.dtype)


class Layer(nn.Module, abc.ABC):
    """Attention, then a two-layer perceptron; both add to the stream. Keys and values may be remembered."""

    def __init__(self, width: int, heads: int, spread: float) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.middle = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        for linear in (self.out, self.down):  # the stream starts out quiet
            nn.init.normal_(linear.weight, std=spread)

    def split(self, x: Tensor, turn: Turn) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values (r, heads, tokens, size)."""
        qkv = self._unturned(x)
        q, k = turned(qkv[:, :, :2], turn).transpose(1, 3).unbind(2)
        return q, k, qkv[:, :, 2].transpose(1, 2)

    def _unturned(self, x: Tensor) -> Tensor:
        """Queries, keys and values (r, tokens, 3, heads, size), not turned yet."""
        parts: Tensor = self.qkv(self.before(x)).unflatten(-1, (3, self.heads, -1))
        return parts

    def extend(self, x: Tensor, turn: Turn, where: tuple[Tensor, Tensor], hidden: Tensor, kept: Tensor) -> Tensor:
        """Keys and values (r, slots, 2, heads, size) of the first tokens go to these rows and slots (r, s); all attend
        to what is there, but for what is `hidden` (r, 1, tokens, slots)."""
        qkv = self._unturned(x)
        turned(qkv[:, :, :2], turn, out=qkv[:, :, :2])  # in place, so that keys stay beside values
        kept[where] = qkv[:, : where[1].shape[1], 1:]
        q, k, v = (part.transpose(1, 2) for part in (qkv[:, :, 0], *kept.unbind(2)))
        return self.added(x, scaled_dot_product_attention(q, k, v, attn_mask=hidden))

    def added(self, x: Tensor, attended: Tensor, drop: float = 0.0) -> Tensor:
        """The stream behind this layer, of what was attended to (r, heads, tokens, size)."""
        y: Tensor = x + dropout(self.out(attended.transpose(1, 2).flatten(2)), drop)
        z: Tensor = y + dropout(self.down(gelu(self.up(self.middle(y)), approximate="tanh")), drop)
        return z


@final
class _Layer(Layer):
    """Attention to the content alone."""

    def forward(self, x: Tensor, turn: Turn, content: int, hidden: Tensor | None) -> Tensor:
        q, k, v = self.split(x, turn)
        k, v = k[:, :, :content], v[:, :, :content]
        among = scaled_dot_product_attention(q[:, :, :content], k, v, is_causal=True)
        if hidden is None:  # query i sees the sink and the first i of the order
            asked = scaled_dot_product_attention(q[:, :, content:], k[:, :, :-1], v[:, :, :-1], is_causal=True)
        else:
            asked = scaled_dot_product_attention(q[:, :, content:], k, v, attn_mask=hidden)
        return self.added(x, torch.cat([among, asked], dim=2))


def turn_by(angle: Tensor, dtype: torch.dtype) -> Turn:
    """How to turn pairs of entries, half a vector apart, by these angles (r, tokens, size / 2)."""
    cos, sin = angle.cos().to(dtype), angle.sin().to(dtype)
    return torch.cat([cos, cos], dim=-1)[:, :, None, None], torch.cat([-sin, sin], dim=-1)[:, :, None, None]


def turned(x: Tensor, turn: Turn, out: Tensor | None = None) -> Tensor:
    """Keys and queries (r, tokens, 2, heads, size), turned."""
    other = x.unflatten(-1, (2, -1)).flip(-2).flatten(-2)
    return torch.addcmul(x * turn[0], other, turn[1], out=out)
