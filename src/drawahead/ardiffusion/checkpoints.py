"""A training's folder: weights as safetensors, all else as JSON, each file replaced in one piece.

`state.json` names the weights that belong to it and is written after them: a training that is stopped anywhere, even
while it writes, leaves a folder that holds its last whole state.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import torch
from torch import Tensor

from drawahead.ardiffusion.config import ModelConfig
from drawahead.ardiffusion.model import ARModel
from drawahead.errors import InputError
from drawahead.validate import as_device, path

_STATE = "state.json"


@final
@dataclass(frozen=True, eq=False)
class Checkpoint:
    """All that a training is after some step. Tensors are on the CPU."""

    config: ModelConfig
    step: int
    facts: dict[str, Any]
    """Plain values: what the training was asked to do, on what data, and its losses so far."""
    weights: dict[str, dict[str, Tensor]]
    """The weights by what they are: `average`, `model`, `optimizer`."""


def write(folder: Path, checkpoint: Checkpoint) -> None:
    """Replace what the folder holds."""
    save_file = _safetensors().save_file
    folder.mkdir(parents=True, exist_ok=True)
    name = f"weights-{checkpoint.step:08d}.safetensors"
    flat = {f"{group}/{key}": tensor for group, own in checkpoint.weights.items() for key, tensor in own.items()}
    _replace(folder / name, lambda path: save_file(flat, path))
    state = {
        "config": checkpoint.config.to_dict(),
        "step": checkpoint.step,
        "weights": name,
        **checkpoint.facts,
    }
    _replace(folder / _STATE, lambda path: path.write_text(json.dumps(state, indent=1) + "\n", encoding="utf-8"))
    for old in folder.glob("weights-*.safetensors"):
        if old.name != name:
            old.unlink()


def read(folder: Path) -> Checkpoint | None:
    """What the folder holds; None if no training was ever saved there."""
    path = folder / _STATE
    if not path.exists():
        return None
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
        config, step, name = (
            ModelConfig.from_dict(state.pop("config")),
            int(state.pop("step")),
            str(state.pop("weights")),
        )
        flat: dict[str, Tensor] = _safetensors().load_file(folder / Path(name).name)
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"{path} cannot be read ({error}); train again into an empty folder") from error
    weights: dict[str, dict[str, Tensor]] = {}
    for key, tensor in flat.items():
        group, _, rest = key.partition("/")
        weights.setdefault(group, {})[rest] = tensor
    return Checkpoint(config, step, state, weights)


def load(folder: str | Path, *, device: torch.device | str = "cpu") -> ARModel:
    """The trained model of a folder, its averaged weights, ready to draw from."""
    checkpoint = read(path("folder", folder))
    if checkpoint is None:
        raise InputError(f"{folder} holds no {_STATE}: give the folder that train(..., out=...) wrote")
    weights = {name: tensor.float() for name, tensor in checkpoint.weights.get("average", {}).items()}
    parts = [part for part in (checkpoint.config.encoder, checkpoint.config.denoiser) if part is not None]
    if any(getattr(part, name, 0) > len(weights) for part in parts for name in ("layers", "blocks")):
        raise InputError(f"{folder} does not hold the weights of the model it describes")
    try:
        with torch.device("meta"):  # no room is made for what a folder from anywhere describes, only for what it holds
            model = ARModel(checkpoint.config)
        model.load_state_dict(weights, assign=True)
    except (RuntimeError, TypeError, MemoryError) as error:
        raise InputError(f"{folder} does not hold the weights of the model it describes: {str(error)[:200]}") from None
    return model.to(as_device("device", device)).eval().requires_grad_(False)


def _replace(path: Path, write: Callable[[Path], object]) -> None:
    """Write beside, then move into place: readers see the old file or the new one, never half of one."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.unlink(missing_ok=True)  # if a stranger put a link there, it is not followed
    try:
        write(beside)
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def _safetensors() -> Any:
    try:
        import safetensors.torch
    except ImportError:
        raise InputError("saved models need safetensors: pip install 'drawahead[models]'") from None
    return safetensors.torch
