"""A film shows what happened: its times are those of the report, its pictures those of the samples."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch

import drawahead as da
from drawahead import show
from drawahead.show.films.film import FRAMES
from tests.pages.reading import Read, frame, pictures_chain, uniform_chain

SAMPLERS = [da.Sequential(), da.Coupled(), da.Block(), da.Stepwise(pipelined=False), da.Recursive()]


def counts(times: list[int], rounds: int) -> list[int]:
    """Parts there after each round, those known from the start left out."""
    return [sum(0 < time <= now for time in times) for now in range(rounds + 1)]


@pytest.mark.parametrize("sampler", SAMPLERS, ids=lambda sampler: type(sampler).__name__)
def test_tokens_appear_when_they_were_committed(sampler: da.Sampler) -> None:
    result = da.sample(da.targets.Ising.grid(3, 4), 3, sampler=sampler, seed=5)
    film = show.film(da.targets.Ising.grid(3, 4), result, 2)
    assert [reel.number for reel in film.reels] == [0, 1] and not film.note
    for reel in film.reels:
        assert reel.progress == result.report.progress[reel.number]
        assert counts(reel.picture["drawahead"], len(reel.progress) - 1) == list(reel.progress)
        assert counts(reel.picture["sequential"], 12) == list(range(13))


def test_a_film_of_coupled_is_that_of_sequential_in_fewer_rounds() -> None:
    """On tokens both draw the same sample in the same order, so one by one is exactly what Sequential did."""
    chain = uniform_chain()
    fast, slow = (da.sample(chain, 1, sampler=sampler, seed=1) for sampler in (da.Coupled(), da.Sequential()))
    (a,), (b,) = show.film(chain, fast).reels, show.film(chain, slow).reels
    assert a.picture["letters"] == b.picture["letters"]
    assert a.picture["sequential"] == b.picture["sequential"] == b.picture["drawahead"]
    assert max(a.picture["drawahead"]) == len(a.progress) - 1 < 24


def test_what_is_known_is_there_from_the_start() -> None:
    evidence = torch.tensor([3, 1] + [da.HIDDEN] * 6 + [2])
    chain = da.TokenChain(uniform_chain(9).oracle, evidence=evidence)
    result = da.sample(chain, 2, sampler=da.Coupled(), seed=0)
    for reel in show.film(chain, result).reels:
        assert reel.steps == 6
        for side in ("sequential", "drawahead"):
            assert [time == 0 for time in reel.picture[side]] == (evidence != da.HIDDEN).tolist()
            assert max(reel.picture[side]) == (6 if side == "sequential" else len(reel.progress) - 1)


def test_first_and_stopped_runs_keep_their_numbers() -> None:
    chain = uniform_chain(12)
    result = da.sample(chain, 3, first=40, sampler=da.Coupled(window=2), seed=0)
    again = da.sample(chain, 43, sampler=da.Coupled(window=2), seed=0)
    film = show.film(chain, result)
    assert [reel.number for reel in film.reels] == [40, 41, 42]
    assert film.reels[2].picture["letters"] == [str(token) for token in again.samples[42].tolist()]
    nothing = replace(result, samples=result.samples[:0], numbers=result.numbers[:0])
    with pytest.raises(da.InputError, match="nothing to film"):
        show.film(chain, nothing)


@pytest.mark.parametrize("sampler", [da.Separated(), da.Separated(inner=da.Block(), spread=False), da.Coupled()])
def test_dominoes_appear_with_the_first_of_their_squares(sampler: da.Sampler) -> None:
    target = da.tilings.dominoes("square", 12)  # so large that it falls into pieces
    result = da.sample(target, 2, sampler=sampler, seed=2)
    film = show.film(target, result)
    for reel, sample in zip(film.reels, result.samples, strict=True):
        assert reel.progress == result.report.progress[reel.number]
        shown = {(x, y, width, height) for x, y, width, height, _ in reel.picture["tiles"]}
        expected = {
            (min(j, m), min(i, k), 1 + abs(j - m), 1 + abs(i - k))
            for (i, j), (k, m) in target.matchings(sample[None])[0]
        }
        assert shown == expected and len(reel.picture["tiles"]) == 72
        # A round that commits the second square of a domino brings no new one, so the counts are bounds.
        there = counts(reel.picture["drawahead"], len(reel.progress) - 1)
        assert all(steps / 2 <= dominoes <= steps for dominoes, steps in zip(there, reel.progress, strict=True))
        assert there[-1] == 72 and counts(reel.picture["sequential"], 144)[-1] == 72
        if isinstance(sampler, da.Separated):  # both squares of a domino are settled at once
            assert [2 * dominoes for dominoes in there] == list(reel.progress) and reel.progress[-2] > 0


@pytest.mark.parametrize("sampler", [da.Coupled(), da.Block(window=8), da.Sequential()])
def test_frames_are_the_states_that_were_reached(sampler: da.Sampler) -> None:
    chain = pictures_chain()
    result = da.sample(chain, 3, sampler=sampler, seed=3)
    film = show.film(chain, result, 2)
    assert not film.note
    states = da.sample(pictures_chain(record=(20, 45)), 2, sampler=sampler, seed=3).samples
    for reel in film.reels:
        picture = reel.picture
        assert reel.progress == result.report.progress[reel.number]
        assert set(reel.progress) <= set(picture["at"]) and picture["at"] == sorted(set(picture["at"]))
        assert picture["at"][0] == 0 and picture["at"][-1] == 60 and len(picture["at"]) >= FRAMES
        last = frame(picture, len(picture["at"]) - 1)
        levels = ((result.samples[reel.number] + 1) * 127.5).round().clamp(0, 255)
        assert np.array_equal(last, levels.numpy().astype(np.uint8))
        for column, step in enumerate((20, 45)):
            there, sample = states[reel.number, column], result.samples[reel.number]
            there = there * (sample.square().mean() / there.square().mean()).sqrt()  # in the size of the sample
            expected = ((there + 1) * 127.5).round().clamp(0, 255).numpy().astype(np.uint8)
            assert np.array_equal(frame(picture, picture["at"].index(step)), expected)


def test_recorded_states_are_not_taken_for_samples() -> None:
    plain, recording = pictures_chain(), pictures_chain(record=(7, 30))
    results = [da.sample(chain, 2, sampler=da.Coupled(), seed=3) for chain in (plain, recording)]
    a, b = (show.page(chain, result) for chain, result in zip((plain, recording), results, strict=True))
    assert Read(a).data["film"] == Read(b).data["film"] and Read(a).all("img") == Read(b).all("img")


def test_vectors_are_squares_of_colour() -> None:
    chain = da.GaussianChain(da.targets.Hypercube(10), da.StochasticLocalization(steps=32, radius=1.0, delta=0.05))
    result = da.sample(chain, 2, sampler=da.Coupled(), seed=0)
    reel = show.film(chain, result).reels[1]
    last = frame(reel.picture, len(reel.picture["at"]) - 1).reshape(-1, 3).astype(int)[:10]
    assert ((last[:, 2] > last[:, 0]).tolist()) == (result.samples[1] < 0).tolist()  # blue below zero


def test_a_film_of_other_samples_says_so() -> None:
    chain = pictures_chain()
    result = da.sample(chain, 1, sampler=da.Coupled(), seed=0)
    assert "other samples" in show.film(chain, replace(result, samples=-result.samples)).note


def test_a_sampler_of_ones_own_has_to_be_given() -> None:
    @dataclass(frozen=True)
    class Mine(da.samplers.base.Sampler):
        guarantee = da.Coupled.guarantee

        def run(self, paths: Any) -> Any:
            return da.Coupled().run(paths)

    chain = pictures_chain()
    result = da.sample(chain, 1, sampler=Mine(), seed=0)
    with pytest.raises(da.InputError, match="give sampler="):
        show.film(chain, result)
    assert "frames" not in show.page(chain, result).split('id="data"')[1].split("</script>")[0]
    assert show.film(chain, result, sampler=Mine()).reels[0].progress == result.report.progress[0]


def test_samplers_are_read_from_their_name_and_nothing_is_run() -> None:
    from drawahead.samplers.record import from_repr

    for sampler in (*SAMPLERS, da.Coupled(window=7, least=0.25), da.Picard(), da.Separated(inner=da.Block(window=3))):
        assert from_repr(repr(sampler)) == sampler
    for text in (
        "",
        "Auto()",
        "print('x')",
        "Block(window=print(1))",
        "Coupled(",
        "Block(1)",
        "Block(wide=1)",
        "((" * 99,
    ):
        with pytest.raises(da.InputError):
            from_repr(text)


def test_views_that_do_not_fit_are_refused() -> None:
    chain = uniform_chain(4)
    result = da.sample(chain, 1, seed=0)
    with pytest.raises(da.InputError, match="cannot show"):
        show.film(chain, result, view=show.Images())
    with pytest.raises(da.InputError, match="one string for each"):
        show.gallery(chain, result, view=show.Texts(lambda sample: "short"[:2]))
    import networkx

    with pytest.raises(da.InputError, match="squares"):
        da.counting.Tilings(da.targets.PlanarMatching(networkx.cycle_graph(6)))
    with pytest.raises(da.InputError, match="images have shape"):
        show.Images().picture(torch.zeros(3))
