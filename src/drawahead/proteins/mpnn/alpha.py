"""The edges of ProteinMPNN's CA-only models: distances and orientations from the positions of CA alone."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import normalize, pad

CENTRES = 16
"""Radial basis functions a distance."""
FEATURES = 9 * CENTRES + 7
"""Numbers an edge: nine distances, a direction and a rotation."""
_BOND = (3.6, 4.0)  # angstroms between consecutive CAs; anything else is a break of the chain
# Which residues the distances are between: 0 the one before, 1 the residue itself, 2 the one after.
_PAIRS = ((1, 1), (0, 0), (2, 2), (0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1))


def radial_basis(distance: Tensor) -> Tensor:
    """Distances (...) as activations (..., centres) of centres from 2 to 22 angstroms."""
    centres = torch.linspace(2.0, 22.0, CENTRES, dtype=distance.dtype, device=distance.device)
    return (distance[..., None] - centres).div(20.0 / CENTRES).square().neg().exp()


def edges(alpha: Tensor, neighbours: Tensor, index: Tensor, chain: Tensor) -> Tensor:
    """The features of each edge (n, k, features) from the positions of CA (n, 3).

    A residue that is missing counts as one at the origin, as in the code the weights were trained with.
    """
    gap = (index[1:] != index[:-1] + 1) & (chain[1:] == chain[:-1])
    before = pad(alpha[:-1].masked_fill(gap[:, None], 0.0), (0, 0, 1, 0))
    after = pad(alpha[1:].masked_fill(gap[:, None], 0.0), (0, 0, 0, 1))
    near = (before, alpha, after)
    apart = torch.stack([near[a][:, None] - near[b][neighbours] for a, b in _PAIRS], dim=2)  # (n, k, 9, 3)
    radial = radial_basis(apart.square().sum(-1).add(1e-6).sqrt()).flatten(2)
    frame = _frames(alpha, gap)
    direction = torch.einsum("nij,nkj->nki", frame, alpha[neighbours] - alpha[:, None])
    turn = torch.einsum("nji,nkjl->nkil", frame, frame[neighbours])
    return torch.cat([radial, normalize(direction, dim=-1), _quaternion(turn)], dim=-1)


def _frames(alpha: Tensor, gap: Tensor) -> Tensor:
    """The orientation of each residue (n, 3, 3), from the bonds on both its sides; zero where one is missing."""
    bond = alpha[1:] - alpha[:-1]
    length = bond.norm(dim=-1)
    there = (length > _BOND[0]) & (length < _BOND[1]) & ~gap
    bond = normalize(bond * there[:, None], dim=-1)
    first, second = bond[:-2], bond[1:-1]  # the last residue but one has none, either
    along = normalize(first - second, dim=-1)
    normal = normalize(torch.linalg.cross(first, second), dim=-1)
    frame = torch.stack([along, normal, torch.linalg.cross(along, normal)], dim=1)
    return pad(frame, (0, 0, 0, 0, 1, len(alpha) - 1 - len(frame)))


def _quaternion(turn: Tensor) -> Tensor:
    """Rotations (..., 3, 3) as quaternions (..., 4), the real part last."""
    x, y, z = turn.diagonal(dim1=-2, dim2=-1).unbind(-1)
    size = 0.5 * torch.stack([1 + x - y - z, 1 - x + y - z, 1 - x - y + z], dim=-1).abs().sqrt()
    sign = [turn[..., 2, 1] - turn[..., 1, 2], turn[..., 0, 2] - turn[..., 2, 0], turn[..., 1, 0] - turn[..., 0, 1]]
    real = (1 + x + y + z).relu().sqrt() / 2
    return normalize(torch.cat([torch.stack(sign, dim=-1).sign() * size, real[..., None]], dim=-1), dim=-1)
