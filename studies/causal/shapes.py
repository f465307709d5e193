"""Networks of the shape of Llama with random weights: what a pass over a window costs beside a pass over one token."""

from __future__ import annotations

import statistics
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import rms_norm, scaled_dot_product_attention, silu

from studies.speed.place import Place

SHAPES = {
    "0.1B": (768, 12, 12, 2048),
    "0.8B": (1536, 25, 12, 4096),
    "3B": (3072, 26, 24, 8192),
    "7B": (4096, 32, 32, 11008),
}
"""By name: width, layers, heads, width of the perceptron."""
WINDOWS = (1, 16, 32, 64)
PREFIX, SLOTS, VOCABULARY = 500, 1024, 16384


class Llama(nn.Module):
    """A decoder with a static cache; only the cost of a pass is of interest."""

    def __init__(self, width: int, layers: int, heads: int, inner: int) -> None:
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.token, self.head = nn.Embedding(VOCABULARY, width), nn.Linear(width, VOCABULARY, bias=False)
        self.layers = nn.ModuleList(
            nn.ModuleDict(
                {
                    "qkv": nn.Linear(width, 3 * width, bias=False),
                    "out": nn.Linear(width, width, bias=False),
                    "gate": nn.Linear(width, 2 * inner, bias=False),
                    "down": nn.Linear(inner, width, bias=False),
                }
            )
            for _ in range(layers)
        )

    def forward(self, tokens: Tensor, position: Tensor, cache: Tensor) -> Tensor:
        """tokens, position (w,), cache (layers, 2, heads, slots, size), written in place -> logits (w, vocabulary)."""
        x = self.token(tokens)
        seen = torch.arange(cache.shape[3], device=position.device) <= position[:, None]
        half = self.size // 2
        angle = position[:, None] * 10000.0 ** -(torch.arange(half, device=position.device) / half)
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        for layer, kept in zip(self.layers, cache, strict=True):
            parts: Any = layer
            q, k, v = parts["qkv"](rms_norm(x, x.shape[-1:])).view(len(x), 3, self.heads, -1).permute(1, 2, 0, 3)
            q, k = (torch.cat([a * cos - b * sin, a * sin + b * cos], -1) for a, b in (y.chunk(2, -1) for y in (q, k)))
            kept[0].index_copy_(1, position, k)
            kept[1].index_copy_(1, position, v)
            attended = scaled_dot_product_attention(q[None], kept[0][None], kept[1][None], attn_mask=seen[None, None])
            x = x + parts["out"](attended[0].transpose(0, 1).flatten(1))
            gate, up = parts["gate"](rms_norm(x, x.shape[-1:])).chunk(2, -1)
            x = x + parts["down"](silu(gate) * up)
        logits: Tensor = self.head(rms_norm(x, x.shape[-1:]))
        return logits


@torch.no_grad()
def window_costs(place: Place, name: str, repeats: int = 30) -> dict[str, Any]:
    """Milliseconds of a captured pass over windows of each width, behind a prefix."""
    width, layers, heads, inner = SHAPES[name] if place.real else (16, 1, 2, 16)
    dtype = torch.bfloat16 if place.real else torch.float32
    with torch.device(place.device):
        torch.set_default_dtype(dtype)
        try:
            model = Llama(width, layers, heads, inner).eval()
        finally:
            torch.set_default_dtype(torch.float32)
        cache = torch.zeros(layers, 2, heads, SLOTS, width // heads, dtype=dtype)
    costs = {}
    for window in WINDOWS:
        tokens = torch.zeros(window, dtype=torch.int64, device=place.device)
        position = PREFIX + torch.arange(window, device=place.device)
        costs[str(window)] = _milliseconds(place, lambda t=tokens, p=position: model(t, p, cache), repeats)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    return {"parameters": parameters, "milliseconds": costs}


def _milliseconds(place: Place, work: Any, repeats: int) -> float:
    """The median of passes, each captured as one graph on a GPU."""
    for _ in range(3):
        work()
    if place.real:
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            work()
        work = graph.replay
    seconds = []
    for _ in range(repeats if place.real else 2):
        began = place.now()
        work()
        seconds.append(place.now() - began)
    return 1e3 * statistics.median(seconds)
