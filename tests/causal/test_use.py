"""Left-to-right chains wherever chains go: verified, timed, compiled, in jobs, on executors, as pictures."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import drawahead as da
from drawahead import CausalChain, Coupled, Sequential
from drawahead.networks.emoji_tokens import GuidedPixels, coloured
from drawahead.networks.pixel_transformer import PixelTransformer
from drawahead.teaching.comparison import rows_of
from drawahead.timing import gain
from tests.causal.toy import BEGIN, NotRolledBack, Toy


@pytest.mark.parametrize("end", [None, 2])
def test_a_sound_model_is_verified_and_a_broken_cache_is_found(end: int | None) -> None:
    chain = CausalChain(Toy(), max_length=12, prompt=[BEGIN], end=end)
    sound = da.verify(chain, 200, with_power=False)
    assert sound.passed, str(sound)
    broken = da.verify(CausalChain(NotRolledBack(), max_length=12, prompt=[BEGIN], end=end), 200, with_power=False)
    assert not broken.passed


def test_replicas_draw_the_same() -> None:
    chains = [CausalChain(Toy(), max_length=12, prompt=[[BEGIN], [BEGIN, 1]], end=2) for _ in range(2)]
    expected = da.sample(chains[0], 2, sampler=Sequential(), seed=4).samples
    with da.Replicas([chain.oracle for chain in chains], min_batch_size=1) as executor:
        drawn = da.sample(chains[0], 2, sampler=Coupled(3), seed=4, executor=executor).samples
    assert torch.equal(drawn, expected)
    split = da.sample(chains[0], 2, sampler=Coupled(3), seed=4, max_batch_size=1).samples
    assert torch.equal(split, expected)


def test_a_driver_needs_no_model() -> None:
    chain = CausalChain(Toy(), max_length=12, prompt=[BEGIN], end=2)
    remote = chain.without_model()
    assert (remote.steps, remote.vocab_size, remote.one_pass) == (chain.steps, 3, True)
    with pytest.raises(da.SamplingError, match="lives in the workers"):
        da.sample(remote, 1, sampler=Sequential())


def test_gain_counts_the_steps_that_samples_took() -> None:
    found = gain(CausalChain(Toy(), max_length=40, prompt=[BEGIN], end=2), window=8)
    assert found.steps < 40 and found.rounds <= found.steps


def test_pixels() -> None:
    """The network answers alike with and without its cache, and guided as it should."""
    torch.manual_seed(0)
    network = PixelTransformer(8, 20, side=6, words=3, width=32, layers=2, heads=2).double().eval()
    for parameter in network.requires_grad_(False).parameters():
        parameter.mul_(4)
    tokens = torch.randint(0, 8, (2, 20))
    tokens[:, :3] += 8
    position = torch.arange(20).expand(2, 20)
    memory = network.memory(2, 39)
    network.extend(memory, tokens[:, :7], position[:, :7])
    network.extend(memory, torch.zeros_like(tokens[:, 5:]), position[:, 5:])  # guesses, written over
    whole = network(tokens)
    assert torch.allclose(network.extend(memory, tokens[:, 5:], position[:, 5:]), whole[:, 5:], atol=1e-10)
    empty = network(torch.where(position < 3, 8, tokens))
    guided = GuidedPixels(network, 2.0).rows(tokens, 0)
    assert torch.allclose(guided, (2 * whole - empty).float().log_softmax(-1), atol=1e-5)
    chain = CausalChain(GuidedPixels(network, 1.5), max_length=36, prompt=[8, 9, 10], first_guess=da.Above(6))
    one_by_one = da.sample(chain, 3, sampler=Sequential(), seed=0).samples
    for graphs in (False, True):
        ahead = da.sample(chain, 3, sampler=Coupled(8), seed=0, graphs=graphs)
        assert torch.equal(ahead.samples, one_by_one)
    assert coloured(one_by_one, network.palette).shape == (3, 3, 6, 6)


def test_the_shipped_pictures(tmp_path: Path) -> None:
    chain = da.networks.emoji_tokens(["red apple", "rocket"])
    assert chain.steps == 1024 and chain.vocab_size == 64
    first = chain.replace(max_length=40)
    drawn = da.sample(first, 2, sampler=Coupled(16), seed=0)
    assert torch.equal(drawn.samples, da.sample(first, 2, sampler=Sequential(), seed=0).samples)
    assert drawn.report.rounds < 20, "emoji begin with white rows"
    with pytest.raises(da.InputError, match="does not know the word"):
        da.networks.emoji_tokens("xylophonist")


def test_a_job_goes_on_and_keeps_ends(tmp_path: Path) -> None:
    chain = CausalChain(Toy(), max_length=12, prompt=[BEGIN], end=2)
    settings = {"name": "toy", "seed": 3, "sampler": Coupled(4), "shard_size": 6}
    da.jobs.draw(tmp_path / "job", chain, 12, **settings)
    with pytest.raises(da.DrawaheadError):
        da.jobs.draw(tmp_path / "job", chain.replace(end=1), 12, **settings, resume=True)
    job = da.jobs.draw(tmp_path / "job", chain, 12, **settings, resume=True)
    assert torch.equal(job.samples(), da.sample(chain, 12, sampler=Sequential(), seed=3).samples)


def test_compare_skips_what_a_left_to_right_model_cannot_do() -> None:
    chain = CausalChain(Toy(), max_length=8, prompt=[BEGIN])
    rows = {row.sampler: row for row in rows_of(chain, 50, 0, lambda name, num: None)}
    assert {name for name, row in rows.items() if row.note} == {"stepwise", "block", "recursive"}
    assert rows["coupled"].report is not None
