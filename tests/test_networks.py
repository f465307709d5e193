"""The shipped networks: what they are made of answers as it should, and their weights are the trained ones."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from importlib.resources import files

import pytest
import torch
from torch import Tensor

import drawahead as da
from drawahead import Coupled, GaussianChain, InputError, Sequential, TokenChain
from drawahead.networks import TextModel, fashion, infilling, text, to_text, to_tokens
from drawahead.networks.order_transformer import OrderTransformer
from drawahead.networks.text import ALPHABET, LENGTH
from drawahead.networks.unet import UNet
from drawahead.oracles.tokens import HIDDEN, TokenOracle
from drawahead.verification.statistics import chi_square
from tests.exactness import outcome_counts, outcomes
from training.policy_unet import PolicyUNet

Check = Callable[[float], None]


def tiny(vocab_size: int, length: int, seed: int = 0, temperature: float = 1.0) -> TextModel:
    """A network of random weights, in double precision, large enough for every token to matter."""
    network = OrderTransformer(vocab_size, width=16, layers=2, heads=2).double()
    generator = torch.Generator().manual_seed(seed)
    for parameter in network.parameters():
        parameter.data.copy_(torch.randn(parameter.shape, dtype=torch.float64, generator=generator) * 0.5)
    model = TextModel(network.eval().requires_grad_(False), length, temperature)
    model.vocab_size = vocab_size
    return model


def some_paths(model: TextModel, rows: int, known: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Random tokens, orders and ranks (rows, n); the first `known` of every second order are evidence."""
    generator = torch.Generator().manual_seed(1)
    n = model.length
    tokens = torch.randint(model.vocab_size, (rows, n), generator=generator)
    order = torch.rand(rows, n, generator=generator).argsort(1)
    rank = order.argsort(1)
    rank[::2] = (rank[::2] - known).clamp(min=-1)
    return tokens, order, rank


def alone(model: TextModel, tokens: Tensor, rank: Tensor, prefix: int, position: int) -> Tensor:
    """The row of one position given what comes before `prefix`: the rest is not even shown (q,)."""
    shown = sorted((r, i) for i, r in enumerate(rank.tolist()) if r < prefix)
    at = torch.tensor([[i for _, i in shown]], dtype=torch.int64)
    seen = torch.ones(1, 1, 1, 1 + at.shape[1], dtype=torch.bool)
    logits = model.network._logits(tokens[at], at, torch.tensor([[position]]), seen)
    return torch.log_softmax(logits[0, 0], -1)


# One pass along an order


@pytest.mark.parametrize("known", [0, 5])
def test_one_pass_answers_every_prefix(known: int) -> None:
    """The table of a path, the cells of a path, and each cell by a network that sees nothing else."""
    model = tiny(5, 12)
    tokens, _, rank = some_paths(model, 6, known)
    last = rank.max(1).values
    cells = [
        (row, prefix, position)
        for row in range(6)
        for prefix in range(0, int(last[row]) + 1, 2)
        for position in range(12)
        if rank[row, position] >= prefix
    ]
    row, prefix, position = (torch.tensor(part) for part in zip(*cells, strict=True))
    answers = model.chain_rows(tokens, rank, row, prefix, position)
    for cell, answer in zip(cells, answers, strict=True):
        r, k, i = cell
        assert torch.allclose(answer.double(), alone(model, tokens[r], rank[r], k, i), atol=1e-6)
    step = torch.arange(4).expand(6, 4)
    at = torch.where(rank < 0, 12, rank).argsort(1)  # the positions step by step
    table = model.path_rows(tokens, rank, step, at[:, :4])
    flat = model.chain_rows(tokens, rank, torch.arange(6).repeat_interleave(4), step.reshape(-1), at[:, :4].reshape(-1))
    assert torch.allclose(table.view(24, -1), flat, atol=1e-6)
    default = TokenOracle.path_rows(model, tokens, rank, step, at[:, :4])
    assert torch.allclose(table, default, atol=1e-6)


