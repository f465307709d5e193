"""How far rounding may go: by the precision in which a model is seen to work, not the one in which it answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

# A few units in the last place, or what another order of the same sums comes to; in half precision the unit itself.
_FLOOR = {torch.float64: 1e-9, torch.float32: 1e-5, torch.float16: 1e-3, torch.bfloat16: 8e-3}
# Float64 leaves room for formulas that cancel, float32 for networks whose products are done in TensorFloat-32.
_CEILING = {torch.float64: 1e-4, torch.float32: 3e-3, torch.float16: 3e-2, torch.bfloat16: 1e-1}


@final
@dataclass(frozen=True)
class Precision:
    """The lowest precision of any number a model makes on the way to its answer."""

    dtype: torch.dtype

    @property
    def name(self) -> str:
        return str(self.dtype).removeprefix("torch.")

    @property
    def unit(self) -> float:
        """The relative distance of neighbouring numbers."""
        return float(torch.finfo(self.dtype).eps)

    @property
    def floor(self) -> float:
        """Answers that differ by less are the same, even if the model has shown no rounding."""
        return _FLOOR.get(self.dtype, _FLOOR[torch.bfloat16])

    @property
    def ceiling(self) -> float:
        """Answers that differ by more are different, whatever the model has shown: rounding does not go so far."""
        return _CEILING.get(self.dtype, _CEILING[torch.bfloat16])


FULL = Precision(torch.float64)


def seen(work: Callable[[], object]) -> Precision:
    """The precision of what is done while this works. It is seen inside of compiled and scripted models, too."""
    with _Watching() as watching:
        work()
    return Precision(max(watching.dtypes, key=lambda dtype: torch.finfo(dtype).eps, default=torch.float64))


class _Watching(TorchDispatchMode):
    """Notes the dtype of every tensor of floats that is made."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # what notes is never compiled; to make sure of it, torch would load its compiler, for seconds

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.dtypes: set[torch.dtype] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        self.dtypes.update(
            leaf.dtype for leaf in tree_leaves(out) if isinstance(leaf, Tensor) and leaf.is_floating_point()
        )
        return out
