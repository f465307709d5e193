"""Permutation language models: many conditionings of a path in one pass of an XLNet, against one pass for each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import BertConfig, BertForMaskedLM, XLNetConfig, XLNetLMHeadModel

import drawahead as da
from drawahead import HIDDEN, Block, CountingOracle, Coupled, InputError, Recursive, SamplingError, Sequential, Stepwise
from drawahead.adapters import PermutationLM
from drawahead.samplers import Sampler
from drawahead.verification.statistics import chi_square
from tests.adapters.words import SPECIAL, word_tokenizer
from tests.exactness import draws_for, outcome_counts, outcomes

WORDS = list("abc")
PROMPTS = ["a [MASK] c [MASK] b [MASK]", "[MASK] [MASK]", "c b a c [MASK] [MASK] [MASK] [MASK] b", "a b c"]


def xlnet(words: list[str] = WORDS, **options: Any) -> Any:
    """A random model, far from uniform and with strong dependences."""
    torch.manual_seed(0)
    size = {"d_model": 16, "n_layer": 2, "n_head": 2, "d_inner": 32, "initializer_range": 0.5}
    return XLNetLMHeadModel(XLNetConfig(vocab_size=len(SPECIAL) + len(words), **{**size, **options}))


def language_model(dtype: torch.dtype = torch.float32, **options: Any) -> PermutationLM:
    return PermutationLM(xlnet().to(dtype), word_tokenizer(WORDS, "$A [SEP] [CLS]"), **options)


def alone(lm: PermutationLM, tokens: list[int], order: list[int], prefix: int, position: int) -> Tensor:
    """The row of one conditioning (words,), from XLNet itself, in a pass of its own that shows nothing else."""
    n = len(tokens)
    known = [i for i in range(n) if i not in order]
    seen = {i: known + order[: order.index(i)] if i in order else known for i in known + order[:prefix]}
    seen[position] = known + order[:prefix]
    hides = torch.ones(1, n, n)
    for i, others in seen.items():
        hides[0, i, others] = 0.0
    shown = torch.tensor([[token if i in known + order[:prefix] else lm.mask for i, token in enumerate(tokens)]])
    target = torch.zeros(1, 1, n)
    target[0, 0, position] = 1.0
    with torch.no_grad():
        logits = lm.model(input_ids=shown, perm_mask=hides, target_mapping=target).logits
    return logits[0, 0, len(SPECIAL) :].log_softmax(-1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rows_along_a_path_are_those_of_separate_passes(dtype: torch.dtype) -> None:
    """All of them: every prefix with every position after it, on paths of different lengths and orders."""
    lm, stock = language_model(dtype), language_model()
    generator = torch.Generator().manual_seed(0)
    length = 8
    tokens = torch.randint(len(SPECIAL), lm.vocab_size, (3, length), generator=generator)
    orders = [torch.randperm(length, generator=generator)[:steps].tolist() for steps in (7, 4, 1)]
    rank = torch.full((3, length), -1)
    for r, order in enumerate(orders):
        rank[r, order] = torch.arange(len(order))
    cells = [
        (r, prefix, order[step])
        for r, order in enumerate(orders)
        for prefix in range(len(order))
        for step in range(prefix, len(order))
    ]
    row, prefix, position = torch.tensor(cells).T
    rows = lm.oracle(length).chain_rows(tokens, rank, row, prefix, position)
    assert rows.shape == (len(cells), lm.vocab_size) and bool((rows[:, : len(SPECIAL)] == -torch.inf).all())
    expected = torch.stack([alone(stock, tokens[r].tolist(), orders[r], k, i) for r, k, i in cells])
    torch.testing.assert_close(rows[:, len(SPECIAL) :], expected.double(), atol=2e-5, rtol=1e-5)


def test_rows_take_all_known_tokens_as_evidence() -> None:
    lm = language_model()
    tokens = lm.evidence(PROMPTS[:1])
    rows = lm.oracle(tokens.shape[1]).rows(tokens)
    hidden = (tokens[0] == HIDDEN).nonzero()[:, 0].tolist()
    expected = torch.stack([alone(lm, tokens[0].tolist(), hidden, 0, i) for i in hidden])
    torch.testing.assert_close(rows[0, hidden, len(SPECIAL) :], expected.double(), atol=2e-5, rtol=1e-5)


def test_padding_changes_nothing() -> None:
    lm = language_model(torch.float64)
    tokens = lm.evidence(PROMPTS)
    rows = lm.oracle(tokens.shape[1]).rows(tokens)
    for i, prompt in enumerate(PROMPTS):
        one = lm.evidence([prompt])
        n = one.shape[1]
        torch.testing.assert_close(lm.oracle(n).rows(one)[0], rows[i, :n])


def test_the_order_of_known_tokens_matters() -> None:
    lm = language_model(torch.float64)
    tokens = torch.tensor([[5, 6, 7, 5, 3]] * 2)
    rank = torch.tensor([[0, 1, 2, -1, -1], [1, 0, 2, -1, -1]])
    at = torch.tensor([0, 1])
    one, other = lm.oracle(5).chain_rows(tokens, rank, at, torch.full((2,), 2), torch.full((2,), 2)).exp()
    assert float((one - other).abs().sum()) > 1e-3


# Samplers


def test_coupled_is_sequential_token_for_token() -> None:
    lm = language_model(torch.float64, temperature=0.7)
    chain = lm.chain(PROMPTS * 8)
    expected = da.sample(chain, 32, sampler=Sequential(), seed=0).samples
    for sampler in (Coupled(), Coupled(2)):
        assert torch.equal(da.sample(chain, 32, sampler=sampler, seed=0).samples, expected)
    for sampler in (Block(), Stepwise(), Recursive(), Block(pipelined=False)):
        everyone = da.sample(chain, 32, sampler=sampler, seed=0).samples
        assert torch.equal(da.sample(chain, 32, sampler=sampler, seed=0, max_batch_size=5).samples, everyone)
        assert int(everyone.max()) < lm.vocab_size and bool((everyone[3::4] == expected[3::4]).all())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_dtypes_before_and_after(dtype: torch.dtype) -> None:
    """Stock XLNet cannot run two streams in them."""
    for lm in (language_model(dtype), language_model()):
        lm.model.to(dtype)
        assert da.sample(lm.chain(PROMPTS), 4, sampler=Coupled(), seed=0).report.num_samples == 4


@pytest.mark.parametrize(
    ("sampler", "one"),
    [(Sequential(), True), (Coupled(), True), (Block(pipelined=False), True), (Block(), False), (Stepwise(), False)],
    ids=repr,
)
def test_a_sequence_takes_one_forward_pass(sampler: Sampler, one: bool) -> None:
    """Where drafts are made at one prefix. Others take a pass for each, and never more than there are queries."""
    lm = language_model()
    evidence = lm.evidence("a " + "[MASK] " * 12)
    counting = CountingOracle(lm.oracle(len(evidence)))
    sequences: list[int] = []
    lm.model.transformer.register_forward_pre_hook(
        lambda module, args, options: sequences.append(len(options["input_ids"])), with_kwargs=True
    )
    report = da.sample(da.TokenChain(counting, evidence=evidence), 6, sampler=sampler, seed=0).report
    assert (report.rounds, report.queries, report.passes) == (counting.calls, counting.queries, counting.passes)
    if one:
        assert sum(sequences) == report.passes
    else:
        assert report.passes < sum(sequences) <= report.queries
    assert max(sequences) <= 6  # no more at a time than were handed over


@pytest.mark.parametrize("sampler", [pytest.param(Block(), marks=pytest.mark.slow), Coupled()], ids=repr)
def test_samples_have_the_enumerated_law(sampler: Sampler, check: Callable[[float], None]) -> None:
    """In a fixed order, prefix by prefix, from the model itself."""
    lm = language_model()
    chain = lm.chain("[MASK] [MASK] a [MASK] [MASK]", order=[3, 0, 4, 1, 2, 5, 6])
    order, texts = [3, 0, 4, 1], outcomes(4, 3)  # a text's words step by step
    law = torch.zeros(len(texts), dtype=torch.float64)
    rows: dict[tuple[int, ...], Tensor] = {}
    for t, text in enumerate(texts.tolist()):
        tokens = torch.where(chain.evidence == HIDDEN, 0, chain.evidence)
        tokens[order] = torch.tensor(text) + len(SPECIAL)
        for k, word in enumerate(text):
            before = tuple(text[:k])
            if before not in rows:
                rows[before] = alone(lm, tokens.tolist(), order, k, order[k]).double()
            law[t] += rows[before][word]
    samples = da.sample(chain, draws_for(sampler), sampler=sampler, seed=0, max_live=20_000).samples
    check(chi_square(outcome_counts(samples[:, order] - len(SPECIAL), 3), law.exp()))


def trained(letters: list[str], n: int) -> tuple[Any, float]:
    """A small XLNet and its loss, on texts in which a letter follows another of its kind with probability 0.85."""
    generator = torch.Generator().manual_seed(0)
    model = xlnet(letters, d_model=32, d_inner=64, initializer_range=0.1, dropout=0.0).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    letter = torch.eye(n + 2)[:n].expand(64, n, n + 2)
    losses = []
    for _ in range(400):
        change = torch.randint(1, 4, (64, n), generator=generator) * (torch.rand(64, n, generator=generator) < 0.15)
        text = (torch.randint(4, (64, 1), generator=generator) + change.cumsum(1)) % 4 + len(SPECIAL)
        tokens = torch.cat([text, torch.tensor([3, 2]).expand(64, 2)], 1)  # [SEP] [CLS]
        rank = torch.rand(64, n, generator=generator).argsort(1).argsort(1)
        rank = torch.nn.functional.pad(rank, (0, 2), value=-1)
        hides = (rank[:, None, :] >= rank.clamp(min=0)[:, :, None]).float()
        logits = model(input_ids=tokens, perm_mask=hides, target_mapping=letter).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), text.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return model, sum(losses[-50:]) / 50


@pytest.mark.slow
def test_a_trained_model() -> None:
    letters, n = list("acgt"), 16
    model, loss = trained(letters, n)
    assert 0.63 < loss < 0.68  # the texts have 0.637 nats a letter
    lm = PermutationLM(model.double(), word_tokenizer(letters, "$A [SEP] [CLS]"))
    chain = lm.chain("[MASK] " * n)
    sequential, coupled = (da.sample(chain, 200, sampler=sampler, seed=0) for sampler in (Sequential(), Coupled()))
    assert torch.equal(coupled.samples, sequential.samples)
    assert sequential.report.mean_rounds == n > 2.5 * coupled.report.mean_rounds
    drawn = coupled.samples[:, :n]
    assert 0.12 < float((drawn[:, 1:] != drawn[:, :-1]).double().mean()) < 0.2


def _bert() -> Any:
    return BertForMaskedLM(BertConfig(vocab_size=8, hidden_size=16, num_hidden_layers=1, num_attention_heads=2))


WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "bert": (lambda: PermutationLM(_bert(), word_tokenizer(WORDS)), "takes no perm_mask.*use MaskedLM"),
    "one way": (lambda: PermutationLM(xlnet(attn_type="uni"), word_tokenizer(WORDS)), "must attend both ways"),
    "two ways in a batch": (lambda: PermutationLM(xlnet(bi_data=True), word_tokenizer(WORDS)), "bi_data False"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_named(case: str) -> None:
    make, message = WRONG[case]
    with pytest.raises(InputError, match=message):
        make()


def test_a_sequence_needs_a_known_token() -> None:
    """Attention with nothing to rest on would spread over the guesses: the answer would depend on what is hidden."""
    lm = language_model()
    for evidence in (torch.full((4,), HIDDEN), torch.tensor([HIDDEN, HIDDEN, lm.pad])):
        with pytest.raises(SamplingError, match="a known token in every sequence"):
            da.sample(da.TokenChain(lm.oracle(len(evidence)), evidence=evidence), 1)
