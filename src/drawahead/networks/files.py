"""Weights that come inside the package."""

from __future__ import annotations

from importlib.resources import as_file, files

from torch import Tensor

from drawahead.errors import InputError


def load(name: str) -> dict[str, Tensor]:
    """The weights of a shipped network, in single precision."""
    try:
        from safetensors.torch import load_file
    except ImportError:
        raise InputError("the shipped networks need safetensors: pip install 'drawahead[models]'") from None
    with as_file(files("drawahead.networks") / "weights" / f"{name}.safetensors") as path:
        return {key: tensor.float() for key, tensor in load_file(path).items()}
