"""Observations and actions are normalised as for LeRobot's own diffusion policy."""

from lerobot.policies.diffusion.processor_diffusion import (
    make_diffusion_pre_post_processors as make_diffusion_drawahead_pre_post_processors,
)

__all__ = ["make_diffusion_drawahead_pre_post_processors"]
