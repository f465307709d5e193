"""Ways to draw from a chain. All exact ones give the same law; they differ in rounds and queries."""

import dataclasses

from drawahead.errors import InputError
from drawahead.samplers.auto import Auto
from drawahead.samplers.base import Guarantee, Sampler
from drawahead.samplers.block import Block
from drawahead.samplers.coupled import Coupled
from drawahead.samplers.picard import Picard
from drawahead.samplers.recursive import Recursive
from drawahead.samplers.separated import Separated
from drawahead.samplers.sequential import Sequential
from drawahead.samplers.stepwise import Stepwise
from drawahead.validate import short

SAMPLERS: dict[str, type[Sampler]] = {
    sampler.__name__.lower(): sampler for sampler in (Sequential, Recursive, Stepwise, Block, Coupled, Picard)
}
"""Every sampler by name, but for `Auto`, which chooses among them: tests, tables and the command line run over this."""


def named(name: str, window: int | None = None) -> Sampler:
    """The sampler called `name`, with a window if it takes one."""
    if not isinstance(name, str):
        raise InputError(f"name must be that of a sampler, not {short(name)}")
    if name == "auto":
        if window is not None:
            raise InputError("sampler 'auto' chooses its window itself: give a window with another, such as coupled")
        return Auto()
    if name not in SAMPLERS:
        raise InputError(f"there is no sampler {name!r}; the samplers are auto, {', '.join(SAMPLERS)}")
    if window is None:
        return SAMPLERS[name]()
    if "window" not in {field.name for field in dataclasses.fields(SAMPLERS[name])}:  # type: ignore[arg-type]
        raise InputError(f"sampler {name!r} takes no window")
    return SAMPLERS[name](window=window)  # type: ignore[call-arg]


__all__ = [
    "SAMPLERS",
    "Auto",
    "Block",
    "Coupled",
    "Guarantee",
    "Picard",
    "Recursive",
    "Sampler",
    "Separated",
    "Sequential",
    "Stepwise",
    "named",
]