def test_nothing_is_seen_before_its_turn() -> None:
    """Other tokens of rank at or above the prefix, another order among them: the answer is the same."""
    model = tiny(5, 12)
    tokens, order, rank = some_paths(model, 8, 3)
    prefix = torch.tensor([0, 1, 3, 4, 5, 6, 7, 8])
    position = rank.argmax(1)  # the last of the order
    row = torch.arange(8)
    before = model.chain_rows(tokens, rank, row, prefix, position)
    later = rank >= prefix[:, None]
    other = torch.where(later, (tokens + 1) % 5, tokens)
    assert torch.equal(model.chain_rows(other, rank, row, prefix, position), before)
    for r in row.tolist():  # reverse the ranks of what comes later
        high = rank[r] >= prefix[r]
        rank[r, high] = rank[r, high].flip(0)
    assert torch.allclose(model.chain_rows(other, rank, row, prefix, position), before, atol=1e-6)
    changed = tokens.clone()
    first = order[:, 0]
    changed[row, first] = (changed[row, first] + 1) % 5  # what comes first matters to all but the empty prefix
    moved = (model.chain_rows(changed, rank, row, prefix, position) - before).abs().amax(1)
    assert (moved[2:] > 1e-4).all() and moved[0] > 1e-4  # evidence in even rows, rank 0 in odd ones


def test_along_is_forward_for_every_step() -> None:
    model = tiny(7, 20)
    tokens, order, rank = some_paths(model, 5)
    step = torch.arange(20).expand(5, 20)
    along = model.network.along(tokens, order)
    assert torch.allclose(along, model.network(tokens, rank, step, order), atol=1e-9)
    shuffled = torch.randperm(20, generator=torch.Generator().manual_seed(0))
    asked = model.network(tokens, rank, step[:, shuffled], order[:, shuffled])
    assert torch.allclose(asked, along[:, shuffled], atol=1e-9)


def test_rows_take_all_that_is_known_as_evidence() -> None:
    model = tiny(5, 9)
    tokens, _, _ = some_paths(model, 4)
    known = torch.rand(4, 9, generator=torch.Generator().manual_seed(3)) < 0.5
    rows = model.rows(torch.where(known, tokens, HIDDEN))
    assert rows.shape == (4, 9, 5) and torch.allclose(rows.exp().sum(-1), torch.ones(4, 9))
    for r, i in (~known).nonzero().tolist():
        rank = torch.where(known[r], -1, 0)
        assert torch.allclose(rows[r, i].double(), alone(model, tokens[r], rank, 0, i), atol=1e-6)


def test_temperature_divides_logits() -> None:
    warm, cold = tiny(5, 6), tiny(5, 6, temperature=0.5)
    tokens, order, rank = some_paths(warm, 3)
    step = torch.arange(6).expand(3, 6)
    expected = torch.log_softmax(2 * warm.path_rows(tokens, rank, step, order), -1)
    assert torch.allclose(cold.path_rows(tokens, rank, step, order), expected, atol=1e-5)


# Samples of a network


@pytest.mark.parametrize("order", [None, "spread"])
@pytest.mark.parametrize("window", [3, None])
def test_coupled_is_sequential_token_for_token(window: int | None, order: str | None) -> None:
    model = tiny(6, 24)
    generator = torch.Generator().manual_seed(5)
    evidence = torch.where(torch.rand(12, 24, generator=generator) < 0.3, 2, HIDDEN)
    for chain in (TokenChain(model, order=order), TokenChain(model, order=order, evidence=evidence)):
        reference = da.sample(chain, 12, sampler=Sequential(), seed=0).samples
        result = da.sample(chain, 12, sampler=Coupled(window), seed=0)
        assert torch.equal(result.samples, reference) and result.report.rounds < 24
        assert torch.equal(da.sample(chain, 12, sampler=Coupled(window), seed=0, graphs=True).samples, reference)
        assert torch.equal(da.sample(chain, 12, sampler=Sequential(), seed=0, graphs=True).samples, reference)
        assert torch.equal(da.sample(chain, 12, seed=0).samples, reference)
    if window is None:
        assert result.report.passes <= 12 * result.report.rounds


