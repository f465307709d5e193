"""Stand-ins with the shapes and calls of diffusion policies that people run; nothing of theirs is imported."""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace
from typing import Any

import torch
from diffusers import DDPMScheduler
from torch import Tensor, nn

STEPS, HORIZON, ACTION, OBSERVED, HISTORY = 24, 8, 2, 3, 2


def scheduler(**options: Any) -> Any:
    return DDPMScheduler(num_train_timesteps=STEPS, beta_schedule="squaredcos_cap_v2", **options)


class Network(nn.Module):
    """(sample (m, horizon, action), timestep, conditions by name) -> noise; as smooth as a trained one."""

    def __init__(self, entries: int = ACTION) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.mix = nn.Parameter(torch.randn(entries, entries, generator=generator, dtype=torch.float64))
        self.told = nn.Parameter(torch.randn(OBSERVED * HISTORY, entries, generator=generator, dtype=torch.float64))

    def forward(
        self,
        sample: Tensor,
        timestep: Tensor,
        local_cond: Tensor | None = None,
        global_cond: Tensor | None = None,
        cond: Tensor | None = None,
        conditioning_vec: Tensor | None = None,
    ) -> Tensor:
        level = timestep.expand(len(sample)).to(sample)[:, None, None] / STEPS
        out = torch.tanh(sample + 0.3 * sample.roll(1, 1) @ self.mix)
        for given in (global_cond, cond, conditioning_vec):
            if given is not None:
                out = out - 0.5 * torch.tanh(given.flatten(1) @ self.told)[:, None] * (1 - level)
        return out if local_cond is None else out + 0.1 * local_cond.mean(-1, keepdim=True)


class Counted(Network):
    """Counts its calls."""

    calls = 0

    def forward(self, *arguments: Any, **named: Any) -> Tensor:
        self.calls += 1
        return super().forward(*arguments, **named)


class LeRobotModel(nn.Module):
    """Called like LeRobot's DiffusionModel."""

    def __init__(self, noise_scheduler: Any = None) -> None:
        super().__init__()
        self.config = SimpleNamespace(
            horizon=HORIZON, n_obs_steps=HISTORY, n_action_steps=3, action_feature=SimpleNamespace(shape=(ACTION,))
        )
        self.unet, self.noise_scheduler = Network(), noise_scheduler or scheduler()
        self.num_inference_steps = STEPS

    def conditional_sample(
        self,
        batch_size: int,
        global_cond: Tensor | None = None,
        generator: torch.Generator | None = None,
        noise: Tensor | None = None,
    ) -> Tensor:
        weight = next(self.parameters())
        size = (batch_size, self.config.horizon, ACTION)
        x = torch.randn(size, generator=generator, dtype=weight.dtype) if noise is None else noise
        self.noise_scheduler.set_timesteps(self.num_inference_steps)
        for t in self.noise_scheduler.timesteps:
            output = self.unet(x, torch.full((batch_size,), int(t)), global_cond=global_cond)
            x = self.noise_scheduler.step(output, t, x, generator=generator).prev_sample
        return x

    def generate_actions(self, batch: dict[str, Tensor], noise: Tensor | None = None) -> Tensor:
        seen = batch["observation.state"]
        actions = self.conditional_sample(len(seen), global_cond=seen.flatten(1), noise=noise)
        return actions[:, HISTORY - 1 : HISTORY - 1 + self.config.n_action_steps]


class LeRobotPolicy(nn.Module):
    """Called like LeRobot's DiffusionPolicy: a history of observations in, one action out."""

    def __init__(self) -> None:
        super().__init__()
        self.diffusion = LeRobotModel()
        self.reset()

    def reset(self) -> None:
        self._queues: dict[str, deque[Tensor]] = {"seen": deque(maxlen=HISTORY), "action": deque()}

    @torch.no_grad()
    def select_action(self, batch: dict[str, Tensor]) -> Tensor:
        seen, actions = self._queues["seen"], self._queues["action"]
        seen.extend([batch["observation.state"]] * (1 if seen else HISTORY))
        if not actions:
            chunk = self.diffusion.generate_actions({"observation.state": torch.stack(list(seen), 1)})
            actions.extend(chunk.transpose(0, 1))
        return actions.popleft()


