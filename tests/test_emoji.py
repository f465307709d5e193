"""Pictures from words: prompts as rows of a condition, guidance as one query, and what cannot be asked for."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console
from torch import Tensor

import drawahead as da
from drawahead import Coupled, InputError, Sequential
from drawahead.cli.app import run
from drawahead.cli.registry import named
from drawahead.cli.subjects import TargetOptions
from drawahead.networks import emoji, emoji_words, files
from drawahead.networks.emoji import LENGTH, SIDE, EmojiNetwork, GuidedDenoiser, encoded, words_of
from drawahead.randomness import Purpose, Stream
from drawahead.schedules import linear_betas, spaced

STEPS = 6
PROMPTS = ["red apple", "smiling cat face"]
WORDS = ["apple", "cat", "face", "green", "red", "smiling"]


def chain_of(prompts: Any, guidance: float = 3.0, learned: bool = False) -> da.GaussianChain:
    chain = emoji(prompts, guidance=guidance, steps=STEPS, learned_range=learned, dtype=torch.float64)
    return chain.replace(dtype=torch.float64)


def network_of(chain: da.GaussianChain) -> EmojiNetwork:
    assert isinstance(chain.denoiser, GuidedDenoiser)
    return chain.denoiser.network


def by_hand(network: EmojiNetwork, words: Tensor, guidance: float, number: int) -> Tensor:
    """Textbook ancestral sampling, one picture at a time and one pass at a time, with the noise of seed 0."""
    levels = torch.cumprod(1 - torch.tensor(linear_betas(), dtype=torch.float64), 0)
    times, shape = spaced(STEPS, of=1000), (1, 3, SIDE, SIDE)
    pictures = []
    for i in range(number):
        stream = Stream.of_samples(0, torch.tensor([i]))

        def noise(purpose: Purpose, step: int, stream: Stream = stream) -> Tensor:
            return stream.normal(purpose, torch.tensor([step]), size=3 * SIDE * SIDE).view(shape)

        x = noise(Purpose.START, 0)
        for k, time in enumerate(times):
            here = levels[time]
            after = levels[times[k + 1]] if k + 1 < STEPS else torch.ones((), dtype=torch.float64)
            with torch.no_grad():
                told, free = (
                    network(x, torch.tensor([time]), w) for w in (words[i : i + 1], torch.zeros(1, LENGTH).long())
                )
            velocity = (free + guidance * (told - free))[:, :3]
            data = (here.sqrt() * x - (1 - here).sqrt() * velocity).clamp(-1, 1)
            kept = here / after
            x = (after.sqrt() * (1 - kept) * data + kept.sqrt() * (1 - after) * x) / (1 - here)
            if k + 1 < STEPS:
                x = x + ((1 - after) / (1 - here) * (1 - kept)).sqrt() * noise(Purpose.VALUE, k)
        pictures.append(x)
    return torch.cat(pictures)


@pytest.mark.usefixtures("emoji_weights")
@pytest.mark.parametrize("guidance", [0.0, 1.0, 3.0])
def test_guidance_is_the_textbook_loop(guidance: float) -> None:
    chain = chain_of(PROMPTS, guidance)
    result = da.sample(chain, 2, sampler=Sequential(), seed=0)
    words = encoded(PROMPTS, WORDS)
    expected = by_hand(network_of(chain), words, guidance, 2)
    torch.testing.assert_close(result.samples, expected, rtol=1e-9, atol=1e-9)
    assert result.report.passes == (1 if guidance == 1 else 2) * result.report.queries
    for wrong in (by_hand(network_of(chain), words.flip(0), guidance, 2) if guidance else None,
                  by_hand(network_of(chain), words, guidance + 0.5, 2)):  # fmt: skip
        assert wrong is None or (result.samples - wrong).abs().max() > 1e-3  # or this test could not fail


@pytest.mark.usefixtures("emoji_weights")
def test_a_learned_variance_is_the_prompts_own() -> None:
    chain, fixed = chain_of(PROMPTS, learned=True), chain_of(PROMPTS)
    x, k = torch.randn(2, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(0)).double(), torch.tensor([1, 4])
    answers, words = chain.denoiser(x, k, **chain.condition), chain.condition["words"]
    torch.testing.assert_close(answers[:, :3], fixed.denoiser(x, k, **fixed.condition), rtol=1e-9, atol=1e-9)
    told, free = (network_of(chain)(x, chain.plan.time[k], w)[:, 3:] for w in (words, torch.zeros_like(words)))
    torch.testing.assert_close(answers[:, 3:], told, rtol=1e-9, atol=1e-9)
    assert (told - free).abs().max() > 1e-3  # or this test could not fail
    drawn = da.sample(chain, 2, sampler=Coupled(STEPS), seed=0)
    assert drawn.report.exact and drawn.report.passes == 2 * drawn.report.queries
    assert not torch.allclose(drawn.samples, da.sample(fixed, 2, sampler=Coupled(STEPS), seed=0).samples)


@pytest.mark.usefixtures("emoji_weights")
def test_prompts_share_rounds_and_do_not_see_each_other() -> None:
    together = da.sample(chain_of(PROMPTS), 2, sampler=Coupled(window=STEPS), seed=0)
    alone = [
        da.sample(chain_of(one), 1, first=i, sampler=Coupled(window=STEPS), seed=0) for i, one in enumerate(PROMPTS)
    ]
    for i, single in enumerate(alone):
        torch.testing.assert_close(single.samples[0], together.samples[i], rtol=1e-9, atol=1e-9)
    assert together.report.rounds == max(single.report.rounds for single in alone) <= STEPS
    assert together.report.passes == 2 * together.report.queries
    assert not torch.allclose(together.samples[0], together.samples[1], atol=0.1)


@pytest.mark.usefixtures("emoji_weights")
def test_captured_rounds_draw_the_same() -> None:
    one, other = (
        da.sample(chain_of(PROMPTS), 2, sampler=Coupled(4), seed=0, graphs=graphs).samples for graphs in (True, False)
    )
    torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


@pytest.mark.usefixtures("emoji_weights")
def test_what_a_prompt_is() -> None:
    assert emoji_words() == tuple(WORDS)
    assert words_of("A Smiling  cat's FACE, with the cat") == ["smiling", "cat", "s", "face"]
    rows = encoded(["the red apple", "Apple: RED", ""], WORDS)
    assert rows.shape == (3, LENGTH) and rows[0].unique().tolist() == [0, 1, 5] and not rows[2].any()
    chain = chain_of(["red apple", "apple red"])  # words in any order
    x, k = torch.randn(1, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(0)).double(), torch.tensor([2, 2])
    found = chain.denoiser(x.expand(2, -1, -1, -1), k, **chain.condition)
    torch.testing.assert_close(found[0], found[1], rtol=1e-9, atol=1e-9)
    free = chain.denoiser(x, k[:1], words=torch.zeros(1, LENGTH).long())
    assert not torch.allclose(found[:1], free)  # the words are read


BAD: list[tuple[dict[str, Any], str]] = [
    ({"prompts": ["red apple", "red appel"]}, r"prompts\[1\], 'red appel': .* 'appel'; did you mean apple\?"),
    (
        {"prompts": "red xylophone"},
        r"prompts\[0\], .* 'xylophone'; use others: da\.networks\.emoji_words\(\) lists all",
    ),
    ({"prompts": []}, "prompts must be a text"),
    ({"prompts": "red", "guidance": -1.0}, "guidance"),
    ({"prompts": "red", "guidance": "much"}, "guidance must be a number"),
    ({"prompts": "red", "steps": 1001}, "steps must be between 1 and 1000"),
]


@pytest.mark.usefixtures("emoji_weights")
@pytest.mark.parametrize(("options", "message"), BAD)
def test_what_cannot_be_asked_for(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        emoji(**options)


def test_long_prompts_are_refused() -> None:
    words = [f"w{i}" for i in range(LENGTH + 1)]
    assert encoded([" ".join(words[:LENGTH])], words).all()
    with pytest.raises(InputError, match=rf"prompts\[0\] has {LENGTH + 1} words; .* {LENGTH} at most"):
        encoded([" ".join(words)], words)


@pytest.mark.usefixtures("emoji_weights")
def test_more_samples_than_prompts_are_refused() -> None:
    with pytest.raises(InputError, match="2 rows, but num_samples is 3"):
        da.sample(chain_of(PROMPTS), 3, seed=0)


def test_without_weights_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "place", lambda name: tmp_path / name)
    with pytest.raises(InputError, match=r"has no emoji\.safetensors: pip install .* training/emoji\.py"):
        emoji("red apple")


SAMPLE = ["sample", "emoji", "--prompt", "red apple", "--prompt", "smiling cat", "--steps", "3", "--device", "cpu"]


@pytest.mark.usefixtures("emoji_weights")
def test_prompts_take_turns_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    same = [*SAMPLE, "--guidance", "2", "--num", "3", "--sampler", "sequential"]
    for name in ("apples.png", "apples.npz"):
        assert run([*same, "--out", str(tmp_path / name)]) == 0
    shown = capsys.readouterr().out
    assert "3 samples of 3 steps" in shown and (tmp_path / "apples.png").read_bytes()[:4] == b"\x89PNG"
    turns = emoji(["red apple", "smiling cat", "red apple"], guidance=2.0, steps=3)
    expected = da.sample(turns, 3, sampler=Sequential(), seed=0).samples
    assert np.allclose(np.load(tmp_path / "apples.npz")["samples"], expected, atol=1e-4)


@pytest.mark.usefixtures("emoji_weights")
def test_every_prompt_has_a_picture() -> None:
    for prompts, num in (("red", 8), (["red", "green"], 8), (["red"] * 9, 9)):
        assert named("emoji", TargetOptions(prompt=prompts, steps=2, device="cpu")).num == num


@pytest.mark.usefixtures("emoji_weights")
def test_a_job_keeps_its_prompts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(tmp_path / "job")
    assert run([*SAMPLE, "--num", "3", "--window", "2", "--shard-size", "2", "--out", folder, "--quiet"]) == 0
    whole = da.jobs.read(folder)
    assert whole.config.options["prompt"] == ["red apple", "smiling cat"] and whole.config.options["guidance"] == 3.0
    (tmp_path / "job" / "shards" / "000001.safetensors").unlink()
    assert run(["sample", "emoji", "--resume", "--out", folder, "--quiet"]) == 0, capsys.readouterr().err
    torch.testing.assert_close(da.jobs.read(folder).samples(), whole.samples())
    assert run(["sample", "emoji", "--resume", "--out", folder, "--prompt", "red cat"]) == 1
    assert "option prompt is" in capsys.readouterr().err
    assert run(["report", folder, "--json"]) == 0, capsys.readouterr().err
    assert json.loads(capsys.readouterr().out)["samples"] == 3


@pytest.mark.usefixtures("emoji_weights")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sample", "emoji", *["--prompt", "red"] * 3, "--num", "2", "-q"], "--num 2 leaves some of the 3 prompts out"),
        (["sample", "emoji"], "emoji needs words: --prompt"),
        (["sample", "emoji", "--prompt", "red aple"], "did you mean apple?"),
        (["sample", "emoji", "--prompt", "red", "--size", "3"], "--size does not apply to emoji"),
        (["sample", "text", "--prompt", "a_", "--prompt", "b_"], "--prompt is given 2 times: give one"),
        (["sample", "text", "--guidance", "2"], "--guidance does not apply to text"),
    ],
)
def test_bad_commands(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 1
    shown = capsys.readouterr()
    assert message in shown.err and shown.out == "" and shown.err.count("\n") == 1


@pytest.mark.usefixtures("emoji_weights")
def test_pictures_are_shown_in_colour(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLORTERM", "truecolor")
    subject = named("emoji", TargetOptions(prompt="red apple", steps=2, device="cpu"))
    red = torch.full((1, 3, SIDE, SIDE), -1.0)
    red[:, 0] = 1.0
    result = da.sample(subject.chain, 1, sampler=Sequential(), seed=0)
    Console().print(subject.view.terminal(replace(result, samples=red), Console()))
    assert "38;2;255;0;0" in capsys.readouterr().out
