"""Weights that come inside the package."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import as_file, files
from importlib.resources.abc import Traversable
from pathlib import Path

from torch import Tensor

from drawahead.errors import InputError


def load(name: str) -> dict[str, Tensor]:
    """The weights of a shipped network, in single precision."""
    with _opened(name) as path:
        from safetensors.torch import load_file

        return {key: tensor.float() for key, tensor in load_file(path).items()}


def facts(name: str) -> dict[str, str]:
    """What is written beside the weights of a shipped network: how it was trained, and what it takes to use it."""
    with _opened(name) as path:
        from safetensors import safe_open

        with safe_open(path, framework="pt") as file:
            return dict(file.metadata() or {})


def place(name: str) -> Traversable:
    """Where the weights are."""
    return files("drawahead.networks") / "weights" / f"{name}.safetensors"


@contextmanager
def _opened(name: str) -> Iterator[Path]:
    try:
        import safetensors  # noqa: F401
    except ImportError:
        raise InputError("the shipped networks need safetensors: pip install 'drawahead[models]'") from None
    if not place(name).is_file():
        raise InputError(
            f"the weights of {name} are not in this copy of drawahead: install a release that has them, or train them "
            f"with training/{name}.py and put {name}.safetensors into drawahead/networks/weights"
        )
    with as_file(place(name)) as path:
        yield path
