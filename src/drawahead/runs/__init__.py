"""One call of `sample` under way: which samples wait, are being drawn, are done, and what it has cost.

Two runs do the same work. `EngineRun` drives the round engine, for every sampler and oracle; `FixedRun` drives rounds
of fixed shape, for samplers and oracles that allow them.
"""

from drawahead.runs.base import Call, Run, device_of, home_of
from drawahead.runs.engine import EngineRun
from drawahead.runs.fixed import FixedRun

__all__ = ["Call", "EngineRun", "FixedRun", "Run", "device_of", "home_of"]
