"""States held in a subspace, such as that of molecules whose centre of mass is zero."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

import torch
from torch import Tensor

from drawahead.errors import InputError

Projection = Callable[[Tensor], Tensor]
"""(m, *shape) -> (m, *shape): the orthogonal projection of each onto the subspace."""


@final
class Subspace:
    """A projection, on flat vectors (..., d).

    A value keeps its noise in all directions, and what leads out of the subspace is dropped on the way to the state.
    Draft and target are then Gaussians like any other: what is dropped has one law for both.
    """

    def __init__(self, project: Projection, shape: tuple[int, ...]) -> None:
        self.project, self.shape = project, shape

    def __call__(self, vectors: Tensor) -> Tensor:
        return self.project(vectors.reshape(-1, *self.shape)).reshape(vectors.shape)

    def check(self, device: torch.device) -> None:
        """Refuse what is not an orthogonal projection, as far as a few random vectors tell."""
        generator = torch.Generator().manual_seed(0)
        u, v = torch.randn(2, *self.shape, dtype=torch.float64, generator=generator).flatten(1).to(device)
        given = torch.stack([u, v, 2 * u - 3 * v])
        try:
            pu, pv, both = self(given.clone())
            again = self(torch.stack([pu, pv]))
        except (RuntimeError, TypeError, ValueError, AttributeError) as error:
            raise InputError(f"project must answer states {self.shape} with states, but: {error}") from error
        apart = [both - (2 * pu - 3 * pv), again[0] - pu, again[1] - pv, ((pu @ v) - (u @ pv)).view(1)]
        if not all(bool(difference.abs().max() <= 1e-6 * given.abs().max()) for difference in apart):
            raise InputError(
                "project must be an orthogonal projection: linear, the same when applied twice, and symmetric; "
                "x - x.mean(dim=1, keepdim=True) is one"
            )

    def basis(self, size: int, device: torch.device) -> Tensor:
        """Orthonormal columns that span it (d, dimensions)."""
        values, vectors = torch.linalg.eigh(self(torch.eye(size, dtype=torch.float64, device=device)))
        inside: Tensor = vectors[:, values > 0.5]
        return inside
