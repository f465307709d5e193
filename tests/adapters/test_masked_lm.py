"""Masked language models of transformers: small ones of every kind, and one with published weights."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from transformers import (
    AlbertConfig,
    AlbertForMaskedLM,
    BertConfig,
    BertForMaskedLM,
    BertForSequenceClassification,
    BertForTokenClassification,
    BertModel,
    BertTokenizer,
    ConvBertConfig,
    ConvBertForMaskedLM,
    EsmConfig,
    EsmForMaskedLM,
    FlaubertConfig,
    FlaubertWithLMHeadModel,
    FNetConfig,
    FNetForMaskedLM,
    FunnelConfig,
    FunnelForMaskedLM,
    MPNetConfig,
    MPNetForMaskedLM,
    NystromformerConfig,
    NystromformerForMaskedLM,
    PreTrainedTokenizerFast,
    ReformerConfig,
    ReformerForMaskedLM,
    RobertaConfig,
    RobertaForMaskedLM,
    XLMConfig,
    XLMWithLMHeadModel,
    XLNetConfig,
    XLNetLMHeadModel,
)

import drawahead as da
from drawahead import HIDDEN, Block, CountingOracle, Coupled, InputError, SamplingError, Sequential, TokenChain
from drawahead.adapters import MaskedLM
from drawahead.language.shared import TokenLaw
from drawahead.samplers import Sampler
from drawahead.verification.statistics import chi_square
from tests.adapters.words import SPECIAL, word_tokenizer
from tests.exactness import draws_for, outcome_counts, outcomes

WORDS = list("abcdefgh")
PROMPTS = ["a [MASK] c [MASK] e [MASK]", "[MASK] [MASK]", "h g f e d c b a [MASK] [MASK] [MASK] b", "a b c"]
SIZE = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}


def small(family: str, words: list[str] = WORDS, mask: int = 4, **options: Any) -> Any:
    """A random model, far from uniform and with strong dependences."""
    torch.manual_seed(len(family))
    common = {**SIZE, "vocab_size": len(SPECIAL) + len(words), "pad_token_id": 0, "initializer_range": 0.4}
    common |= {"max_position_embeddings": 24, **options}
    match family:
        case "bert":
            model: Any = BertForMaskedLM(BertConfig(**common))
        case "roberta":
            model = RobertaForMaskedLM(RobertaConfig(**common))
        case "albert":
            model = AlbertForMaskedLM(AlbertConfig(embedding_size=8, **common))
        case "mpnet":  # pads with token 1, whatever its configuration says
            model = MPNetForMaskedLM(MPNetConfig(**common))
        case "xlm" | "flaubert":
            other = {"emb_dim": 16, "n_layers": 2, "n_heads": 2, "embed_init_std": 0.4, "init_std": 0.4}
            other |= {"pad_index": 0, "mask_index": mask, "mask_token_id": mask, "unk_index": 1, "n_langs": 1}
            kind, config = {
                "xlm": (XLMWithLMHeadModel, XLMConfig),
                "flaubert": (FlaubertWithLMHeadModel, FlaubertConfig),
            }[family]
            model = kind(config(**common | other))
        case "esm":
            model = EsmForMaskedLM(EsmConfig(mask_token_id=mask, token_dropout=True, **common))
        case _:  # ESM-2
            rotary = {"token_dropout": True, "position_embedding_type": "rotary"}
            model = EsmForMaskedLM(EsmConfig(mask_token_id=mask, **rotary, **common))
    return model.double()


def language_model(family: str = "bert", words: list[str] = WORDS, **options: Any) -> MaskedLM:
    special = [SPECIAL[1], SPECIAL[0], *SPECIAL[2:]] if family == "mpnet" else SPECIAL
    return MaskedLM(small(family, words), word_tokenizer(words, special=special), **options)


FAMILIES = ["bert", "roberta", "albert", "esm", "esm-2"]
every_family = pytest.mark.parametrize("family", FAMILIES)


def own_rows(lm: MaskedLM, prompt: str) -> Tensor:
    """What the model itself says of a prompt, alone and without drawahead: (n, words)."""
    ids = lm.tokenizer(prompt, return_tensors="pt")["input_ids"]
    with torch.no_grad():
        return lm.model(input_ids=ids).logits[0, :, len(SPECIAL) :].log_softmax(-1)


@pytest.mark.parametrize("family", [*FAMILIES, "mpnet", "xlm", "flaubert"])
def test_rows_are_the_models_own_whatever_the_padding(family: str) -> None:
    """Through both doors; at other lengths beside it, and with more padding than needed."""
    lm = language_model(family)
    evidence = lm.evidence(PROMPTS)
    wider = torch.nn.functional.pad(evidence, (0, 3), value=lm.pad)
    for tokens in (evidence, wider):
        oracle = lm.oracle(tokens.shape[1])
        rows = oracle.rows(tokens)
        assert rows.shape == (*tokens.shape, lm.vocab_size) and rows.dtype == torch.float64
        context, position = (tokens == HIDDEN).nonzero().T
        torch.testing.assert_close(oracle.rows_at(tokens, context, position), rows[context, position])
        for i, prompt in enumerate(PROMPTS):
            hidden = (tokens[i] == HIDDEN).nonzero()[:, 0]
            torch.testing.assert_close(rows[i, hidden, len(SPECIAL) :], own_rows(lm, prompt)[hidden])
        assert bool((rows[..., : len(SPECIAL)] == -torch.inf).all())


def hears_padding(family: str) -> Any:
    """A random model whose answers change with the padding behind a text, whatever the attention mask says."""
    torch.manual_seed(len(family))
    common = {"vocab_size": len(SPECIAL) + len(WORDS), "pad_token_id": 0, "initializer_range": 0.4}
    match family:
        case "fnet":
            config: Any = FNetConfig(**SIZE, **common, max_position_embeddings=24, type_vocab_size=2)
            model: Any = FNetForMaskedLM(config)
        case "nystromformer":
            model = NystromformerForMaskedLM(
                NystromformerConfig(
                    **SIZE,
                    **common,
                    max_position_embeddings=24,
                    num_landmarks=8,
                    segment_means_seq_len=8,
                    conv_kernel_size=3,
                )
            )
        case "convbert":
            config = ConvBertConfig(**SIZE, **common, max_position_embeddings=24, conv_kernel_size=3, embedding_size=16)
            model = ConvBertForMaskedLM(config)
        case "reformer":
            config = ReformerConfig(
                **common, attn_layers=["local"] * 2, is_decoder=False, hidden_size=16, feed_forward_size=32,
                num_attention_heads=2, attention_head_size=8, axial_pos_shape=(4, 8), axial_pos_embds_dim=(8, 8),
                max_position_embeddings=32, local_attn_chunk_length=4, lsh_attn_chunk_length=4,
            )  # fmt: skip
            model = ReformerForMaskedLM(config)
        case _:
            config = FunnelConfig(
                vocab_size=common["vocab_size"], pad_token_id=0, block_sizes=[1, 1], d_model=16, n_head=2, d_head=8,
                d_inner=32, initializer_std=0.4, initializer_range=0.4, num_decoder_layers=1,
            )  # fmt: skip
            model = FunnelForMaskedLM(config)
    return model.double()


@pytest.mark.parametrize("family", ["fnet", "nystromformer", "convbert", "reformer", "funnel"])
def test_a_model_that_hears_of_padding_is_asked_about_each_length_by_itself(family: str) -> None:
    lm = MaskedLM(hears_padding(family), word_tokenizer(WORDS))
    evidence = lm.evidence(PROMPTS)
    for oracle in (lm.chain(PROMPTS).oracle, lm.oracle(evidence.shape[1])):
        rows = oracle.rows(evidence)
        for i, prompt in enumerate(PROMPTS):
            hidden = (evidence[i] == HIDDEN).nonzero()[:, 0]
            torch.testing.assert_close(rows[i, hidden, len(SPECIAL) :], own_rows(lm, prompt)[hidden])
        context, position = (evidence == HIDDEN).nonzero().T
        torch.testing.assert_close(oracle.rows_at(evidence, context, position), rows[context, position])
    chain = lm.chain(PROMPTS * 15)
    assert torch.equal(
        *(da.sample(chain, 60, seed=0, sampler=sampler).samples for sampler in (Sequential(), Coupled()))
    )
    assert family != "fnet" or da.verify(chain, 60).passed


def test_a_model_that_hides_its_padding_shares_batches() -> None:
    """It is asked about all lengths in one call."""
    lm = language_model("bert")
    chain = lm.chain(PROMPTS)
    calls: list[int] = []
    lm.model.cls.register_forward_pre_hook(lambda module, args: calls.append(len(args[0])))
    chain.oracle.rows(lm.evidence(PROMPTS))
    assert calls == [len(PROMPTS)]


@every_family
def test_the_head_is_run_on_the_wanted_cells_only(family: str) -> None:
    lm = language_model(family)
    seen: list[int] = []
    tokens = lm.evidence(PROMPTS)
    oracle = lm.oracle(tokens.shape[1])
    lm.model.get_output_embeddings().register_forward_hook(lambda *call: seen.append(call[-1][..., 0].numel()))
    oracle.rows_at(tokens, torch.tensor([0, 2, 2]), torch.tensor([2, 9, 10]))
    assert seen == [3]


def test_a_head_that_looks_around_is_run_whole() -> None:
    class Smoothing(BertForMaskedLM):
        def forward(self, *args: Any, **options: Any) -> Any:
            output = super().forward(*args, **options)
            output.logits = output.logits.cumsum(1)
            return output

    model = Smoothing(small("bert").config).double()
    lm = MaskedLM(model, word_tokenizer(WORDS))
    tokens = lm.evidence(PROMPTS)
    oracle = lm.oracle(tokens.shape[1])
    assert lm.network.whole_logits
    assert oracle.bytes_per_query > MaskedLM(small("bert"), word_tokenizer(WORDS)).oracle(14).bytes_per_query
    torch.testing.assert_close(
        oracle.rows_at(tokens, torch.tensor([0]), torch.tensor([2]))[0], oracle.rows(tokens)[0, 2]
    )


@pytest.mark.parametrize("options", [{}, {"top_k": 3, "top_p": 0.8, "temperature": 0.5}], ids=["plain", "cut"])
@every_family
def test_nothing_waits_for_the_device(family: str, options: dict[str, Any]) -> None:
    """With tensors that have shapes but no values, whoever wants to see a value fails."""
    lm = language_model(family, **options)
    tokens, context, position = lm.evidence(PROMPTS), torch.tensor([0, 2, 2]), torch.tensor([2, 9, 10])
    oracle = lm.oracle(tokens.shape[1])
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        tokens, context, position = (mode.from_tensor(t) for t in (tokens, context, position))
        assert oracle.rows(tokens).shape == (*tokens.shape, 13)
        assert oracle.rows_at(tokens, context, position).shape == (3, 13)


# What may be drawn


def straightforward(
    logits: list[float], forbidden: set[int], temperature: float, top_k: int | None, top_p: float | None
) -> list[float]:
    """The law, token by token, in plain arithmetic."""
    weight = {i: torch.tensor(x, dtype=torch.float64).div(temperature).exp().item() for i, x in enumerate(logits)}
    ranked = sorted((i for i in weight if i not in forbidden), key=lambda i: -weight[i])[:top_k]
    if top_p is not None:
        total, kept = sum(weight[i] for i in ranked), []
        for i in ranked:
            if sum(weight[j] for j in kept) / total < top_p:
                kept.append(i)
        ranked = kept
    total = sum(weight[i] for i in ranked)
    return [weight[i] / total if i in ranked else 0.0 for i in weight]


@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.0])
def test_the_law_of_a_token(temperature: float) -> None:
    logits = torch.randn(40, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * 2
    forbidden = torch.zeros(9, dtype=torch.bool)
    forbidden[[0, 5]] = True
    for top_k, top_p in itertools.product((None, 1, 4, 100), (None, 0.2, 0.9, 1.0)):
        rows = TokenLaw(temperature, top_k, top_p)(logits, forbidden)
        expected = [straightforward(row, {0, 5}, temperature, top_k, top_p) for row in logits.tolist()]
        torch.testing.assert_close(rows.exp(), torch.tensor(expected, dtype=torch.float64))


def test_the_law_of_a_token_at_the_edges() -> None:
    free = torch.zeros(4, dtype=torch.bool)
    tied = torch.tensor([2.0, 1.0, 1.0, 0.0])
    for law in (TokenLaw(top_k=2), TokenLaw(top_p=0.6), TokenLaw(top_k=2, top_p=0.99)):  # ties stay together
        probabilities = law(tied, free).exp()
        assert probabilities[1] == probabilities[2] > 0 == probabilities[3]
    even = torch.zeros(4, dtype=torch.float64)
    assert TokenLaw(top_p=0.5)(torch.tensor([0.0, -1e-9, -2e-9, -3e-9]), free).exp().count_nonzero() in (2, 3)
    assert torch.equal(TokenLaw(top_k=1)(even, free), TokenLaw()(even, free))
    for temperature in (1e-300, 1e300):  # neither overflow nor NaN
        rows = TokenLaw(temperature)(torch.tensor([3e38, 1.0, -3e38, 0.0]), free)
        assert float(rows.exp().sum()) == pytest.approx(1) and not bool(rows.isnan().any())
    assert float(TokenLaw(1e-300)(tied, free).exp()[0]) == 1
    for dtype in (torch.float16, torch.bfloat16):
        assert abs(float(TokenLaw(0.7, 3, 0.9)(tied.to(dtype), free).logsumexp(-1))) < 1e-12


@pytest.mark.parametrize("sampler", [Sequential(), Block(), Coupled()], ids=repr)
def test_special_and_forbidden_tokens_are_never_drawn(sampler: Sampler) -> None:
    lm = language_model(temperature=50.0, forbid=["a", 12])
    samples = da.sample(lm.chain("b [MASK] [MASK] [MASK] a"), 400, sampler=sampler, seed=0).samples
    drawn = samples[:, 2:5]
    assert set(drawn.flatten().tolist()) == set(range(6, 12))  # b ... g
    assert bool((samples[:, [0, 1, 5, 6]] == torch.tensor([2, 6, 5, 3])).all())  # [CLS] b ... a [SEP]


def test_numbers_without_a_token_are_never_drawn() -> None:
    """Models often have more rows than the tokenizer has tokens."""
    lm = MaskedLM(small("bert", vocab_size=32), word_tokenizer(WORDS), temperature=50.0)
    samples = da.sample(lm.chain("[MASK] [MASK] [MASK]"), 200, seed=0).samples
    assert lm.vocab_size == 32 and int(samples.max()) == 12


# Samplers


@pytest.mark.parametrize("family", [*FAMILIES, "mpnet", "xlm", "flaubert"])
def test_coupled_is_sequential_token_for_token(family: str) -> None:
    lm = language_model(family, temperature=0.8, top_p=0.95)
    chain = lm.chain(PROMPTS * 10)
    expected = da.sample(chain, 40, sampler=Sequential(), seed=0).samples
    for sampler in (Coupled(), Coupled(2)):
        assert torch.equal(da.sample(chain, 40, sampler=sampler, seed=0).samples, expected)
    assert lm.text(expected[3]) == "a b c"  # a prompt without masks is returned as it is
    assert all(text.startswith("a ") and text.split()[4] == "e" for text in lm.text(expected[::4]))


def test_a_sample_does_not_depend_on_its_company() -> None:
    lm = language_model("roberta")
    everyone = da.sample(lm.chain(PROMPTS * 5), 20, seed=0).samples
    for options in ({"max_batch_size": 1}, {"max_live": 3}):
        assert torch.equal(da.sample(lm.chain(PROMPTS * 5), 20, seed=0, **options).samples, everyone)


def enumerated(lm: MaskedLM, prompt: str, temperature: float, top_k: int) -> Tensor:
    """The law over all texts, averaged over all orders, by asking the model itself about each of their prefixes."""
    ids = lm.tokenizer(prompt, return_tensors="pt")["input_ids"][0]
    words = lm.vocab_size - len(SPECIAL)
    hidden = (ids == lm.mask).nonzero()[:, 0]
    texts = outcomes(len(hidden), words)
    total = torch.zeros(len(texts), dtype=torch.float64)
    orders = list(itertools.permutations(range(len(hidden))))
    for order in orders:
        tokens, law = ids.repeat(len(texts), 1), torch.ones(len(texts), dtype=torch.float64)
        for step in order:
            with torch.no_grad():
                logits = lm.model(input_ids=tokens).logits[:, hidden[step], len(SPECIAL) :] / temperature
            least = logits.sort(-1, descending=True).values[:, top_k - 1 : top_k]
            row = torch.where(logits >= least, logits, -torch.inf).softmax(-1)
            law *= row.gather(1, texts[:, step : step + 1])[:, 0]
            tokens[:, hidden[step]] = texts[:, step] + len(SPECIAL)
        total += law
    return total / len(orders)


@pytest.mark.parametrize("sampler", [Block(), Coupled()], ids=repr)
def test_samples_have_the_enumerated_law(sampler: Sampler, check: Callable[[float], None]) -> None:
    words = list("abcd")
    lm = language_model("bert", words, temperature=1.5, top_k=3)
    prompt = "a [MASK] [MASK] b [MASK] [MASK]"
    law = enumerated(lm, prompt, temperature=1.5, top_k=3)
    chain = lm.chain(prompt)
    samples = da.sample(chain, draws_for(sampler), sampler=sampler, seed=0, max_live=20_000).samples
    drawn = samples[:, chain.evidence == HIDDEN] - len(SPECIAL)
    check(chi_square(outcome_counts(drawn, len(words)), law))


@pytest.mark.parametrize("sampler", [Sequential(), Block(), Coupled()], ids=repr)
def test_the_report_counts_what_the_model_saw(sampler: Sampler) -> None:
    lm = language_model("bert")
    evidence = lm.evidence(PROMPTS)
    counting = CountingOracle(lm.oracle(evidence.shape[1]))
    sequences: list[int] = []
    lm.model.bert.register_forward_pre_hook(
        lambda module, args, options: sequences.append(len(options["input_ids"])), with_kwargs=True
    )
    report = da.sample(TokenChain(counting, evidence=evidence), 4, sampler=sampler, seed=0).report
    assert report.queries == report.passes == counting.queries == sum(sequences)
    assert report.rounds == counting.calls == len(sequences) and report.steps == 3


# Prompts


def test_prompts_as_text_and_as_numbers() -> None:
    lm = language_model()
    expected = [[2, 5, -1, 7, 3, 0], [2, -1, -1, 6, 12, 3]]
    assert lm.evidence(["a [MASK] c", "[MASK] [MASK] b h"]).tolist() == expected
    assert lm.evidence([[2, 5, 4, 7, 3], torch.tensor([2, -1, 4, 6, 12, 3])]).tolist() == expected
    assert lm.evidence(torch.tensor(expected)).tolist() == expected
    assert lm.evidence("a [MASK] c").tolist() == lm.evidence([2, 5, 4, 7, 3]).tolist() == expected[0][:5]
    assert lm.evidence(torch.tensor([2, 5, 4])).tolist() == [2, 5, -1]
    assert lm.text(torch.tensor(expected).clamp(min=0)) == ["a c", "b h"]
    assert not lm.chain("a [MASK]").oracle.padded and lm.chain(["a [MASK]", "b"]).oracle.padded  # type: ignore[attr-defined]
    left_to_right = lm.chain("[MASK] a [MASK]", order=range(5))
    assert left_to_right.steps == 2 and da.sample(left_to_right, 3, seed=0).samples.shape == (3, 5)


def test_a_model_in_training_mode_is_put_into_evaluation_mode() -> None:
    model = small("bert", hidden_dropout_prob=0.5).train()
    lm = MaskedLM(model, word_tokenizer(WORDS))
    assert not model.training
    chain = lm.chain("a [MASK] [MASK]")
    model.train()
    with pytest.raises(SamplingError, match=r"training mode.*model\.eval\(\)"):
        da.sample(chain, 1)


def _without(name: str) -> Any:
    tokenizer = word_tokenizer(WORDS)
    setattr(tokenizer, f"{name}_token", None)
    return tokenizer


XLNET = XLNetConfig(vocab_size=13, d_model=16, n_layer=1, n_head=2, d_inner=16)
WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "no head": (lambda: MaskedLM(BertModel(small("bert").config), word_tokenizer(WORDS)), "BertModel .*AutoModelFor"),
    "classifier": (
        lambda: MaskedLM(BertForSequenceClassification(small("bert").config), word_tokenizer(WORDS)),
        r"BertForSequenceClassification .*logits of every position.*\(2, 2\) logits",
    ),
    "xlnet": (lambda: MaskedLM(XLNetLMHeadModel(XLNET), word_tokenizer(WORDS)), "use PermutationLM"),
    "causal": (lambda: MaskedLM(small("xlm", causal=True), word_tokenizer(WORDS)), "XLMWithLMHeadModel is causal"),
    "mpnet's pad": (lambda: MaskedLM(small("mpnet"), word_tokenizer(WORDS)), "token 1 for the pad token, .* 0"),
    "no mask": (lambda: MaskedLM(small("bert"), _without("mask")), "no mask token: set tokenizer.mask_token"),
    "no pad": (lambda: MaskedLM(small("bert"), _without("pad")), "no pad token: set tokenizer.pad_token"),
    "too few tokens": (
        lambda: MaskedLM(small("bert", vocab_size=4), word_tokenizer(WORDS)),
        "has 4 tokens, but the tokenizer's mask and pad tokens are numbers 4 and 0",
    ),
    "tagger": (
        lambda: MaskedLM(BertForTokenClassification(small("bert").config), word_tokenizer(WORDS)),
        "has 2 tokens, .*do not belong together",
    ),
    "other mask": (
        lambda: MaskedLM(small("esm", mask=9), word_tokenizer(WORDS)),
        "token 9 for the mask token, the tokenizer 4",
    ),
    "other pad": (
        lambda: MaskedLM(small("roberta", pad_token_id=1), word_tokenizer(WORDS)),
        "token 1 for the pad token, the tokenizer 0",
    ),
    "temperature": (lambda: language_model(temperature=0), "temperature must be positive, not 0: .*top_k=1"),
    "no temperature": (lambda: language_model(temperature="hot"), "temperature must be a number"),
    "top_k": (lambda: language_model(top_k=0), "top_k must be at least 1"),
    "top_p": (lambda: language_model(top_p=1.5), "top_p must be above 0 and at most 1"),
    "forbidden text": (lambda: language_model(forbid="ab"), "forbid must be a list of tokens"),
    "forbidden word": (lambda: language_model(forbid=["z"]), "forbid names 'z'"),
    "forbidden number": (lambda: language_model(forbid=[13]), "forbid names 13"),
    "all forbidden": (lambda: language_model(forbid=WORDS), "forbid leaves no token"),
    "no prompt": (lambda: language_model().chain([]), "prompts are empty"),
    "empty prompt": (lambda: language_model().chain([[5, 4], torch.tensor([], dtype=torch.long)]), r"prompts\[1\] is"),
    "no masks": (lambda: language_model().chain(["a b", "c"]), r"no mask token '\[MASK\]'"),
    "unknown": (lambda: language_model().chain(["a [MASK]", "a z"]), r"prompts\[1\] holds text .*'\[UNK\]'"),
    "long": (lambda: language_model().chain(["a", "[MASK] " * 23]), r"prompts\[1\] has 25 tokens, .* 24 positions"),
    "long roberta": (lambda: language_model("roberta").chain("[MASK] " * 22), "24 tokens, .* 23 positions"),
    "long esm-2": (lambda: language_model("esm-2").chain("[MASK] " * 23), "25 tokens, .* 24 positions"),
    "no number": (lambda: language_model().chain([[5, 4], [4, 13]]), r"prompts\[1\] holds token 13: .*0 \.\.\. 12"),
    "fractions": (lambda: language_model().chain([torch.tensor([0.5])]), r"prompts\[0\] must be text or whole"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_named(case: str) -> None:
    make, message = WRONG[case]
    with pytest.raises(InputError, match=message):
        make()


def test_a_tokenizer_from_a_vocabulary_file(tmp_path: Path) -> None:
    """Pieces of words, as BERT has them."""
    words = ["the", "cat", "sat", "##s", "."]
    (tmp_path / "vocab.txt").write_text("\n".join([*SPECIAL, *words]))
    tokenizer = BertTokenizer(str(tmp_path / "vocab.txt"))
    lm = MaskedLM(small("bert", words), tokenizer)
    assert lm.evidence("The cats [MASK].").tolist() == [2, 5, 6, 8, HIDDEN, 9, 3]
    text = lm.text(da.sample(lm.chain("The cats [MASK]."), 1, seed=0).samples[0])
    assert text.startswith("the cats") and text.endswith(".")


# A published model: rxnmapper's ALBERT, which reads chemical reactions

FOLDER = Path(sys.prefix) / "weights/rxnmapper/models/transformers/albert_heads_8_uspto_all_1310k"
ATOM = r"(\[[^\]]+]|Br?|Cl?|N|O|S|P|F|I|b|c|n|o|s|p|\(|\)|\.|=|#|-|\+|\\|\/|:|~|@|\?|>>?|\*|\$|\%[0-9]{2}|[0-9])"
ESTER = "CC(=O)O.OCC>>CC(=O)OCC"
"""Acetic acid and ethanol become ethyl acetate."""


@pytest.fixture(scope="module")
def reactions() -> MaskedLM:
    assert FOLDER.is_dir(), f"published weights are missing: {FOLDER}; `make test` installs them"
    vocabulary = {token: i for i, token in enumerate((FOLDER / "vocab.txt").read_text().split("\n")) if token}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(ATOM), "isolated")
    tokenizer.post_processor = processors.TemplateProcessing(
        "[CLS] $A [SEP]", special_tokens=[(token, vocabulary[token]) for token in ("[CLS]", "[SEP]")]
    )
    tokenizer.decoder = decoders.Fuse()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, **{f"{name.lower()[1:-1]}_token": name for name in SPECIAL}
    )
    model = AlbertForMaskedLM.from_pretrained(FOLDER).double()
    return MaskedLM(model, fast, top_p=0.9, forbid=[token for token in vocabulary if token.startswith("[unused")])


def test_a_published_model_knows_its_chemistry(reactions: MaskedLM) -> None:
    """A thiol takes the place of a fluorine; hide each token in turn."""
    reaction = "CC(C)S.Fc1cccnc1F.O=C([O-])[O-].[K+].[K+]>>CC(C)Sc1ncccc1F"
    ids = reactions.evidence(reaction)
    assert reactions.text(ids) == reaction
    hidden = torch.arange(1, len(ids) - 1)
    one_hidden = ids.repeat(len(hidden), 1).scatter(1, hidden[:, None], HIDDEN)
    rows = reactions.oracle(len(ids)).rows_at(one_hidden, torch.arange(len(hidden)), hidden)
    assert float((rows.argmax(-1) == ids[hidden]).double().mean()) > 0.9


def test_a_published_model_in_fewer_rounds(reactions: MaskedLM) -> None:
    prompts = ["CC(=O)O.OCC>>" + "[MASK]" * 9, "CC(=O)O.OC" + "[MASK]" * 3 + "CC(=O)OCC", ESTER]
    chain = reactions.chain(prompts * 8)
    sequential, coupled, block = (
        da.sample(chain, 24, sampler=sampler, seed=0) for sampler in (Sequential(), Coupled(), Block())
    )
    assert torch.equal(coupled.samples, sequential.samples)
    assert sequential.report.rounds == 9 > max(coupled.report.mean_rounds, block.report.mean_rounds)
    assert reactions.text(block.samples)[2::3] == [ESTER] * 8
