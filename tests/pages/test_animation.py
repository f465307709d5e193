"""Films as GIFs: as many frames as there is to see, each one what the film says."""

from __future__ import annotations

import io
import json
import shutil
from pathlib import Path

import pytest
from PIL import Image

import drawahead as da
from drawahead import show
from drawahead.cli.app import run
from drawahead.show import painting
from drawahead.show.films.animation import frame_rounds
from tests.pages.reading import pictures_chain

GRID = da.targets.Ising.grid(4, 4)
EMPTY, COLOURS = (0xE9, 0xE6, 0xDE), {0: (0xE4, 0xDF, 0xD3), 1: (0x24, 0x56, 0x6B)}


def opened(gif: bytes) -> Image.Image:
    return Image.open(io.BytesIO(gif))


def frames(gif: bytes) -> int:
    return int(getattr(opened(gif), "n_frames", 0))


@pytest.mark.parametrize(("ahead", "last"), [(0, 0), (1, 1), (5, 64), (70, 70), (300, 9000)])
def test_rounds_that_are_shown(ahead: int, last: int) -> None:
    shown = frame_rounds(ahead, last)
    assert shown[0] == 0 and shown[-1] == last and ahead in shown and len(shown) <= 101
    assert shown == sorted(set(shown)) and (ahead > 60 or set(range(ahead + 1)) <= set(shown))


def test_frames_show_what_the_film_says(tmp_path: Path) -> None:
    result = da.sample(GRID, 1, sampler=da.Coupled(window=3), seed=2)
    film = show.film(GRID, result)
    (reel,) = film.reels
    gif = show.animation(film, tmp_path / "film.gif")
    assert (tmp_path / "film.gif").read_bytes() == gif
    rounds = frame_rounds(len(reel.progress) - 1, reel.steps)
    assert frames(gif) == len(rounds)
    picture, sample = opened(gif), result.samples[0].tolist()
    for number in range(len(rounds)):
        picture.seek(number)
        shown = picture.convert("RGB")
        for cell in range(16):
            x, y = 16 + 12 + 300 * (cell % 4 + 0.5) / 4, 16 + 38 + 300 * (cell // 4 + 0.5) / 4  # of the left side
            for side, left in (("sequential", 0), ("drawahead", 324 + 16)):
                there = reel.picture[side][cell] <= rounds[number]
                pixel = shown.getpixel((round(x + left), round(y)))
                wanted = COLOURS[sample[cell]] if there else EMPTY
                assert isinstance(pixel, tuple)
                assert max(abs(a - b) for a, b in zip(pixel, wanted, strict=True)) <= 4  # a GIF has 128 colours


def test_noise_takes_no_colours_from_the_end() -> None:
    noise = Image.effect_noise((90, 90), 100).convert("RGB")
    for channel in range(3):  # of all colours
        bands = list(noise.split())
        bands[channel] = Image.effect_noise((90, 90), 100)
        noise = Image.merge("RGB", bands)
    end, stem = Image.new("RGB", (90, 90), (252, 252, 250)), (74, 44, 42)
    end.paste((222, 40, 30), (10, 20, 80, 80))
    end.paste(stem, (44, 10, 47, 20))
    picture = opened(painting.animated([noise, noise, noise, end], 40))
    picture.seek(1)  # equal frames are one
    shown = picture.convert("RGB").getpixel((45, 15))
    assert isinstance(shown, tuple) and max(abs(a - b) for a, b in zip(shown, stem, strict=True)) <= 4


def test_every_kind_of_film() -> None:
    letters = da.sample(da.targets.Pairs(12), 2, sampler=da.Coupled(), seed=0)
    tree = da.targets.SpanningTree.grid(3, 3)
    trees = da.sample(tree, 3, sampler=da.Coupled(), seed=0)
    chain = pictures_chain()
    images = da.sample(chain, 2, sampler=da.Coupled(window=4), seed=0)
    for target, result in ((da.targets.Pairs(12), letters), (tree, trees), (chain, images)):
        assert frames(show.animation(show.film(target, result, 2))) > 3


def test_films_of_jobs(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["sample", "ising", "--sampler", "coupled", "--num", "2", "--out", "job", "-q"]) == 0
    assert run(["report", "job", "--gif", "film.gif"]) == 0
    assert capsys.readouterr().out.splitlines() == ["wrote job/report.html", "wrote film.gif"]
    assert frames((tmp_path / "film.gif").read_bytes()) > 3 and (tmp_path / "job" / "report.html").is_file()
    (tmp_path / "job" / "report.html").unlink()
    assert run(["report", "job", "--out", "only.gif", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["film"] == "only.gif"
    assert (tmp_path / "only.gif").is_file() and not (tmp_path / "job" / "report.html").exists()
    for words, told in (
        (["--gif", "film.png"], "must end so"),
        (["--gif", "a.gif", "--out", "b.gif"], "give one of them"),
        (["--gif", "a.gif", "--films", "0"], "--films must not be 0"),
        (["--gif", "nowhere/a.gif"], "there is no folder nowhere"),
    ):
        assert run(["report", "job", *words]) == 1 and told in capsys.readouterr().err
    shutil.rmtree("job")
    assert run(["sample", "ising", "--sampler", "sequential", "--num", "2", "--out", "job", "-q"]) == 0
    assert run(["report", "job", "--gif", "a.gif"]) == 1 and "nothing to film" in capsys.readouterr().err


def test_a_link_in_the_folder_is_replaced(tmp_path: Path) -> None:
    """A job's folder may come from a stranger: what a link in it points to is left alone."""
    folder, other = tmp_path / "job", tmp_path / "precious"
    assert run(["sample", "ising", "--sampler", "coupled", "--num", "1", "--out", str(folder), "-q"]) == 0
    other.write_text("mine")
    (folder / "film.gif").symlink_to(other)
    assert run(["report", str(folder), "--gif", str(folder / "film.gif"), "-q"]) == 0
    assert other.read_text() == "mine" and (folder / "film.gif").read_bytes()[:4] == b"GIF8"


def test_it_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    film = show.film(GRID, da.sample(GRID, 1, sampler=da.Coupled(window=3), seed=2))
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    with pytest.raises(da.InputError, match=r"drawahead\[plots\]"):
        show.animation(film)
