"""How samples look is the model's own to say, wherever they are shown; and files hold what pages show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from rich.console import Console

import drawahead as da
from drawahead.cli.app import run
from drawahead.show.views import view_of
from tests.pages.reading import Read

WORDS = ["tea", "cake", "rain"]


class Menu(da.TokenOracle):
    """An oracle that says how its samples look."""

    length, vocab_size = 6, 3

    def rows(self, tokens: torch.Tensor) -> torch.Tensor:
        return torch.zeros(*tokens.shape, 3).log_softmax(-1)

    def view(self) -> da.show.View:
        return da.show.Texts(lambda sample: [WORDS[token] for token in sample.tolist()])


@pytest.mark.parametrize("wrap", [lambda oracle: oracle, da.CountingOracle, lambda oracle: da.Noisy(oracle, 0.1)])
def test_an_oracle_says_how_its_samples_look(wrap: Any) -> None:
    """Whatever is wrapped around it."""
    chain = da.TokenChain(wrap(Menu()))
    result = da.sample(chain, 1, sampler=da.Coupled(), seed=0)
    words = " ".join(WORDS[token] for token in result.samples[0].tolist())
    page = Read(da.show.page(chain, result))
    assert words in page.text("p") and page.data["film"]["reels"][0]["picture"]["letters"] == words.split()


def test_a_compiled_matching_is_still_a_tiling() -> None:
    board = da.tilings.dominoes("square", 2)
    assert view_of(da.TokenChain(da.CountingOracle(board))) == da.counting.Tilings(board)


def test_the_command_line_asks_models_of_ones_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.py").write_text("from tests.pages.test_views import Menu\nmodel = Menu()\n")
    assert run(["sample", f"{tmp_path}/mine.py:model", "-n", "2", "--sampler", "coupled", "-q"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 and all(set(line.split()) <= set(WORDS) for line in lines)


def test_what_was_filled_in_stands_out() -> None:
    """Whole words, not as many characters."""
    chain = da.TokenChain(Menu(), evidence=[0, da.HIDDEN, 2, 2, da.HIDDEN, 1])
    result = da.sample(chain, 1, sampler=da.Coupled(), seed=0)
    console = Console(width=80, force_terminal=True, color_system="truecolor")
    with console.capture() as shown:
        console.print(view_of(chain).terminal(result, console))
    filled = [WORDS[int(result.samples[0, place])] for place in (1, 4)]
    green = [part.split("\x1b[0m")[0] for part in shown.get().split("\x1b[1;32m")[1:]]
    assert green == filled


def test_files_of_images_keep_to_their_range(tmp_path: Path) -> None:
    samples = torch.stack([torch.full((8, 8), value) for value in (0.0, 0.5, 1.0)])
    da.show.Images(0.0, 1.0).draw(samples, tmp_path / "images.png")
    with Image.open(tmp_path / "images.png") as file:
        image = file.convert("RGB")
    middles = [image.getpixel((12 + 72 + 156 * (i % 2), 12 + 72 + 156 * (i // 2))) for i in range(3)]
    assert middles == [(0, 0, 0), (128, 128, 128), (255, 255, 255)] and image.size == (324, 324)


def test_files_of_tilings_hold_all_of_them(tmp_path: Path) -> None:
    board = da.tilings.dominoes("square", 2)
    samples = torch.stack([da.sample(board, 1, seed=seed).samples[0] for seed in range(4)])
    view = board.view()
    view.draw(samples, tmp_path / "tilings.png")
    with Image.open(tmp_path / "tilings.png") as file:
        image = file.convert("RGB")
    side = (image.width - 36) // 2
    for i, sample in enumerate(samples):
        picture = view.picture(sample).data()
        for x, y, width, height, colour in picture["tiles"]:
            left, top = 12 + (side + 12) * (i % 2), 12 + (side + 12) * (i // 2)
            at = left + round((x + width / 2) * side / 2), top + round((y + height / 2) * side / 2)
            assert "#{:02X}{:02X}{:02X}".format(*image.getpixel(at)) == picture["colours"][colour]  # type: ignore[misc]
