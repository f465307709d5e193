"""`custom_generate`: what transformers draws with the same noise, in fewer passes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import drawahead as da
from drawahead import Coupled, InputError, Sequential
from drawahead.adapters import generate
from drawahead.laws import Categorical
from drawahead.randomness import Purpose, Stream

transformers = pytest.importorskip("transformers")

SIZES = {
    "vocab_size": 40,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
}
SEED = 5


def made(kind: str, config: Any, strength: float = 3.0) -> Any:
    """A tiny model with random weights, strong enough to tell prefixes apart."""
    torch.manual_seed(0)
    model = getattr(transformers, kind)(config).double().eval()
    for parameter in model.parameters():
        if parameter.dim() > 1:
            parameter.data.mul_(strength)
    return model


def llama() -> Any:
    return made("LlamaForCausalLM", transformers.LlamaConfig(**SIZES))


def gpt2() -> Any:
    sizes = {"vocab_size": 40, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 128}
    return made("GPT2LMHeadModel", transformers.GPT2Config(**sizes, bos_token_id=1, eos_token_id=2), 4.0)


def sliding() -> Any:
    return made("MistralForCausalLM", transformers.MistralConfig(**SIZES, sliding_window=5))


def emu3() -> Any:
    text = transformers.Emu3TextConfig(**SIZES, pad_token_id=0)
    vq = transformers.Emu3VQVAEConfig(codebook_size=8, embed_dim=4, base_channels=32, latent_channels=4)
    names = {f"<|visual token {i:06}|>": 20 + i for i in range(8)} | {"<image>": 39}
    config = transformers.Emu3Config(text_config=text, vq_config=vq, vocabulary_map=names)
    return made("Emu3ForConditionalGeneration", config, 2.0)


def chameleon() -> Any:
    vq = transformers.ChameleonVQVAEConfig(num_embeddings=8, embed_dim=4, base_channels=32, latent_channels=4)
    names = {f"IMGIMG{letter}Z": 20 + i for i, letter in enumerate("ABCDEFGH")} | {"<image>": 39}
    config = transformers.ChameleonConfig(**SIZES, vq_config=vq, vocabulary_map=names)
    return made("ChameleonForConditionalGeneration", config, 2.0)


MODELS: dict[str, Callable[[], Any]] = {make.__name__: make for make in (llama, gpt2, sliding, emu3, chameleon)}


def inputs(rows: int = 3, width: int = 6) -> dict[str, Any]:
    """Prompts of different lengths, padded on the left."""
    ids = torch.randint(3, 20, (rows, width), generator=torch.Generator().manual_seed(1))
    mask = (torch.arange(width) >= torch.tensor([[2], [4], [0]])[:rows]).long()
    return {"input_ids": ids, "attention_mask": mask, "pad_token_id": 0, "eos_token_id": 2, "do_sample": True}


PROCESSORS: dict[str, dict[str, Any]] = {
    "plain": {},
    "cut": {"temperature": 0.8, "top_k": 12, "top_p": 0.9, "min_p": 0.01},
    "history": {"repetition_penalty": 1.4, "no_repeat_ngram_size": 2, "min_new_tokens": 6},
    "allowed": {"prefix_allowed_tokens_fn": lambda row, ids: [2, 3 + row, 4 + int(ids[-1]) % 7, 11, 12]},
}


def theirs(model: Any, monkeypatch: pytest.MonkeyPatch, seed: int = SEED, **arguments: Any) -> Tensor:
    """What transformers' own loop draws with the noise of this seed."""
    taken = 0

    def multinomial(probabilities: Tensor, num_samples: int) -> Tensor:
        nonlocal taken
        law = Categorical(probabilities.double().log()[:, None])
        step = torch.full((len(probabilities), 1), taken)
        taken += 1
        stream = Stream.of_samples(seed, torch.arange(len(probabilities)))
        return law.draw(law.noise(stream, Purpose.VALUE, step))

    with monkeypatch.context() as patch:
        patch.setattr(torch, "multinomial", multinomial)
        drawn: Tensor = model.generate(**arguments)
    return drawn


