"""The default sampler in pipelines: a list of generators says which noise there is, whatever was drawn before."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import drawahead as da
from drawahead import Coupled
from drawahead.rounds import measuring
from drawahead.rounds.choosing import Choice

diffusers = pytest.importorskip("diffusers")


class Network(diffusers.UNet2DModel):  # type: ignore[misc]
    """Drafts are worth little: samplers differ much in what they draw."""

    seen: list[Tensor]

    def forward(self, sample: Tensor, *others: Any, **options: Any) -> Any:
        self.seen.append(sample.clone())
        data = 0.8 * torch.sign(torch.sin(40 * sample)) + 0.05 * sample
        return diffusers.models.unets.unet_2d.UNet2DOutput(sample=data)


def made() -> Any:
    network = Network(
        sample_size=2, in_channels=1, out_channels=1, block_out_channels=(4,), norm_num_groups=1, layers_per_block=1,
        down_block_types=("DownBlock2D",), up_block_types=("UpBlock2D",),
    )  # fmt: skip
    network.seen = []
    scheduler = diffusers.DDPMScheduler(clip_sample=False, prediction_type="sample")
    pipe = da.adapters.DrawaheadPipeline(unet=network.double().eval(), scheduler=scheduler)
    pipe.set_progress_bar_config(disable=True)
    return pipe


def drawn(pipe: Any, *seeds: int, **options: Any) -> Any:
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    return pipe(len(seeds), generator=generators, num_inference_steps=40, output_type="pt", **options)


def test_equal_generators_give_equal_images(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over many calls of one pipeline: nothing that it drew, and no seed of a call, has a part in its choice."""
    windows = iter(range(2, 99))

    def choose(*measured: object) -> Choice:
        return Choice(Coupled(next(windows)), "made up")

    monkeypatch.setattr(measuring, "choose", choose)
    pipe = made()
    for seed in (3, 4, 3, 5, 4, 3):
        again = drawn(pipe, seed)
        assert again.report.sampler.startswith("Coupled(window=2,")
        assert torch.equal(again.images, drawn(made(), seed, sampler=Coupled(2)).images)
    together = drawn(pipe, 3, 4), drawn(pipe, 4, 3)
    assert torch.equal(together[0].images, together[1].images.flip(0))


def test_what_is_measured_is_other_noise_than_the_generators_give() -> None:
    pipe = made()
    report = drawn(pipe, 3).report
    asked = list(pipe.unet.seen)
    pipe.unet.seen.clear()
    drawn(pipe, 3, sampler="sequential")
    start = pipe.unet.seen[0]
    probed = 0
    while not torch.equal(asked[0], start):
        probed += len(asked.pop(0))
    assert probed == report.probes > 0
