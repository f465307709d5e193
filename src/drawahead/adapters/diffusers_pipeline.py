"""A pipeline that is called like those of diffusers and draws in parallel rounds."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, final

import torch
from torch import Tensor

from drawahead.adapters.diffusers import from_diffusers
from drawahead.chains.base import Chain, Tally
from drawahead.chains.gaussian import GaussianChain
from drawahead.chains.gaussian_paths import GaussianPaths
from drawahead.errors import InputError, whole
from drawahead.randomness import Stream, seed_from
from drawahead.report import Report
from drawahead.sample import sample
from drawahead.samplers import Auto, Picard, Sampler, Sequential

diffusers: Any = importlib.import_module("diffusers")  # untyped: what its annotations say does not hold
_FEW = 50  # steps by default, as in the pipelines of diffusers; DDPM takes all

Callback = Callable[[Any, int, Tensor, dict[str, Any]], dict[str, Any] | None]


@dataclass
class DrawaheadPipelineOutput(diffusers.utils.BaseOutput):  # type: ignore[misc]
    """Images, and apart from them what they cost."""

    images: Any
    """A list of PIL images, or an array (batch, height, width, channels), or a tensor (batch, channels, height, width)
    with values in [0, 1]."""
    report: Report


class DrawaheadPipeline(diffusers.DiffusionPipeline):  # type: ignore[misc]
    """Draws images from a UNet2DModel with a DDPM, DDIM or Euler ancestral scheduler.

    Made from both, or with `from_pretrained`, or with `from_pipe` from a DDPMPipeline or DDIMPipeline.
    """

    model_cpu_offload_seq = "unet"

    def __init__(self, unet: diffusers.UNet2DModel, scheduler: Any) -> None:
        super().__init__()
        self.register_modules(unet=unet, scheduler=scheduler)

    @torch.no_grad()
    def __call__(
        self,
        batch_size: int = 1,
        generator: torch.Generator | list[torch.Generator] | None = None,
        *,
        num_inference_steps: int | None = None,
        eta: float = 0.0,
        use_clipped_model_output: bool | None = None,
        class_labels: int | Tensor | None = None,
        output_type: str = "pil",
        return_dict: bool = True,
        callback_on_step_end: Callback | None = None,
        callback_on_step_end_tensor_inputs: Sequence[str] = ("latents",),
        sampler: Sampler | None = None,
        max_batch_size: int | None = None,
    ) -> DrawaheadPipelineOutput | tuple[Any, Report]:
        """Draw `batch_size` images.

        generator: one for all images, or a list with one for each, which is then all that its image depends on. A
            generator gives a seed, not the noise itself: images differ from those diffusers draws with it.
        num_inference_steps, eta, use_clipped_model_output, class_labels: as in `from_diffusers`, but by default at
            most 50 steps, unless the scheduler is a DDPMScheduler: that visits every training timestep.
        output_type: "pil", "np" or "pt".
        return_dict: False returns (images, report).
        callback_on_step_end: called as (pipeline, step, timestep, {"latents": ...}) after each round that brought the
            slowest image further; `step` is the last step that all images have finished. Steps finish in bunches, so
            most numbers are passed over; the last one never is. Latents are copies and cannot be replaced.
        sampler: how to draw; `Auto()` by default.
        max_batch_size: the most states the UNet is given at a time; rounds are split, not added.
        """
        batch_size = whole("batch_size", batch_size, 1)
        if output_type not in ("pil", "np", "pt"):
            raise InputError(f"output_type must be 'pil', 'np' or 'pt', not {output_type!r}")
        if unknown := set(callback_on_step_end_tensor_inputs) - {"latents"}:
            raise InputError(f"callback_on_step_end_tensor_inputs may name 'latents' only, not {unknown}")
        chain = self._kept(
            from_diffusers(
                self.unet,
                self.scheduler,
                num_inference_steps=self._steps(num_inference_steps),
                eta=eta,
                use_clipped_model_output=bool(use_clipped_model_output),
                class_labels=class_labels,
                device=self._execution_device,
            )
        )
        sampler = sampler or Auto()
        if chain.steps > 1 and not bool(chain.plan.s.any()) and not isinstance(sampler, Sequential | Picard | Auto):
            warnings.warn(
                "no step of this scheduler is random (DDIM with eta=0), so there is nothing to speculate and every "
                "round takes one step; give eta=1.0, or sampler=Picard() to refine all steps to a tolerance",
                stacklevel=3,  # torch.no_grad is in between
            )
        batch = _Batch(chain, _seeds(generator, batch_size))
        with self.progress_bar(total=chain.steps) as bar:

            def look(report: Report) -> None:
                done = min((steps[-1] for steps in report.progress.values()), default=0)  # of the first few images
                if done == bar.n:
                    return
                bar.update(done - bar.n)
                if callback_on_step_end is not None:
                    given = dict.fromkeys(callback_on_step_end_tensor_inputs, batch.latents)
                    answer = callback_on_step_end(self, done - 1, chain.plan.time[done - 1], dict(given)) or {}
                    if any(answer.get(name, value) is not value for name, value in given.items()):
                        raise InputError("callback_on_step_end must not replace latents: that would change their law")

            result = sample(
                batch,
                batch_size,
                sampler=sampler,
                generator=None if isinstance(generator, list) else generator,
                max_batch_size=max_batch_size,
                max_live=batch_size,
                on_round=look,
                graphs=None if callback_on_step_end is None else False,  # captured rounds cannot be looked into
            )
        self.maybe_free_model_hooks()
        images = self._images(result.samples.float(), output_type)
        return DrawaheadPipelineOutput(images, result.report) if return_dict else (images, result.report)

    def _kept(self, chain: GaussianChain) -> GaussianChain:
        """The chain of the last call, if this one is the same: its rounds may be captured already."""
        last: GaussianChain | None = self.__dict__.get("_last_chain")
        if last is None or not same_chain(last, chain):
            self.__dict__["_last_chain"] = last = chain
        return last

    def _steps(self, num_inference_steps: int | None) -> int | None:
        if num_inference_steps is not None or type(self.scheduler).__name__ == "DDPMScheduler":
            return num_inference_steps
        return min(_FEW, int(self.scheduler.config.num_train_timesteps))

    def _images(self, samples: Tensor, output_type: str) -> Any:
        images = (samples / 2 + 0.5).clamp(0, 1)
        if output_type == "pt":
            return images.to(self._execution_device)
        array = images.permute(0, 2, 3, 1).numpy()
        return self.numpy_to_pil(array) if output_type == "pil" else array


def _seeds(generator: torch.Generator | list[torch.Generator] | None, batch_size: int) -> list[int] | None:
    if not isinstance(generator, list):
        return None
    if len(generator) != batch_size:
        raise InputError(f"generator is a list of {len(generator)} for batch_size={batch_size}; give one an image")
    return [seed_from(None, one) for one in generator]


@final
class _Batch(Chain):
    """The images of one call: of a seed each, if `seeds` are given, and open to a look between rounds.

    Image i of a seed of its own is the first image of that seed.
    """

    def __init__(self, chain: GaussianChain, seeds: list[int] | None) -> None:
        self.chain, self.seeds = chain, seeds
        self.live: list[GaussianPaths] = []
        self.values = chain.empty(0)

    @property
    def steps(self) -> int:
        return self.chain.steps

    @property
    def model(self) -> GaussianChain:
        return self.chain

    @property
    def device(self) -> torch.device:
        return self.chain.device

    @property
    def row_bytes(self) -> int:
        return self.chain.row_bytes

    def captured_parts(self) -> dict[str, Any]:
        return self.chain.captured_parts()

    def check(self, num_samples: int) -> None:
        self.chain.check(num_samples)

    def empty(self, num_samples: int) -> Tensor:
        self.values = self.chain.empty(num_samples)  # finished images are written into it
        return self.values

    def start(self, seed: int, samples: Tensor, tally: Tally) -> GaussianPaths:
        if self.seeds is None:
            paths = self.chain.start(seed, samples, tally)
        else:
            alone = [self.chain.start(self.seeds[i], torch.tensor([0]), tally) for i in samples.tolist()]
            paths = replace(
                alone[0],
                sample=samples,
                position=torch.cat([one.position for one in alone]),
                length=torch.cat([one.length for one in alone]),
                stream=Stream(torch.cat([one.stream.keys for one in alone])),
                x=torch.cat([one.x for one in alone]),
                recorded=torch.cat([one.recorded for one in alone]),
                copies=Stream(torch.cat([one.copies.keys for one in alone])),
            )
        self.live.append(paths)
        return paths

    @property
    def position(self) -> Tensor:
        """How many steps each image has finished (batch,)."""
        position = torch.full((len(self.values),), self.steps)
        for paths in self.live:
            position[paths.sample] = paths.position
        return position

    @property
    def latents(self) -> Tensor:
        """The newest state of each image (batch, *shape)."""
        latents = self.values.to(self.chain.device, copy=True)
        for paths in self.live:
            latents[paths.sample.to(latents.device)] = paths.x.view(-1, *self.chain.shape).to(latents.dtype)
        return latents
