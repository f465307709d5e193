"""A training's folder: weights as safetensors, all else as JSON, each file replaced in one piece.

`state.json` names the weights that belong to it and is written after them: a training that is stopped anywhere, even
while it writes, leaves a folder that holds its last whole state.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from drawahead.ardiffusion.config import ModelConfig
from drawahead.ardiffusion.model import ARModel
from drawahead.errors import InputError
from drawahead.jobs import files
from drawahead.validate import as_device

_STATE = "state.json"


class Checkpoint(NamedTuple):
    """All that a training is after some step. Tensors are on the CPU."""

    config: ModelConfig
    step: int
    facts: dict[str, Any]
    """Plain values: the settings of the training, a digest of its data, and its losses so far."""
    weights: dict[str, Tensor]
    """Named `average/...`, `model/...` and `optimizer/...`."""

    def part(self, group: str) -> dict[str, Tensor]:
        """The weights of one of the three, by their own names."""
        prefix = f"{group}/"
        return {name.removeprefix(prefix): each for name, each in self.weights.items() if name.startswith(prefix)}


def write(folder: Path, checkpoint: Checkpoint) -> None:
    """Replace what the folder holds."""
    data = _safetensors().save(checkpoint.weights)
    folder.mkdir(parents=True, exist_ok=True)
    name = f"weights-{checkpoint.step:08d}.safetensors"
    files.write(folder / name, data)
    config = checkpoint.config.to_dict()
    state = {"config": config, "step": checkpoint.step, "weights": name, **checkpoint.facts}
    files.write(folder / _STATE, f"{json.dumps(state, indent=1)}\n".encode())
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
        config, step, name = ModelConfig.from_dict(state.pop("config")), int(state.pop("step")), state.pop("weights")
        return Checkpoint(config, step, state, _safetensors().load_file(folder / Path(name).name))
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"{path} cannot be read ({error}); train again into an empty folder") from error


def load(folder: str | Path, *, device: torch.device | str = "cpu") -> ARModel:
    """The trained model of a folder, its averaged weights, ready to draw from."""
    checkpoint = read(Path(folder))
    if checkpoint is None:
        raise InputError(f"{folder} holds no {_STATE}: use a folder that train(..., out=...) wrote")
    weights = {name: tensor.float() for name, tensor in checkpoint.part("average").items()}
    parts = [part for part in (checkpoint.config.encoder, checkpoint.config.denoiser) if part is not None]
    if any(getattr(part, name, 0) > len(weights) for part in parts for name in ("layers", "blocks")):
        raise InputError(f"{folder} does not hold the weights of the model it describes")
    try:
        with torch.device("meta"):  # no memory for what a folder from anywhere describes, only for what it holds
            model = ARModel(checkpoint.config)
        model.load_state_dict(weights, assign=True)
    except (RuntimeError, TypeError, MemoryError) as error:
        raise InputError(f"{folder} does not hold the weights of the model it describes: {str(error)[:200]}") from None
    return model.to(as_device("device", device)).eval().requires_grad_(False)


def _safetensors() -> Any:
    try:
        import safetensors.torch
    except ImportError:
        raise InputError("saved models need safetensors: pip install 'drawahead[models]'") from None
    return safetensors.torch