@pytest.mark.parametrize("processors", PROCESSORS)
@pytest.mark.parametrize("name", MODELS)
def test_the_samples_are_those_of_transformers(name: str, processors: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, arguments = MODELS[name](), inputs() | PROCESSORS[processors] | {"max_new_tokens": 16}
    expected = theirs(model, monkeypatch, **arguments)
    ours = {"custom_generate": generate, "seed": SEED}
    results: list[da.Result] = []
    one_by_one = model.generate(**arguments, **ours, sampler=Sequential(), on_result=results.append)
    assert torch.equal(one_by_one, expected)
    for window, guess in ((1, None), (4, da.Above(3)), (30, da.Ngram(2))):
        drawn = model.generate(
            **arguments, **ours, sampler=Coupled(window), first_guess=guess, on_result=results.append
        )
        assert torch.equal(drawn, expected), (window, guess)
    assert results[0].report.rounds == 16 or processors != "history"
    assert results[-1].report.rounds <= results[0].report.rounds


@pytest.mark.parametrize(
    "more",
    [
        {"cache_implementation": "static"},
        {"use_cache": False},
        {"num_return_sequences": 2},
        {"eos_token_id": [2, 7, 9]},
        {"max_time": 1000.0},
    ],
    ids=str,
)
def test_caches_and_returned_sequences(more: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    model, arguments = llama(), inputs(2) | {"max_new_tokens": 14, "top_k": 20} | more
    expected = theirs(model, monkeypatch, **arguments)
    for sampler in (Sequential(), Coupled(5)):
        drawn = model.generate(**arguments, custom_generate=generate, seed=SEED, sampler=sampler)
        assert torch.equal(drawn, expected)


def test_text_to_text(monkeypatch: pytest.MonkeyPatch) -> None:
    config = transformers.T5Config(
        vocab_size=40, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, decoder_start_token_id=0
    )
    model = made("T5ForConditionalGeneration", config, 1.5)
    arguments = inputs() | {"max_new_tokens": 12}
    expected = theirs(model, monkeypatch, **arguments)
    for sampler in (Sequential(), Coupled(4)):
        drawn = model.generate(**arguments, custom_generate=generate, seed=SEED, sampler=sampler)
        assert torch.equal(drawn, expected)


def test_stopping_criteria_read_what_is_drawn_for_good(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[int]] = []

    class Stop(transformers.StoppingCriteria):  # type: ignore[misc, name-defined]
        def __call__(self, input_ids: Tensor, scores: Any, **options: Any) -> Tensor:
            seen.extend(input_ids.tolist())
            return input_ids[:, -1] % 5 == 0

    model, arguments = llama(), inputs(1) | {"max_new_tokens": 30, "eos_token_id": None}
    arguments["stopping_criteria"] = transformers.StoppingCriteriaList([Stop()])
    expected = theirs(model, monkeypatch, **arguments)
    seen.clear()
    drawn = model.generate(**arguments, custom_generate=generate, seed=SEED, sampler=Coupled(8))
    assert torch.equal(drawn, expected) and drawn.shape[1] < 36
    final = drawn[0].tolist()
    assert seen == [final[:length] for length in range(7, len(final) + 1)], "each prefix once, and no guess"


def test_tokens_are_streamed_as_they_are_drawn() -> None:
    class Stream:
        def __init__(self) -> None:
            self.tokens: list[int] = []
            self.ended = False

        def put(self, tokens: Tensor) -> None:
            self.tokens += tokens.tolist()

        def end(self) -> None:
            self.ended = True

    stream = Stream()
    drawn = llama().generate(**inputs(1) | {"max_new_tokens": 20}, custom_generate=generate, seed=SEED, stream=stream)
    assert stream.tokens == drawn[0, 6:].tolist() and stream.ended


def test_seeds_and_dictionaries() -> None:
    model, arguments = llama(), inputs() | {"max_new_tokens": 8, "custom_generate": generate}
    torch.manual_seed(3)
    first = model.generate(**arguments)
    torch.manual_seed(3)
    again = model.generate(**arguments, return_dict_in_generate=True)
    assert torch.equal(first, again.sequences)
    assert not torch.equal(first, model.generate(**arguments))


@pytest.mark.parametrize("cache", ["static", "dynamic"])
def test_a_cache_that_is_not_rolled_back_is_rejected(cache: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from drawahead.language.causal_lm import CausalLM

    model, arguments = llama(), inputs() | {"max_new_tokens": 20, "cache_implementation": cache, "eos_token_id": None}
    ours = {"custom_generate": generate, "seed": SEED}
    expected = model.generate(**arguments, **ours, sampler=Sequential())
    assert torch.equal(model.generate(**arguments, **ours, sampler=Coupled(4)), expected)
    monkeypatch.setattr(CausalLM, "_roll_back", lambda network, length: None)
    with pytest.raises((AssertionError, da.SamplingError)):  # other tokens, or no room for them
        assert torch.equal(model.generate(**arguments, **ours, sampler=Coupled(4)), expected)


def test_a_processor_given_a_wrong_prefix_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    from drawahead.language.causal_lm import CausalLM

    model, arguments = llama(), inputs(2) | {"max_new_tokens": 20} | PROCESSORS["history"]
    ours = {"custom_generate": generate, "seed": SEED}
    expected = model.generate(**arguments, **ours, sampler=Sequential())
    sound, whole = CausalLM._law, CausalLM._ask
    asked: list[Tensor] = []

    def ask(network: CausalLM, tokens: Tensor, start: int) -> None:
        asked.append(tokens)
        whole(network, tokens, start)

    monkeypatch.setattr(CausalLM, "_ask", ask)
    monkeypatch.setattr(CausalLM, "_law", lambda network, prefix, logits: sound(network, asked[-1], logits))
    assert not torch.equal(model.generate(**arguments, **ours, sampler=Coupled(6)), expected)


# What is refused


class Counting(transformers.LogitsProcessor):  # type: ignore[misc, name-defined]
    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        self.calls += 1
        return scores + (self.calls == 1)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"do_sample": False}, "greedy search.*leave custom_generate out"),
        ({"num_beams": 2}, "beam search.*leave custom_generate out"),
        ({"return_dict_in_generate": True, "output_scores": True}, "output_scores=True"),
        ({"sampler": da.Block()}, "left-to-right model cannot give"),
        ({"logits_processor": [Counting()]}, "Counting keeps something between its calls"),
        ({"guidance_scale": 2.0}, "UnbatchedClassifierFreeGuidance.* keeps something between its calls"),
    ],
    ids=lambda part: part[:20] if isinstance(part, str) else "",
)
def test_what_cannot_be_drawn_ahead_is_named(more: dict[str, Any], message: str) -> None:
    if "logits_processor" in more:
        more = {"logits_processor": transformers.LogitsProcessorList(more["logits_processor"])}
    with pytest.raises(InputError, match=message) as raised:
        llama().generate(**inputs() | {"max_new_tokens": 8} | more, custom_generate=generate)
    assert "\n" not in str(raised.value)


