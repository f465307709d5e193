"""The options of a diffusion policy, and how drawahead samples it."""

from dataclasses import dataclass

from lerobot.configs.policies import PreTrainedConfig
from lerobot.policies.diffusion.configuration_diffusion import DiffusionConfig


@PreTrainedConfig.register_subclass("diffusion_drawahead")
@dataclass
class DiffusionDrawaheadConfig(DiffusionConfig):
    """`DiffusionConfig`, with three options of its own.

    sampler: the name of a sampler such as "coupled"; by default the first call measures and chooses.
    deadline_ms: a call that would take longer is finished from unverified drafts: not exact, and logged.
    compile_network: put the network through torch.compile: a slow first call, faster later ones.
    """

    sampler: str | None = None
    deadline_ms: float | None = None
    compile_network: bool = False
