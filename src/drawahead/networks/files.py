"""The weights of the shipped networks, which come in a package of their own: drawahead-models."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import as_file, files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TypeVar

import torch
from torch import Tensor, nn

from drawahead.errors import InputError
from drawahead.validate import as_device, floating

Network = TypeVar("Network", bound=nn.Module)


def trained(network: Network, name: str, device: torch.device | str, dtype: torch.dtype) -> Network:
    """The network with the weights that are shipped under this name, ready to draw from."""
    network.load_state_dict(load(name))
    return network.to(as_device("device", device), floating("dtype", dtype)).eval().requires_grad_(False)


def load(name: str) -> dict[str, Tensor]:
    """The weights of a shipped network, in single precision."""
    with _opened(name) as path:
        from safetensors.torch import load_file

        return {key: tensor.float() for key, tensor in load_file(path).items()}


def facts(name: str) -> dict[str, str]:
    """The metadata of a shipped network: how it was trained, and what it takes to use it."""
    with _opened(name) as path:
        from safetensors import safe_open

        with safe_open(path, framework="pt") as file:
            return dict(file.metadata() or {})


def place(name: str) -> Traversable:
    """Where the weights are."""
    return files("drawahead_models") / f"{name}.safetensors"


@contextmanager
def _opened(name: str) -> Iterator[Path]:
    try:
        import safetensors  # noqa: F401

        where = place(name)
    except ImportError as error:
        package = "safetensors" if error.name == "safetensors" else "drawahead-models"
        raise InputError(f"the shipped networks need {package}: pip install 'drawahead[models]'") from None
    if not where.is_file():
        raise InputError(
            f"this version of drawahead-models has no {name}.safetensors: pip install --upgrade drawahead-models, or "
            f"train the network with training/{name}.py"
        )
    with as_file(where) as path:
        yield path
