"""Gaussian-step chains: step k draws x' = A_k x + B_k m_k + S_k xi, m_k the denoiser's prediction at x."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar, final

import torch
from torch import Tensor

from drawahead.chains.affine import AffineChain
from drawahead.chains.chain import Worked
from drawahead.chains.moves import ScalarMoves
from drawahead.errors import InputError
from drawahead.oracles.condition import Condition
from drawahead.oracles.denoisers import Denoiser, DenoisingTarget
from drawahead.schedules import Schedule, StochasticLocalization
from drawahead.schedules.subspace import Projection, Subspace
from drawahead.validate import as_shape


@final
class GaussianChain(AffineChain):
    """Draws vectors by the steps of a schedule.

    `denoiser` is a callable `(x, k) -> prediction` (see `denoisers`), which needs `shape`, or a `DenoisingTarget`.
    `start` fixes the first state, (*shape) or one for each sample. `known` holds values for some entries of the output
    and NaN elsewhere, (*shape) or one for each sample: after every step those entries are overwritten by a noised copy
    of the values, or with `clean` by the values themselves. Both are common inpainting heuristics, which are sampled
    exactly; neither gives the conditional distribution. `around` is the mean of the first state where that is not zero,
    (*shape) or one for each sample.

    `record` lists numbers of steps after which to keep the state: samples then have shape (num_samples, len(record) +
    1, *shape), raw states first and the output last. `dtype` is the dtype of the denoiser's inputs and of samples;
    `law_dtype` that of all computations of distributions: float64, or float32 on devices without float64 (or if you set
    it, see docs/exact.md).

    `condition` holds further inputs of the denoiser, such as labels: a tensor, or a dictionary of tensors, with a row
    for each sample or one for all. The denoiser is called as `denoiser(x, k, **rows)`, with the rows that belong to its
    states.

    `project` holds states in a subspace: a function `(m, *shape) -> (m, *shape)` that projects states onto it. The
    first state, predictions and noise are all projected.

    If the schedule has a learned variance, the denoiser returns twice the channels, (m, 2 * shape[0], ...): predictions
    first, then the values from which the schedule computes standard deviations.
    """

    noun: ClassVar[str] = "denoiser"

    def __init__(
        self,
        denoiser: Denoiser | DenoisingTarget,
        schedule: Schedule | None = None,
        shape: Sequence[int] | None = None,
        *,
        start: Tensor | None = None,
        known: Tensor | None = None,
        record: Sequence[int] = (),
        dtype: torch.dtype | None = None,
        device: torch.device | str = "cpu",
        condition: Condition = None,
        project: Projection | None = None,
        around: Tensor | None = None,
        clean: bool = False,
        law_dtype: torch.dtype | None = None,
    ) -> None:
        if isinstance(denoiser, DenoisingTarget):
            schedule = schedule or StochasticLocalization(512, denoiser.radius)
            shape, dtype = denoiser.shape, dtype or torch.float64
            denoiser = denoiser.denoiser(schedule)
        if schedule is None or shape is None:
            raise InputError("a plain denoiser needs schedule= and shape=")
        if start is not None and around is not None:
            raise InputError("give start, which is the first state, or around, which is its mean, not both")
        self.denoiser, self.schedule, self.clean = denoiser, schedule, clean
        self.subspace = None if project is None else Subspace(project, as_shape("shape", shape))
        moves = partial(ScalarMoves, schedule, self.subspace, clean)
        super().__init__(moves, shape, start, record, dtype, device, condition, law_dtype, known, around)
        if self.subspace is not None:
            self._check_subspace(self.subspace)
        self.built = True

    @property
    def project(self) -> Projection | None:
        """Onto the subspace that states are held in."""
        return None if self.subspace is None else self.subspace.project

    def deciding(self) -> dict[str, Any]:
        # What is done to predictions and states is a function: it is known by what it makes of some numbers.
        ramp = torch.linspace(-1.0, 1.0, self.size, dtype=self.law_dtype, device=self.device)
        waves = (torch.arange(1.0, 4.0, dtype=self.law_dtype, device=self.device)[:, None] * (ramp + 2)).cos()
        return super().deciding() | {
            "known": self.known,
            "around": self.around,
            "clean": self.clean,
            "schedule": Worked(self.schedule.plan()),
            "adjust": Worked(self.schedule.adjust((16 * ramp).sinh()[None])[0] @ ramp),
            "project": None if self.subspace is None else Worked(self.subspace(waves) @ waves.T),
        }

    def _check_subspace(self, subspace: Subspace) -> None:
        subspace.check(self.device)
        if self.known is not None:
            raise InputError("known entries cannot be overwritten in states that are held in a subspace by project")
        start = self.start_state
        if start is not None and bool((subspace.project(start) - start).abs().max() > 1e-6 * (1 + start.abs().max())):
            raise InputError("start must lie in the subspace that project projects onto: give project(start)")