class Objective:
    """Called like the objective of LeRobot's MultiTaskDiT."""

    def __init__(self) -> None:
        self.horizon, self.action_dim = HORIZON, ACTION
        self.noise_scheduler, self.num_inference_steps = scheduler(), STEPS

    def conditional_sample(self, model: nn.Module, batch_size: int, conditioning_vec: Tensor) -> Tensor:
        x = torch.randn(batch_size, self.horizon, self.action_dim, dtype=next(model.parameters()).dtype)
        self.noise_scheduler.set_timesteps(self.num_inference_steps)
        for t in self.noise_scheduler.timesteps:
            output = model(x, torch.full((batch_size,), int(t)), conditioning_vec=conditioning_vec)
            x = self.noise_scheduler.step(output, t, x).prev_sample
        return x


class MultiTask(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.noise_predictor, self.objective = Network(), Objective()

    def predict_action_chunk(self, vector: Tensor) -> Tensor:
        return self.objective.conditional_sample(self.noise_predictor, len(vector), conditioning_vec=vector)


class UnetPolicy(nn.Module):
    """Called like the policies of the diffusion_policy repository: what is known is overwritten by its clean values."""

    def __init__(self, noise_scheduler: Any = None) -> None:
        super().__init__()
        self.model, self.noise_scheduler = Network(), noise_scheduler or scheduler()
        self.num_inference_steps, self.kwargs = STEPS, dict[str, Any]()

    def conditional_sample(
        self,
        condition_data: Tensor,
        condition_mask: Tensor,
        local_cond: Tensor | None = None,
        global_cond: Tensor | None = None,
        generator: torch.Generator | None = None,
        **kwargs: Any,
    ) -> Tensor:
        x = torch.randn(condition_data.shape, dtype=condition_data.dtype, generator=generator)
        self.noise_scheduler.set_timesteps(self.num_inference_steps)
        for t in self.noise_scheduler.timesteps:
            x[condition_mask] = condition_data[condition_mask]
            output = self.model(x, t, local_cond=local_cond, global_cond=global_cond)
            x = self.noise_scheduler.step(output, t, x, generator=generator, **kwargs).prev_sample
        x[condition_mask] = condition_data[condition_mask]
        return x

    def predict_action(self, obs_dict: dict[str, Tensor]) -> dict[str, Tensor]:
        """The first action of each chunk is the one that was taken last, where that is given."""
        seen = obs_dict["obs"]
        data = torch.zeros(len(seen), HORIZON, ACTION, dtype=seen.dtype)
        mask = torch.zeros_like(data, dtype=torch.bool)
        if "past_action" in obs_dict:
            data[:, 0], mask[:, 0] = obs_dict["past_action"], True
        chunk = self.conditional_sample(data, mask, global_cond=seen.flatten(1), **self.kwargs)
        return {"action": chunk[:, 1:4], "action_pred": chunk}


class TransformerPolicy(UnetPolicy):
    """As above, with a transformer that attends to the observations."""

    def conditional_sample(  # type: ignore[override]
        self,
        condition_data: Tensor,
        condition_mask: Tensor,
        cond: Tensor | None = None,
        generator: torch.Generator | None = None,
        **kwargs: Any,
    ) -> Tensor:
        x = torch.randn(condition_data.shape, dtype=condition_data.dtype, generator=generator)
        self.noise_scheduler.set_timesteps(self.num_inference_steps)
        for t in self.noise_scheduler.timesteps:
            x[condition_mask] = condition_data[condition_mask]
            output = self.model(x, t, cond=cond)
            x = self.noise_scheduler.step(output, t, x, generator=generator, **kwargs).prev_sample
        x[condition_mask] = condition_data[condition_mask]
        return x


class Flow(nn.Module):
    """Built like pi0, SmolVLA or GR00T: somewhere inside, a head that integrates a velocity."""

    def __init__(self) -> None:
        super().__init__()
        self.model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))


class FlowObjective:
    """Called like the flow matching objective of LeRobot's MultiTaskDiT."""

    def conditional_sample(self, model: nn.Module, batch_size: int, conditioning_vec: Tensor) -> Tensor:
        return self._euler_integrate(torch.randn(batch_size, HORIZON, ACTION))

    def _euler_integrate(self, x: Tensor) -> Tensor:
        return x
