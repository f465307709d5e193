"""What is drawn: a chain is a value, and says what can be done with it."""

from __future__ import annotations

import abc
import inspect
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, ClassVar, Self

import torch
from torch import Tensor

from drawahead.errors import InputError
from drawahead.oracles.condition import Conditions
from drawahead.randomness import Stream
from drawahead.values import dataclass, refusal

if TYPE_CHECKING:
    from drawahead.chains.base import Paths, Tally


@dataclass(frozen=True, eq=False)
class Worked:
    """Numbers that are worked out, in tables, plans or alone: on another machine their last digit may be another."""

    numbers: Any


class Chain(abc.ABC):
    """How a sample is drawn step by step: each step from a distribution that depends on the steps before it."""

    built = False
    """Set by a constructor when it is done: from then on the chain is a value, and cannot be changed."""

    def __setattr__(self, name: str, value: Any) -> None:
        if self.built:
            raise refusal(type(self).__name__, f"chain.replace({name}=...)")
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        if self.built:
            raise refusal(type(self).__name__, f"chain.replace({name}=...)")
        super().__delattr__(name)

    def __repr__(self) -> str:
        if not self.built:  # a subclass that is not ready, or has no constructor of ours
            return f"<{type(self).__name__}>"
        return f"<{type(self).__name__}: {self.steps} steps, {self._drawn()}>"

    def _repr_html_(self) -> str:
        from drawahead.show.notebook import of_chain  # what people look at comes last

        return of_chain(self)

    def _drawn(self) -> str:
        """What it draws, in a word."""
        return f"vectors of shape {tuple(getattr(self, 'shape', ()))}"

    def replace(self, **changes: Any) -> Self:
        """The same chain with other arguments of the constructor."""
        names = inspect.signature(type(self)).parameters
        attributes = {name: "start_state" if name == "start" else name for name in names}  # `start` makes paths
        own = {name: getattr(self, stored) for name, stored in attributes.items() if hasattr(self, stored)}
        return type(self)(**own | changes)

    def compiled(self) -> Self:
        """The same chain, with its model through `torch.compile`: quicker once it is compiled, equal up to rounding.

        Keep the chain: the compiled code is released with it.
        """
        raise InputError(f"the model of a {type(self).__name__} cannot be compiled: leave .compiled() out")

    @property
    def note(self) -> str:
        """What reports say about the model."""
        return ""

    @property
    @abc.abstractmethod
    def steps(self) -> int:
        """N: the most steps a sample takes."""

    @property
    def model(self) -> Any:
        """What answers its queries: a token oracle, or the chain itself."""
        return self

    @property
    def device(self) -> torch.device:
        """Where the model lives."""
        return torch.device("cpu")

    @property
    def one_pass(self) -> bool:
        """Whether a query about a whole path costs no more than one about a single step."""
        return False

    @property
    def passes(self) -> int:
        """How many states the model processes for one query."""
        return 1

    @property
    def ends_early(self) -> bool:
        """Whether the number of steps depends on the sample."""
        return False

    foresees: ClassVar[bool] = True
    """Whether an answer says something about later steps, too: a left-to-right model's does not."""
    reads_rows: ClassVar[bool] = False
    """Whether every step that an answer drafts is a row to read. A prediction drafts any number of steps."""

    def without_model(self) -> Self:
        """The same chain on the CPU, without its model, for a driver process whose workers hold the model."""
        raise InputError(f"a {type(self).__name__} cannot be drawn by workers: leave out the executor, or use Local()")

    @property
    def row_bytes(self) -> int:
        """About how much memory one step of a sample takes in a captured round."""
        return 8

    @property
    def answers_paths(self) -> bool:
        """Whether a path counts as one item of a batch, however many of its steps are queried."""
        return False

    condition: Conditions
    """Further inputs of the model: a row for each sample, or one for all."""

    @abc.abstractmethod
    def start(self, seed: int, samples: Tensor, tally: Tally) -> Paths:
        """Fresh paths for the samples with these numbers."""

    def stream(self, seed: int, samples: Tensor, device: torch.device) -> Stream:
        """The noise of these samples."""
        raise NotImplementedError

    def begun(self, stream: Stream, samples: Tensor, condition: Conditions, tally: Tally) -> Paths:
        """Fresh paths for samples with this noise, and these rows of the condition."""
        raise NotImplementedError

    @property
    def alike(self) -> Hashable:
        """Equal for chains of one model whose samples begin alike but for noise and condition: as `begun` has it, with
        their `stream`. None where samples have more of their own."""
        return None

    def captured_parts(self) -> dict[str, Any]:
        """What a captured round of this chain depends on beside its samples: the model, and the chain's settings."""
        return vars(self)

    def deciding(self) -> dict[str, Any]:
        """All settings that samples depend on besides the model, the condition and the noise, by name: arguments as
        plain values and tables, and the coefficients of plans. A job is resumed only if they are equal."""
        return {}

    @abc.abstractmethod
    def check(self, num_samples: int) -> None:
        """Raise an error, before anything is drawn, if the chain cannot give so many samples."""

    @abc.abstractmethod
    def empty(self, num_samples: int) -> Tensor:
        """Room for the values of so many samples, on the CPU."""
