"""A left-to-right transformer of pictures: words first, then pixels from a palette, row by row.

Keys and queries are turned by row and by column of their pixel, so attention sees where one pixel lies from another; an
embedding says which pixel comes next. Words are turned nowhere: their order does not matter but for what sees what.
"""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from drawahead.networks.order_transformer import Layer, Turn, turn_by


@final
class PixelTransformer(nn.Module):
    """Logits of the pixel behind each token: `words` tokens of a prompt, then those of a picture of `side` rows.

    Tokens below `colours` are pixels, those from there on are words.
    """

    def __init__(
        self,
        colours: int,
        vocabulary: int,
        *,
        side: int = 32,
        words: int = 12,
        width: int = 224,
        layers: int = 7,
        heads: int = 7,
        drop: float = 0.0,
    ) -> None:
        super().__init__()
        self.colours, self.side, self.words, self.heads, self.drop = colours, side, words, heads, drop
        self.token = nn.Embedding(colours + vocabulary, width)
        self.row, self.column = nn.Embedding(side + 1, width), nn.Embedding(side + 1, width)  # of the next pixel
        self.layers = nn.ModuleList(_Layer(width, heads, 0.02 / (2 * layers) ** 0.5) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, colours)
        self.palette: Tensor
        self.register_buffer("palette", torch.zeros(colours, 3))  # from -1 to 1
        for table in (self.token, self.row, self.column):
            nn.init.normal_(table.weight, std=0.02)

    def forward(self, tokens: Tensor) -> Tensor:
        """tokens (b, n) from the first word on -> logits (b, n, colours)."""
        position = torch.arange(tokens.shape[1], device=tokens.device)[None]
        x, turn = self._entered(tokens, position)
        for layer in self.layers:
            x = layer(x, turn, self.drop if self.training else 0.0)
        logits: Tensor = self.head(self.norm(x))
        return logits

    def memory(self, rows: int, length: int) -> Tensor:
        """Room for the keys and values of `length` tokens."""
        weight, heads = self.token.weight, self.heads
        return weight.new_zeros(rows, len(self.layers), length, 2, heads, weight.shape[1] // heads)

    @torch.no_grad()
    def extend(self, memory: Tensor, tokens: Tensor, position: Tensor) -> Tensor:
        """Enter tokens (b, s) at these positions (b, s) of the memory; the logits (b, s, colours) behind each, which
        sees what is entered at positions up to its own."""
        x, turn = self._entered(tokens, position)
        seen = torch.arange(memory.shape[2], device=position.device) <= position[..., None]
        hidden = torch.zeros_like(seen, dtype=x.dtype).masked_fill_(~seen, -torch.inf)[:, None]
        where = torch.arange(len(tokens), device=position.device)[:, None], position
        for i, layer in enumerate(self.layers):
            assert isinstance(layer, _Layer)
            x = layer.extend(x, turn, where, hidden, memory[:, i])
        logits: Tensor = self.head(self.norm(x))
        return logits

    def _entered(self, tokens: Tensor, position: Tensor) -> tuple[Tensor, Turn]:
        """What tokens start from (b, s, width), and how their keys and queries are turned."""
        pixel = position - self.words
        after = (pixel + 1).clamp(min=-1)
        row, column = (torch.where(after < 0, self.side, part) for part in self._place(after))
        x = self.token(tokens) + self.row(row) + self.column(column)
        quarter = x.shape[-1] // self.heads // 4
        speed = 100.0 ** -(torch.arange(quarter, device=tokens.device) / quarter)
        row, column = (torch.where(pixel < 0, 0, part) for part in self._place(pixel.clamp(min=0)))
        return x, turn_by(torch.cat([row[..., None] * speed, column[..., None] * speed], dim=-1), x.dtype)

    def _place(self, pixel: Tensor) -> tuple[Tensor, Tensor]:
        row = torch.div(pixel, self.side, rounding_mode="floor")
        return row.clamp(max=self.side), pixel - row * self.side


@final
class _Layer(Layer):
    """Attention to what comes before."""

    def forward(self, x: Tensor, turn: Turn, drop: float) -> Tensor:
        q, k, v = self.split(x, turn)
        return self.added(x, scaled_dot_product_attention(q, k, v, is_causal=True), drop)