def test_the_law_of_a_network(check: Check) -> None:
    """Three letters, four places, in one order: every outcome by the chain rule, against 20 000 draws."""
    model = tiny(3, 4, seed=2)
    order = torch.tensor([2, 0, 3, 1])
    atoms = outcomes(4, 3)
    rank, step = order.argsort().expand(81, 4), torch.arange(4).expand(81, 4)
    at = order.expand(81, 4)
    rows = model.path_rows(atoms, rank, step, at).double()
    law = rows.gather(2, atoms.gather(1, at)[..., None]).sum((1, 2)).exp()
    assert float(law.sum()) == pytest.approx(1) and float((law * (law * 81).log()).sum()) > 0.1  # far from uniform
    chain = TokenChain(model, order=order)
    samples = da.sample(chain, 20_000, sampler=Coupled(), seed=0, max_live=20_000).samples
    check(chi_square(outcome_counts(samples, 3), law))


# Text


def test_text_there_and_back() -> None:
    assert len(set(ALPHABET)) == len(ALPHABET) == TextModel.vocab_size and "_" not in ALPHABET
    plain = 'My fellow Americans, 1776 (it\'s "so") - $5; 10%: yes! no?'
    assert to_text(to_tokens(plain)) == plain
    assert to_text(to_tokens("\u201cit\u2019s\u201d\u2014so\nbe it \u00e9")) == '"it\'s"-so be it '
    assert to_text(torch.tensor([HIDDEN, 0, HIDDEN])) == "_ _"


