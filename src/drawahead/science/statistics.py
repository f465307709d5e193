"""Samples as results: mean, quantiles and spread of every entry, with their Monte-Carlo errors, in little memory."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np
import torch
from torch import Tensor

from drawahead.errors import InputError
from drawahead.rounds.run import Result
from drawahead.validate import numbers, short, whole
from drawahead.validate import path as as_path
from drawahead.values import dataclass

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LEVELS = (0.025, 0.16, 0.5, 0.84, 0.975)
"""The usual quantiles: the median, and bands of 68% and 95%."""
_HELD = 2048  # values of each entry that a level holds at least, once there are so many


@final
@dataclass(frozen=True, eq=False)
class Summary:
    """Statistics of draws, entry by entry; all tables are float64 and have the shape of a sample."""

    number: int
    """Draws."""
    mean: Tensor
    mean_error: Tensor
    """The standard error of the mean."""
    spread: Tensor
    """The standard deviation."""
    levels: tuple[float, ...]
    quantiles: Tensor
    """(levels, *shape)"""
    quantile_errors: Tensor
    """Half the distance between the values one standard deviation of a quantile's rank below and above it. No shape of
    the distribution is assumed."""
    rank_error: float
    """How far a quantile's rank may be off, in parts of all draws, because not all draws were held; mostly 0."""

    @property
    def median(self) -> Tensor:
        return self.quantile(0.5)

    def quantile(self, level: float) -> Tensor:
        """One of the quantiles of the summary."""
        if level not in self.levels:
            raise InputError(f"level {short(level)} is not among quantiles={self.levels}: add it")
        return self.quantiles[self.levels.index(level)]

    def arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """All tables by name, as numpy arrays: for np.savez, zarr.save_group, an xarray.Dataset or HDF5."""
        tables = {name: value.numpy() for name, value in vars(self).items() if isinstance(value, Tensor)}
        return tables | {"levels": np.array(self.levels), "number": np.array(self.number)}

    def save(self, path: str | Path) -> None:
        """Write `arrays()` to an npz file."""
        out = as_path("path", path)
        if out.suffix != ".npz":
            raise InputError(f"path must end in .npz, not be {out.name!r}; for other formats write arrays() yourself")
        with out.open("wb") as file:
            np.savez(file, **self.arrays())  # type: ignore[arg-type]

    def to_xarray(self, dims: Sequence[str], coords: Mapping[str, Any] | None = None) -> Any:
        """An `xarray.Dataset` with your labels: its `to_netcdf` writes HDF5, its `to_zarr` zarr.

        dims: a name for each axis of a sample, or of `mean` at least. coords: labels along them, by their names.
        """
        try:
            import xarray
        except ImportError:
            raise InputError("labelled tables need xarray: pip install xarray h5netcdf") from None
        if len(dims) != self.mean.dim() or isinstance(dims, str):
            raise InputError(f"dims must name the {self.mean.dim()} axes {tuple(self.mean.shape)}, not {short(dims)}")
        arrays, levels = self.arrays(), {"level": np.array(self.levels)}
        axes = {name: ("level", *dims) if name.startswith("quantile") else tuple(dims) for name in arrays}
        tables = {name: (axes[name], table) for name, table in arrays.items() if table.ndim and name != "levels"}
        facts = {"number": self.number, "rank_error": self.rank_error}
        return xarray.Dataset(tables, {**levels, **(coords or {})}, facts)

    def __getitem__(self, index: Any) -> Summary:
        """The summary of some entries alone: `summary[0, :, 3]`."""
        inner = index if isinstance(index, tuple) else (index,)
        return replace(
            self,
            **{name: getattr(self, name)[inner] for name in ("mean", "mean_error", "spread")},
            **{name: getattr(self, name)[(slice(None), *inner)] for name in ("quantiles", "quantile_errors")},
        )

    def plot(
        self,
        path: str | Path | None = None,
        *,
        x: Sequence[float] | Tensor | None = None,
        xlabel: str = "",
        ylabel: str = "",
        log: bool = False,
    ) -> Figure:
        """Bands of the quantiles against `x`, such as wave numbers, and a line of the median; needs the extra `plots`.

        For samples of one axis: name others first, as in `summary[0, :, 3].plot(x=k)`. log: both axes.
        """
        from drawahead.show.plots import canvas

        if self.mean.dim() != 1:
            raise InputError(f"bands need one axis, not {tuple(self.mean.shape)}: choose entries, as summary[0, :, 3]")
        at: np.ndarray[Any, Any] = np.arange(len(self.mean)) if x is None else np.asarray(x)
        if at.shape != self.mean.shape:
            raise InputError(f"x must have {len(self.mean)} values, one for each entry, not shape {at.shape}")
        lines, order = self.quantiles.numpy(), np.argsort(self.levels)
        with canvas(path, 7.2, 4.2) as figure:
            axes = figure.add_subplot()
            for i, (low, high) in enumerate(zip(order, order[::-1], strict=True)):
                if self.levels[low] < self.levels[high]:
                    share = f"{self.levels[high] - self.levels[low]:.0%} of draws"
                    shade = 1 - (i + 1) / (len(order) // 2 + 1)  # inner bands are darker, and opaque, as the legend's
                    color = tuple(part + shade * (1 - part) for part in (0.04, 0.43, 0.39))
                    axes.fill_between(at, lines[low], lines[high], color=color, linewidth=0, label=share)
                elif low == high:
                    axes.plot(at, lines[low], color="#06403a", label="median" if self.levels[low] == 0.5 else None)
            axes.set(xlabel=xlabel, ylabel=ylabel, **({"xscale": "log", "yscale": "log"} if log else {}))
            axes.legend()
        return figure

    def __repr__(self) -> str:
        shape, largest = tuple(self.mean.shape), max(self.mean_error.flatten().tolist(), default=math.nan)
        return f"<Summary of {self.number} draws of shape {shape}: largest error of the mean {largest:.3g}>"


@final
class Draws:
    """Accumulates statistics of samples, batch after batch; its memory grows with the logarithm of their number.

    Up to 4096 draws are stored, and their quantiles are exact. Beyond that every second draw of a sorted batch is
    stored with weight two, and so on: ranks are then off by at most `rank_error`, as a fraction of all draws.
    """

    def __init__(self, quantiles: Sequence[float] = LEVELS) -> None:
        self.levels = numbers("quantiles", quantiles)
        if not self.levels or not all(0 < level < 1 for level in self.levels):
            raise InputError(f"quantiles must be between 0 and 1, not {short(quantiles)}")
        self.number = 0
        self._shape: torch.Size | None = None
        self._mean = self._squares = torch.zeros(0)
        self._held: list[Tensor] = []  # (values, entries), each of which stands for 1, 2, 4, ... draws
        self._turns: list[int] = []
        self._lost = 0.0  # ranks

    def add(self, samples: Tensor) -> None:
        """Add draws (m, *shape)."""
        if samples.dim() < 1 or (self._shape is not None and samples.shape[1:] != self._shape):
            raise InputError(f"samples must have shape (number, *{self._shape}), not {tuple(samples.shape)}")
        if not samples.is_floating_point():
            raise InputError(f"samples must be numbers of a scale, not {samples.dtype}: tokens have no quantiles")
        if not len(samples):
            return
        values = samples.detach().to("cpu", torch.float64)[..., None].flatten(1)
        if not bool(values.isfinite().all()):
            raise InputError("samples must be finite numbers: look for NaN in the model's answers")
        if self._shape is None:
            self._shape = samples.shape[1:]
            self._mean, self._squares = torch.zeros(2, values.shape[1], dtype=torch.float64)
        before, self.number = self.number, self.number + len(values)
        off = values.mean(0) - self._mean  # Chan, Golub and LeVeque's update
        self._squares = self._squares + (values - values.mean(0)).square().sum(0)
        self._squares = self._squares + off**2 * (before * len(values) / self.number)
        self._mean = self._mean + off * (len(values) / self.number)
        for part in values.split(_HELD):
            self._hold(part, 0)

    def _hold(self, values: Tensor, level: int) -> None:
        if level == len(self._held):
            self._held.append(values[:0])
            self._turns.append(0)
        held = torch.cat([self._held[level], values])
        if len(held) > 2 * _HELD:
            even = len(held) // 2 * 2
            turn, self._turns[level] = self._turns[level], 1 - self._turns[level]
            self._lost += 2.0**level  # by so much a rank may now be off, at most
            held, rest = held[even:], held[:even].sort(0).values[turn::2]
            self._hold(rest, level + 1)
        self._held[level] = held

    def summary(self) -> Summary:
        """The summary of all draws so far."""
        if self.number < 2 or self._shape is None:
            raise InputError(f"a summary needs at least two draws, not {self.number}")
        n, shape = self.number, self._shape
        spread = (self._squares / (n - 1)).sqrt()
        level = torch.tensor(self.levels, dtype=torch.float64)
        rank, off = level * (n - 1), (n * level * (1 - level)).sqrt()  # and how far it varies
        at, low, high = (self._at(ranks) for ranks in (rank, rank - off, rank + off))
        return Summary(
            n,
            self._mean.view(shape).clone(),
            (spread / math.sqrt(n)).view(shape),
            spread.view(shape),
            self.levels,
            at.view(-1, *shape),
            ((high - low) / 2).view(-1, *shape),
            self._lost / n,
        )

    def _at(self, ranks: Tensor) -> Tensor:
        """The values at these ranks, 0 ... n-1, of every entry (ranks, entries); between two of them, linearly."""
        weight = torch.cat([torch.full((len(held),), 2**level) for level, held in enumerate(self._held)])
        values, order = torch.cat(self._held).sort(0)
        upto = weight[order].cumsum(0)  # (values, entries)
        found = []
        for rank in ranks.clamp(0, self.number - 1).tolist():
            below, above = (
                values.gather(0, (upto <= whole_rank).sum(0, keepdim=True).clamp(max=len(values) - 1))[0]
                for whole_rank in (math.floor(rank), math.ceil(rank))
            )
            found.append(below + (rank - math.floor(rank)) * (above - below))
        return torch.stack(found)


def summary(result: Result | Tensor, *, quantiles: Sequence[float] = LEVELS, draws: int | None = None) -> Summary:
    """Mean, quantiles and spread of samples, entry by entry, with Monte-Carlo errors.

    result: the result of `sample`, or its samples (number, *shape). For more than fit into memory, `Draws` takes them
        in batches.
    draws: how many samples belong to each row of a condition (see `da.science.repeated`): tables then have one row for
        each, (rows, *shape).
    """
    if isinstance(result, Result) and not result.complete:
        raise InputError(
            "these samples were stopped early; the ones that finish first are not typical: draw all of them"
        )
    samples = result.samples if isinstance(result, Result) else result
    if draws is not None:
        draws = whole("draws", draws, 2)
        if len(samples) % draws:
            raise InputError(f"draws={draws} does not divide the {len(samples)} samples: draw as many for each row")
        samples = samples.unflatten(0, (-1, draws)).transpose(0, 1)
    added = Draws(quantiles)
    added.add(samples)
    return added.summary()
