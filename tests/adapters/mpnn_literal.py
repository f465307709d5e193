"""ProteinMPNN's decoder written down literally, residue by residue, and small random weights to run it on."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import gelu, linear, log_softmax

from drawahead.proteins.mpnn.model import Weights

WIDTH = 8


def random_weights(seed: int = 0, neighbours: int = 4) -> Weights:
    """Weights of a network of width 8 with one layer of encoder and two of decoder, large enough that residues matter
    to each other."""
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int, scale: float = 1.0) -> Tensor:
        return scale * torch.randn(*shape, generator=generator, dtype=torch.float64)

    tensors = {
        "features.embeddings.linear.weight": draw(16, 66),
        "features.embeddings.linear.bias": draw(16),
        "features.edge_embedding.weight": draw(WIDTH, 16 + 400),
        "W_e.weight": draw(WIDTH, WIDTH),
        "W_e.bias": draw(WIDTH),
        "W_s.weight": draw(21, WIDTH, scale=3.0),
        "W_out.weight": draw(21, WIDTH),
        "W_out.bias": draw(21, scale=0.3),
    }
    layers = [("encoder_layers.0", 3), ("decoder_layers.0", 4), ("decoder_layers.1", 4)]
    norms = ["features.norm_edges", *(f"{layer}.norm{i}" for layer, _ in layers for i in (1, 2, 3))]
    for name in norms:
        tensors |= {f"{name}.weight": 1 + draw(WIDTH, scale=0.1), f"{name}.bias": draw(WIDTH, scale=0.1)}
    for layer, blocks in layers:
        for name, wide in (("W1", blocks), ("W2", 1), ("W3", 1), ("W11", blocks), ("W12", 1), ("W13", 1)):
            tensors |= {f"{layer}.{name}.weight": draw(WIDTH, wide * WIDTH), f"{layer}.{name}.bias": draw(WIDTH)}
        tensors |= {f"{layer}.W3.weight": draw(WIDTH, WIDTH, scale=8.0)}
        tensors |= {f"{layer}.dense.W_in.weight": draw(WIDTH, WIDTH), f"{layer}.dense.W_in.bias": draw(WIDTH)}
        tensors |= {f"{layer}.dense.W_out.weight": draw(WIDTH, WIDTH), f"{layer}.dense.W_out.bias": draw(WIDTH)}
    return Weights(tensors, neighbours)


def step_law(
    weights: Weights,
    nodes: Tensor,
    edges: Tensor,
    neighbours: Tensor,
    groups: Sequence[Sequence[tuple[int, float]]],
    tokens: Sequence[int],
    temperature: float,
    bias: Tensor,
) -> Tensor:
    """The law (21,) of the last of these groups, given the tokens of those before it.

    One residue at a time, in the order of decoding. A residue sees the states of all that were decoded before it, and
    of those in earlier groups the token, too.
    """
    layers = weights.layers("decoder")
    states = [nodes] + [torch.zeros_like(nodes) for _ in layers]
    embedded = torch.zeros_like(nodes)
    decoded: list[int] = []
    logits = torch.zeros(21, dtype=nodes.dtype)
    for number, group in enumerate(groups):
        for residue, weight in group:
            for depth, layer in enumerate(layers):
                messages = []
                for edge, other in zip(edges[residue], neighbours[residue].tolist(), strict=True):
                    near = states[depth][other] if other in decoded else nodes[other]
                    joined = torch.cat([states[depth][residue], edge, embedded[other], near])
                    hidden = gelu(weights.linear(f"{layer}.W2", gelu(weights.linear(f"{layer}.W1", joined))))
                    messages.append(weights.linear(f"{layer}.W3", hidden))
                state = weights.norm(f"{layer}.norm1", states[depth][residue] + sum(messages) / 30)
                states[depth + 1][residue] = weights.norm(f"{layer}.norm2", state + weights.dense(layer, state))
            decoded.append(residue)
            if number == len(groups) - 1:
                head = linear(states[-1][residue], weights.tensors["W_out.weight"], weights.tensors["W_out.bias"])
                logits = logits + weight * head / len(group)
        if number < len(groups) - 1:
            for residue, _ in group:
                embedded[residue] = weights.tensors["W_s.weight"][tokens[number]]
    return log_softmax((logits + bias) / temperature, -1)
