"""What a command draws from: the options that only some targets have, an entry for each name, and what it makes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, final

from drawahead.errors import InputError

if TYPE_CHECKING:
    from drawahead.chains import Chain, TokenChain
    from drawahead.samplers import Sampler
    from drawahead.show.views import View


@final
@dataclass(frozen=True)
class TargetOptions:
    """The options of `drawahead sample` that only some targets have; None where an option is not set."""

    size: int | None = None
    order: str | None = None
    prompt: str | list[str] | None = None
    """A list if there are several."""
    temperature: float | None = None
    steps: int | None = None
    device: str | None = None
    dtype: str | None = None
    guidance: float | None = None
    graph: str | None = None
    kernel: str | None = None
    items: int | None = None
    coupling: float | None = None
    compile: bool | None = None

    @property
    def given(self) -> dict[str, Any]:
        """The options that are set and that a sample depends on: all but the device."""
        return {name: value for name, value in vars(self).items() if value is not None and name != "device"}

    def filled(self, options: Mapping[str, Any]) -> TargetOptions:
        """With the options of a manifest where none is set here. A manifest may hold anything: it is checked."""
        kinds = {name: str(kind).replace("float", "float, int") for name, kind in self.__annotations__.items()}
        for name, value in options.items():
            if name == "device" or type(value).__name__ not in kinds.get(name, ""):
                raise InputError(f"the job has the option {name!r} with the value {value!r}, which no target has")
        return replace(self, **{name: value for name, value in options.items() if getattr(self, name) is None})

    @property
    def one_prompt(self) -> str | None:
        """The prompt of a target that takes no more than one."""
        if isinstance(self.prompt, list):
            raise InputError(f"--prompt is given {len(self.prompt)} times: give one, or run once for each")
        return self.prompt

    def only(self, name: str, *options: str) -> None:
        """Refuse options that the target called `name` does not have."""
        for option, value in vars(self).items():
            if value is not None and option not in options:
                why = "; its exact oracle computes in float64" if option == "dtype" else ""
                takes = f", which takes {', '.join(f'--{known}' for known in options)}" if options and not why else ""
                raise InputError(f"--{option} does not apply to {name}{takes}{why}")


@final
@dataclass(frozen=True)
class Subject:
    """Something to draw from, and how its samples look."""

    name: str
    chain: Chain
    view: View
    num: int = 8
    """How many samples are drawn by default."""
    sampler: Sampler | None = None
    """The default sampler; None measures and chooses."""
    remark: str = ""
    """What the user should know before the samples come."""
    setup_seconds: float = 0.0
    """How long it took to make."""
    options: dict[str, Any] = field(default_factory=dict)
    """What it was made with, defaults included: a job records this, and is resumed with it."""

    def of(self, num: int) -> Subject:
        """The same for `num` samples: several prompts take turns, so sample i shows prompt i modulo their number."""
        condition: Mapping[str, Any] = getattr(self.chain, "condition", {})
        if not condition or all(len(table) == 1 for table in condition.values()):
            return self
        if (prompts := max(map(len, condition.values()))) > num:
            raise InputError(f"--num {num} leaves some of the {prompts} prompts out: ask for {prompts} samples or more")
        turns = {name: table[[i % len(table) for i in range(num)]] for name, table in condition.items()}
        return replace(self, chain=self.chain.replace(condition=turns))


@final
@dataclass(frozen=True)
class Entry:
    """A name that `drawahead sample` knows. Houses list theirs as `ENTRIES` in their `commands`."""

    name: str
    kind: str
    """network, tokens, vectors, tiling or counting."""
    summary: str
    options: tuple[str, ...]
    """Those of `TargetOptions` that apply."""
    make: Callable[[str, TargetOptions], Subject]
    """Makes the subject, from the entry's name and the options."""
    size: int | str | None = None
    """The default size; of a network, its sizes in words."""


def in_order(chain: TokenChain, order: str | None) -> TokenChain:
    """The same chain in the order that `--order` names."""
    return chain.replace(order="spread") if order == "spread" else chain
