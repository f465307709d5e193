"""The policy, and the switch that has LeRobot's own sampled in the same way."""

import functools
import logging
from typing import Any

from lerobot.policies.diffusion.modeling_diffusion import DiffusionPolicy

import drawahead as da
from lerobot_policy_drawahead.configuration_diffusion_drawahead import DiffusionDrawaheadConfig

_LOG = logging.getLogger("lerobot_policy_drawahead")


class DiffusionDrawaheadPolicy(DiffusionPolicy):
    """A `DiffusionPolicy` that samples its action chunks in parallel rounds, from the same distribution."""

    config_class = DiffusionDrawaheadConfig
    name = "diffusion_drawahead"

    def __init__(self, config: DiffusionDrawaheadConfig, *arguments: Any, **named: Any) -> None:
        super().__init__(config, *arguments, **named)
        accelerate(self)

    def reset(self) -> None:
        """Begin an episode; what the last one cost is logged."""
        log_latency(self)
        super().reset()


def accelerate(policy: DiffusionPolicy) -> None:
    """Sample this policy's chunks in parallel rounds. A scheduler without noise (DDIM) is left alone, and said."""
    if "drawahead" in vars(policy):
        return
    own = policy.config if isinstance(policy.config, DiffusionDrawaheadConfig) else DiffusionDrawaheadConfig()
    if policy.config.noise_scheduler_type != "DDPM":
        _LOG.warning(
            "drawahead: nothing is gained with noise_scheduler_type=%s, whose steps are not random; use DDPM",
            policy.config.noise_scheduler_type,
        )
        return
    policy.drawahead = da.adapters.accelerate(
        policy, sampler=own.sampler, deadline_ms=own.deadline_ms, compile=own.compile_network
    )
    if own.sampler is None and own.deadline_ms is None:
        policy.diffusion.conditional_sample = functools.partial(_first_chunks, policy)


def _first_chunks(policy: DiffusionPolicy, *arguments: Any, **named: Any) -> Any:
    """The first chunks, for which a sampler is chosen. If that is single steps, LeRobot's own loop takes all others."""
    fast = policy.drawahead
    chunks = fast(*arguments, **named)
    policy.diffusion.conditional_sample = fast
    captured = chunks.device.type == "cuda" and "could not be captured" not in fast.report.choice
    if fast.report.mean_rounds >= fast.report.steps and not captured:
        _LOG.info("drawahead: nothing is gained here, and LeRobot's own loop goes on: %s", fast.report.choice)
        fast.undo()
        policy.drawahead = None
    return chunks


def log_latency(policy: DiffusionPolicy) -> None:
    """Log how long the latest chunks took, and how they were sampled."""
    fast = vars(policy).get("drawahead")
    if fast is not None and fast.report is not None and fast.latency.calls:
        _LOG.info("drawahead: %s; %s", fast.latency, fast.report.choice or fast.report.sampler)


def switch_on() -> None:
    """Have every `DiffusionPolicy` made from now on sampled in parallel rounds. A second time nothing happens."""
    if getattr(DiffusionPolicy.__init__, "drawahead", False):
        return
    make, reset = DiffusionPolicy.__init__, DiffusionPolicy.reset

    @functools.wraps(make)
    def make_and_accelerate(self: DiffusionPolicy, *arguments: Any, **named: Any) -> None:
        make(self, *arguments, **named)
        accelerate(self)

    @functools.wraps(reset)
    def log_and_reset(self: DiffusionPolicy) -> None:
        log_latency(self)
        reset(self)

    make_and_accelerate.drawahead = True  # type: ignore[attr-defined]
    DiffusionPolicy.__init__, DiffusionPolicy.reset = make_and_accelerate, log_and_reset
