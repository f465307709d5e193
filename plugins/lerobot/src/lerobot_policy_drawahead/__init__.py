"""LeRobot's diffusion policy, sampled in parallel rounds.

`--policy.type=diffusion_drawahead` trains, evaluates and records like `diffusion`. With DRAWAHEAD_LEROBOT=1 in the
environment, policies of type `diffusion`, such as published checkpoints, are sampled in parallel rounds too.
"""

import os
from importlib.metadata import PackageNotFoundError, version

KNOWN = ("0.4", "0.5", "0.6")
"""The versions of LeRobot whose diffusion policy was looked at."""

try:
    _here = version("lerobot")
except PackageNotFoundError as error:
    raise ImportError("lerobot_policy_drawahead needs LeRobot: pip install lerobot") from error
if not _here.startswith(tuple(f"{known}." for known in KNOWN)):
    raise ImportError(
        f"lerobot_policy_drawahead knows LeRobot {', '.join(KNOWN)}, not {_here}: policies stay as they are"
    )

from lerobot_policy_drawahead.configuration_diffusion_drawahead import DiffusionDrawaheadConfig  # noqa: E402
from lerobot_policy_drawahead.modeling_diffusion_drawahead import DiffusionDrawaheadPolicy, switch_on  # noqa: E402
from lerobot_policy_drawahead.processor_diffusion_drawahead import (  # noqa: E402
    make_diffusion_drawahead_pre_post_processors,
)

__all__ = [
    "KNOWN",
    "DiffusionDrawaheadConfig",
    "DiffusionDrawaheadPolicy",
    "make_diffusion_drawahead_pre_post_processors",
    "switch_on",
]

if os.environ.get("DRAWAHEAD_LEROBOT", "0") not in ("", "0"):
    switch_on()
