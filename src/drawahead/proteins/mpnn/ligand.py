"""What LigandMPNN (Dauparas et al., Nature Methods 2025) adds to the encoder: atoms that are no protein.

Each residue looks at the atoms nearest to it. They send each other messages, and then to the residue; what it makes of
them is added to its state before anything is decoded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn.functional import gelu, normalize, one_hot

from drawahead.proteins.mpnn.alpha import radial_basis
from drawahead.proteins.structures.elements import GROUP, PERIOD

if TYPE_CHECKING:
    from drawahead.proteins.mpnn.encoder import Weights

_SCALE = 30.0  # messages are summed and divided by this


def with_ligand(weights: Weights, atoms: Tensor, nodes: Tensor, ligand: Tensor, elements: Tensor) -> Tensor:
    """The states of residues (n, d) that have looked at the ligand: atoms (a, 3) and their elements (a,).

    `atoms` (n, 5, 3) are N, CA, C, O and CB of each residue.
    """
    place, element, there = _nearest(atoms[:, 4], ligand, elements, weights.context)
    kind = _kinds(element).to(nodes.dtype)
    seen = weights.linear("W_v", _seen(weights, atoms, place, kind))  # (n, m, d)
    apart = (place[:, :, None] - place[:, None]).square().sum(-1).add(1e-6).sqrt()
    edges = weights.norm("features.norm_y_edges", weights.linear("features.y_edges", radial_basis(apart)))
    edges = weights.linear("W_edges_y", edges)  # (n, m, m, d)
    inside = weights.linear(
        "W_nodes_y", weights.norm("features.norm_y_nodes", weights.linear("features.y_nodes", kind))
    )
    pairs = there[:, :, None] & there[:, None]
    state = weights.linear("W_c", nodes)
    for i in range(len(weights.layers("context_encoder"))):
        inside = _attend(weights, f"y_context_encoder_layers.{i}", inside, edges, pairs) * there[..., None]
        joined = torch.cat([seen, inside], dim=-1)
        state = _attend(weights, f"context_encoder_layers.{i}", state, joined, there)
    return nodes + weights.norm("V_C_norm", weights.linear("V_C", state))


def _nearest(beta: Tensor, ligand: Tensor, elements: Tensor, most: int) -> tuple[Tensor, Tensor, Tensor]:
    """The atoms nearest to each residue: places (n, m, 3), elements (n, m) and whether there is one (n, m)."""
    n, count = len(beta), min(most, len(ligand))
    near = (beta[:, None] - ligand).square().sum(-1).argsort(dim=1, stable=True)[:, :count]
    place = torch.zeros(n, most, 3, dtype=beta.dtype, device=beta.device)
    element = torch.zeros(n, most, dtype=torch.int64, device=beta.device)
    place[:, :count], element[:, :count] = ligand[near], elements[near]
    return place, element, (torch.arange(most, device=beta.device) < count).expand(n, -1)


def _kinds(element: Tensor) -> Tensor:
    """Elements (...) as ones at their number, group and period (..., 147)."""
    group, period = (torch.tensor(table, device=element.device)[element] for table in (GROUP, PERIOD))
    return torch.cat([one_hot(element, 120), one_hot(group, 19), one_hot(period, 8)], dim=-1)


def _seen(weights: Weights, atoms: Tensor, place: Tensor, kind: Tensor) -> Tensor:
    """The features of each atom for a residue: its distances, its element, and its direction (n, m, d)."""
    apart = (atoms[:, None] - place[:, :, None]).square().sum(-1).add(1e-6).sqrt()  # (n, m, 5)
    near = radial_basis(apart).flatten(2)
    kinds = weights.linear("features.type_linear", kind)
    seen = weights.linear("features.node_project_down", torch.cat([near, kinds, _angles(atoms, place)], dim=-1))
    return weights.norm("features.norm_nodes", seen)


def _angles(atoms: Tensor, place: Tensor) -> Tensor:
    """The direction of each atom in the frame of N, CA and C: cosines and sines of its longitude and latitude."""
    first = normalize(atoms[:, 0] - atoms[:, 1], dim=-1)
    other = atoms[:, 2] - atoms[:, 1]
    second = normalize(other - first * (first * other).sum(-1, keepdim=True), dim=-1)
    frame = torch.stack([first, second, torch.linalg.cross(first, second)], dim=1)
    local = torch.einsum("nij,nmj->nmi", frame, place - atoms[:, 1:2])
    flat = (local[..., 0].square() + local[..., 1].square() + 1e-8).sqrt()
    whole = local.norm(dim=-1) + 1e-8
    return torch.stack([local[..., 0] / flat, local[..., 1] / flat, flat / whole, local[..., 2] / whole], dim=-1)


def _attend(weights: Weights, layer: str, state: Tensor, edges: Tensor, there: Tensor) -> Tensor:
    """States (..., d) after messages from what is there (..., k) along edges (..., k, c)."""
    joined = torch.cat([state[..., None, :].expand(*edges.shape[:-1], -1), edges], dim=-1)
    hidden = gelu(weights.linear(f"{layer}.W2", gelu(weights.linear(f"{layer}.W1", joined))))
    message = (weights.linear(f"{layer}.W3", hidden) * there[..., None]).sum(-2) / _SCALE
    state = weights.norm(f"{layer}.norm1", state + message)
    return weights.norm(f"{layer}.norm2", state + weights.dense(layer, state))