def test_the_text_model() -> None:
    model = text(32)
    assert (model.length, model.vocab_size, model.temperature, model.one_pass) == (32, len(ALPHABET), 0.5, True)
    result = da.sample(model, 2, sampler=Coupled(), seed=0)
    assert result.samples.shape == (2, 32) and result.report.rounds < 32
    assert all(len(to_text(row)) == 32 for row in result.samples)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        *(({"length": n}, f"writes 1 to {LENGTH} characters, not {n}") for n in (0, LENGTH + 1)),
        *(({"temperature": t}, "temperature must be a number above 0") for t in (0.0, -1.0, math.inf, math.nan)),
    ],
)
def test_texts_have_a_length_and_a_temperature(options: dict[str, float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        text(**options)  # type: ignore[arg-type]


def test_infilling_keeps_the_prompt() -> None:
    prompt = "My fellow _________, our \u201cunion\u201d is ______."
    chain = infilling(prompt)
    assert chain.steps == 15 and chain.oracle.length == len(prompt)
    plain = prompt.replace("\u201c", '"').replace("\u201d", '"')
    for row in da.sample(chain, 3, sampler=Coupled(), seed=0).samples:
        filled = to_text(row)
        assert all(a == b for a, b in zip(filled, plain, strict=True) if b != "_")
    assert isinstance(chain.oracle, TextModel) and infilling("a_", temperature=0.3).oracle.temperature == 0.3  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        ("no blank", "has no blank: write _"),
        ("", "has no blank"),
        ("caf\u00e9 _", r"character 3 of the prompt, '\u00e9', is not one the text model knows"),
        ("_" * (LENGTH + 1), f"has {LENGTH + 1} characters; the text model takes {LENGTH} at most"),
    ],
)
def test_prompts_that_cannot_be_filled(prompt: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        infilling(prompt)


# The weights


PASSAGE = (
    "Fellow citizens of the Senate and of the House of Representatives: It is my duty to report that the condition of "
    "the Treasury is sound, that our commerce with foreign nations has increased, and that the people of the United "
    "States remain at peace. I recommend that the Congress consider with care the measures before it."
)


def test_weights_are_small() -> None:
    folder = files("drawahead_models")
    sizes = {file.name: len(file.read_bytes()) for file in folder.iterdir() if file.name.endswith(".safetensors")}
    assert set(sizes) == {f"{name}.safetensors" for name in ("text", "fashion", "emoji", "emoji_tokens")}
    assert all(size < 16_000_000 for size in sizes.values())


def test_the_text_model_has_learnt_english() -> None:
    """1.33 bits a character in these orders when it was made; without a clue it would take 6.3, by letters alone 4."""
    model = text(temperature=1.0)
    tokens = to_tokens(PASSAGE)[:LENGTH].expand(2, LENGTH)
    order = torch.rand(2, LENGTH, generator=torch.Generator().manual_seed(0)).argsort(1)
    rows = torch.log_softmax(model.network.along(tokens, order), -1)
    bits = -float(rows.gather(2, tokens.gather(1, order)[..., None]).mean()) / math.log(2)
    assert bits < 1.6
    backwards = torch.log_softmax(model.network.along(tokens.flip(1), order), -1)
    assert -float(backwards.gather(2, tokens.flip(1).gather(1, order)[..., None]).mean()) / math.log(2) > bits + 1


def shirt() -> Tensor:
    picture = torch.full((28, 28), -1.0)
    picture[4:26, 8:20] = picture[4:12, 3:25] = 0.4
    return picture


def test_the_image_model_takes_noise_away() -> None:
    """Nine tenths of it and more, from a picture that is all noise to the eye to one with hardly any."""
    chain = fashion()
    assert chain.steps == 1000 and chain.shape == (28, 28)
    picture, step = shirt(), torch.tensor([600, 800, 950])
    noise = torch.randn(3, 28, 28, generator=torch.Generator().manual_seed(0))
    signal, level = (t[step].float()[:, None, None] for t in (chain.plan.signal, chain.plan.noise))
    with torch.no_grad():
        found = chain.denoiser(signal * picture + level * noise, step)
    left = (found - picture).square().mean((1, 2))
    before = (level / signal * noise).square().mean((1, 2))
    assert (left < 0.1 * before).all()


def test_pictures() -> None:
    chain = fashion(20)
    result = da.sample(chain, 2, sampler=Coupled(), seed=0)
    assert result.samples.shape == (2, 28, 28) and result.samples.abs().max() <= 1
    assert (result.samples.flatten(1).std(1) > 0.1).all()
    assert (result.samples[:, 0, 0] < -0.5).all()  # clothes on black
    assert not torch.allclose(result.samples[0], result.samples[1], atol=0.1)


def test_fewer_steps_visit_timesteps_spread_evenly() -> None:
    times = fashion(5).plan.time.tolist()
    assert times[0] == 999 and times[-1] == 0 and len(times) == 5
    assert max(abs((a - b) - 999 / 4) for a, b in itertools.pairwise(times)) <= 1
    with pytest.raises(InputError):
        fashion(1001)


@pytest.mark.parametrize("channels", [(8, 16), (8, 16, 32)])
def test_a_u_net_keeps_the_shape_and_takes_each_image_by_itself(channels: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    network = UNet(channels, groups=4).double().eval()
    for parameter in network.parameters():
        parameter.data.normal_(std=0.2)
    x, time = torch.randn(3, 1, 8, 8, dtype=torch.float64), torch.tensor([0, 500, 999])
    with torch.no_grad():
        together = network(x, time)
        apart = torch.cat([network(x[i : i + 1], time[i : i + 1]) for i in range(3)])
        assert together.shape == x.shape and torch.allclose(together, apart, atol=1e-9)
        assert not torch.allclose(network(x, time.flip(0))[0], together[0])  # it is told the time


def test_a_chain_of_pictures_is_a_gaussian_chain() -> None:
    chain = fashion(8)
    assert isinstance(chain, GaussianChain) and chain.dtype == torch.float32
    one, other = (da.sample(chain, 1, sampler=Coupled(4), seed=0, graphs=graphs).samples for graphs in (True, False))
    assert torch.allclose(one, other, atol=1e-3)


def test_the_policy_network_answers_alike_in_any_company() -> None:
    """States at mixed timesteps, each with its own observation; observation and time both matter."""
    torch.manual_seed(0)
    network = PolicyUNet(2, 3, (16, 32, 64)).double().eval()
    x, time, told = torch.randn(5, 8, 2).double(), torch.arange(5) * 20, torch.randn(5, 3).double()
    with torch.no_grad():
        together = network(x, time, told)
        for i in range(5):
            alone = network(x[i : i + 1], time[i : i + 1], told[i : i + 1])
            torch.testing.assert_close(together[i : i + 1], alone, rtol=1e-9, atol=1e-9)
        assert together.shape == x.shape
        assert not torch.allclose(network(x, time + 1, told), together)
        assert not torch.allclose(network(x, time, told + 1), together)