def recurrent() -> dict[str, Any]:
    sizes = {"vocab_size": 40, "hidden_size": 32, "num_hidden_layers": 2}
    return {
        "mamba": made("MambaForCausalLM", transformers.MambaConfig(**sizes, state_size=4)),
        "rwkv": made("RwkvForCausalLM", transformers.RwkvConfig(**sizes, attention_hidden_size=32)),
    }


@pytest.mark.parametrize("name", ["mamba", "rwkv"])
def test_recurrent_states_are_refused_and_read_whole_where_asked(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = recurrent()[name]
    arguments = {"input_ids": inputs(2)["input_ids"], "do_sample": True, "max_new_tokens": 8, "pad_token_id": 0}
    with pytest.raises(InputError, match=r"cannot be rolled back.*use_cache=False"):
        model.generate(**arguments, custom_generate=generate)
    ours = {"custom_generate": generate, "seed": SEED, "use_cache": False}
    one_by_one = model.generate(**arguments, **ours, sampler=Sequential())
    assert torch.equal(model.generate(**arguments, **ours, sampler=Coupled(3)), one_by_one)
    assert torch.equal(theirs(model, monkeypatch, **arguments, use_cache=False), one_by_one)


def test_a_bidirectional_model_is_refused() -> None:
    config = transformers.BertConfig(
        vocab_size=40, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=48
    )
    model = made("BertLMHeadModel", config)
    with pytest.raises(InputError, match="changes with later tokens"):
        model.generate(**inputs() | {"max_new_tokens": 8}, custom_generate=generate)


def test_musicgen_with_its_own_loop_is_refused_by_transformers_itself() -> None:
    sizes = {"vocab_size": 20, "num_hidden_layers": 1, "ffn_dim": 32, "num_attention_heads": 4, "hidden_size": 32}
    config = transformers.MusicgenDecoderConfig(**sizes, num_codebooks=4, pad_token_id=20, bos_token_id=20)
    model = made("MusicgenForCausalLM", config)
    with pytest.raises(ValueError, match="custom_generate"):
        model.generate(torch.full((4, 1), 20), do_sample=True, max_new_tokens=6, custom_generate=generate)
