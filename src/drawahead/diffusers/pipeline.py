"""Pipelines that are called like those of diffusers and draw in parallel rounds."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from drawahead.diffusers.batch import Asked, Callback, Generators, kept
from drawahead.diffusers.chain import from_diffusers, step_settings
from drawahead.diffusers.prompted import PromptedPipeline
from drawahead.diffusers.schedulers.reading import Recipes
from drawahead.diffusers.schedulers.stochastic import in_place_of
from drawahead.errors import InputError
from drawahead.report import Report
from drawahead.samplers import Sampler
from drawahead.samplers.record import as_sampler
from drawahead.validate import path, whole

try:
    diffusers: Any = importlib.import_module("diffusers")  # untyped: what its annotations say does not hold
except ModuleNotFoundError as error:
    raise InputError("DrawaheadPipeline needs diffusers: pip install 'drawahead[diffusers]'") from error
_FETCHED = ("cache_dir", "force_download", "proxies", "local_files_only", "token", "revision", "subfolder")
_FEW = 50  # steps by default, as in the pipelines of diffusers; DDPM takes all


@dataclass
class DrawaheadPipelineOutput(diffusers.utils.BaseOutput):  # type: ignore[misc]
    """Images, and apart from them what they cost."""

    images: Any
    """A list of PIL images, or an array (batch, height, width, channels), or a tensor (batch, channels, height, width)
    with values in [0, 1]."""
    report: Report


class DrawaheadPipeline(diffusers.DiffusionPipeline):  # type: ignore[misc]
    """Draws images from a UNet2DModel and a scheduler.

    Construct it from both, with `from_pretrained`, or with `from_pipe` from a DDPMPipeline or DDIMPipeline. For any
    other pipeline `from_pipe` returns a `PromptedPipeline`, which is called like that pipeline.
    """

    model_cpu_offload_seq = "unet"

    def __init__(self, unet: diffusers.UNet2DModel, scheduler: Any) -> None:
        super().__init__()
        self.register_modules(unet=unet, scheduler=scheduler)

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path: Any, **options: Any) -> Any:
        """Like `DiffusionPipeline.from_pretrained`, for a UNet2DModel and a scheduler; other pipelines raise an error
        before their weights are read."""
        name = str(path("pretrained_model_name_or_path", pretrained_model_name_or_path))
        try:
            found = cls.load_config(name, **{key: options[key] for key in _FETCHED if key in options})
        except (OSError, ValueError, TypeError) as error:
            raise InputError(f"{name!r} cannot be loaded as a pipeline: {' '.join(str(error).split())}") from error
        parts = {key: value[1] for key, value in found.items() if isinstance(value, list | tuple) and value[1]}
        if set(parts) != {"unet", "scheduler"} or parts["unet"] != "UNet2DModel":
            raise InputError(
                f"{name!r} is a {found.get('_class_name')}, not a UNet2DModel with a scheduler: load it with "
                "diffusers.DiffusionPipeline.from_pretrained(...), and give that to DrawaheadPipeline.from_pipe(...)"
            )
        return super().from_pretrained(name, **options)

    @classmethod
    def from_pipe(cls, pipeline: Any, *, rows: Sequence[str] = (), stochastic: bool = False, **options: Any) -> Any:
        """A pipeline that samples in parallel rounds and shares all components with `pipeline`.

        rows: arguments of its network that have a row for each image, where that is not detected automatically.
        stochastic: if its scheduler is deterministic, use the stochastic one with the same noise levels; the report
            names it. `pipeline` itself keeps its scheduler.
        """
        if isinstance(pipeline, PromptedPipeline):
            return PromptedPipeline(pipeline.pipe, rows, stochastic) if rows or stochastic else pipeline
        parts = {name for name, part in pipeline.components.items() if part is not None}
        if parts == {"unet", "scheduler"}:
            made = super().from_pipe(pipeline, **options)
            made.scheduler = (in_place_of(made.scheduler, Recipes())[0] if stochastic else None) or made.scheduler
            return made
        if options:
            raise InputError(f"from_pipe takes no {', '.join(options)} here: change the pipeline itself")
        return PromptedPipeline(pipeline, rows, stochastic)

    @torch.no_grad()
    def __call__(
        self,
        batch_size: int = 1,
        generator: Generators = None,
        *,
        num_inference_steps: int | None = None,
        eta: float | None = None,
        use_clipped_model_output: bool | None = None,
        class_labels: int | Sequence[int] | Tensor | None = None,
        output_type: str = "pil",
        return_dict: bool = True,
        callback_on_step_end: Callback | None = None,
        callback_on_step_end_tensor_inputs: Sequence[str] = ("latents",),
        sampler: Sampler | str | None = None,
        max_batch_size: int | None = None,
        compile: bool = False,  # noqa: A002
    ) -> DrawaheadPipelineOutput | tuple[Any, Report]:
        """Draw `batch_size` images.

        generator: one for all images, or a list with one for each, which is then, with a named sampler, all that its
            image depends on. A generator gives a seed, not the noise itself: images differ from those diffusers draws
            with it.
        num_inference_steps, eta, use_clipped_model_output, class_labels: as in `from_diffusers`, but by default at
            most 50 steps, unless the scheduler is a DDPMScheduler: that visits every training timestep.
        output_type: "pil", "np" or "pt".
        return_dict: False returns (images, report).
        callback_on_step_end: called as (pipeline, step, timestep, {"latents": ...}) after each round that brought the
            slowest image further; `step` is the last step that all images have finished. Steps finish in bunches, so
            most numbers are passed over; the last one never is. Latents are copies and cannot be replaced.
        sampler: how to draw, as an object or by its name; `Auto()` by default.
        max_batch_size: the most states the UNet is given at a time; rounds are split, not added.
        compile: put the UNet through `torch.compile`: the first call takes longer, later ones less time.
        """
        batch_size = whole("batch_size", batch_size, 1)
        if output_type not in ("pil", "np", "pt"):
            raise InputError(f"output_type must be 'pil', 'np' or 'pt', not {output_type!r}")
        asked = Asked(
            generator,
            as_sampler(sampler),
            max_batch_size,
            callback_on_step_end,
            tuple(callback_on_step_end_tensor_inputs),
        )
        recipes: Recipes = self.__dict__.setdefault("_recipes", Recipes())
        settings = step_settings(eta, bool(use_clipped_model_output))
        steps = recipes.of(self.scheduler, self._steps(num_inference_steps), settings)
        chain = from_diffusers(self.unet, steps, class_labels=class_labels, device=self._execution_device)
        result = asked.draw(self, *kept(self.__dict__, chain, compile), batch_size)
        self.maybe_free_model_hooks()
        images = self._images(result.samples.float(), output_type)
        return DrawaheadPipelineOutput(images, result.report) if return_dict else (images, result.report)

    def _steps(self, num_inference_steps: int | None) -> int | None:
        every = diffusers.DDPMScheduler, diffusers.DDPMParallelScheduler
        if num_inference_steps is not None or isinstance(self.scheduler, every):
            return num_inference_steps
        return min(_FEW, int(getattr(self.scheduler.config, "num_train_timesteps", _FEW)))

    def _images(self, samples: Tensor, output_type: str) -> Any:
        images = (samples / 2 + 0.5).clamp(0, 1)
        if output_type == "pt":
            return images.to(self._execution_device)
        array = images.permute(0, 2, 3, 1).numpy()
        return self.numpy_to_pil(array) if output_type == "pil" else array
