"""Kernels of point processes as the command line names them: `points:12`, `line:40`, `random:64`, or a file."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np
import torch
from torch import Tensor

from drawahead.errors import InputError
from drawahead.randomness import seeded

HINT = "give points:N, line:N, random:N, or a file that holds a square matrix: .npy, or .csv with a line for each item"
_NAMED = re.compile(r"(points|line|random):(\d{1,4})")
_MOST = 4000
_REACH = 1.5  # how far likeness reaches, in distances between neighbouring places


@final
@dataclass(frozen=True, eq=False)
class KernelFile:
    """A likelihood kernel (n, n), and where its items lie, if they are points."""

    matrix: Tensor
    places: tuple[tuple[float, float], ...] = ()


def is_file(spec: str) -> bool:
    """Whether a kernel is read from a file."""
    return _NAMED.fullmatch(spec) is None


def size(spec: str) -> int:
    """How many items a kernel has that is not read from a file."""
    named = _NAMED.fullmatch(spec)
    assert named is not None
    return int(named[2]) ** (2 if named[1] == "points" else 1)


def kernel_of(spec: str) -> KernelFile:
    """The kernel that `--kernel` names."""
    named = _NAMED.fullmatch(spec)
    if named is None:
        return KernelFile(torch.from_numpy(_read(Path(spec))))
    kind, side, n = named[1], int(named[2]), size(spec)
    if not 1 <= n <= _MOST:
        raise InputError(f"--kernel {spec}: a process has 1 to {_MOST} items here, not {n}; {HINT}")
    if kind == "random":
        vectors = torch.randn(n, n, dtype=torch.float64, generator=seeded(0)) / n**0.5
        return KernelFile(vectors @ vectors.T)
    places = tuple((float(j), float(i)) for i in range(side if kind == "points" else 1) for j in range(side))
    at = torch.tensor(places, dtype=torch.float64)
    return KernelFile(4 * torch.exp(-torch.cdist(at, at).square() / (2 * _REACH**2)), places)


def _read(path: Path) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    if not path.is_file():
        raise InputError(f"--kernel {path}: there is no such file; {HINT}")
    if path.suffix not in (".npy", ".csv"):
        raise InputError(f"--kernel {path}: a file of a kernel ends in .npy or .csv; {HINT}")
    try:
        values = np.load(path, allow_pickle=False) if path.suffix == ".npy" else _table(path)
        if np.iscomplexobj(values):
            raise InputError(f"{path} holds complex numbers, and a kernel here is a real symmetric matrix")
        matrix = np.asarray(values, dtype=np.float64)
    except InputError:
        raise
    except Exception as error:  # numpy reads a header as Python, with what that may raise
        raise InputError(f"{path} cannot be read: {error}; {HINT}") from None
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not 1 <= len(matrix) <= _MOST:
        raise InputError(f"{path} must hold a square matrix of 1 to {_MOST} lines, not one of shape {matrix.shape}")
    return matrix


def _table(path: Path) -> list[list[float]]:
    rows: list[list[float]] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if not line.strip():
            continue
        try:
            rows.append([float(word) for word in line.split(",")])
        except ValueError as error:
            raise InputError(f"{path}, line {number}: {error}; numbers are separated by commas") from None
        if len(rows[-1]) != len(rows[0]):
            raise InputError(f"{path}, line {number}: it has {len(rows[-1])} numbers, and the first {len(rows[0])}")
    return rows
