"""Models of other libraries in captured rounds, tiny ones with random weights: the samples of packed rounds, and after
any change of a model those of a fresh process."""

from __future__ import annotations

import functools
import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

pytest.importorskip("diffusers")
from diffusers import DDPMScheduler

import drawahead as da
from drawahead import Block, Coupled, GaussianChain, InputError, SamplingError, Sequential, Stepwise, TokenChain
from drawahead.adapters import MaskedLM, PermutationLM, from_diffusers
from drawahead.chains.base import Chain
from drawahead.language.shared import TokenLaw
from drawahead.proteins.mpnn.model import ProteinMPNN, Weights
from drawahead.proteins.structures.files import made_up_backbone
from drawahead.rounds.captured.batch import CapturedBatch
from drawahead.samplers import Sampler
from tests.adapters.test_diffusers_adapter import tiny_unet
from tests.adapters.test_masked_lm import WORDS, small
from tests.adapters.test_permutation import WORDS as FEW_WORDS
from tests.adapters.test_permutation import xlnet
from tests.adapters.words import word_tokenizer
from tests.changes import Change, assert_copies_apart, assert_seen, batches_used, drawn, on, put, same

PACKINGS = pytest.mark.parametrize("graphs", [False, True], ids=["packed", "captured"])
MASKS = "a [MASK] [MASK] [MASK] c [MASK] [MASK] b"


@pytest.fixture(autouse=True)
def _own_randomness() -> Iterator[None]:
    with torch.random.fork_rng():
        yield


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> list[CapturedBatch]:
    """The batches that captured runs were given."""
    return batches_used(monkeypatch)


# Tiny models

Meddle = Callable[[Any], Any]
"""Changes a network in place, and returns it."""


def masked(meddle: Meddle | None = None, **options: Any) -> TokenChain:
    network = small("bert") if meddle is None else meddle(small("bert"))
    return MaskedLM(network, word_tokenizer(WORDS), **options).chain(MASKS)


def permuted(meddle: Meddle | None = None, **options: Any) -> TokenChain:
    network = xlnet().double() if meddle is None else meddle(xlnet().double())
    return PermutationLM(network, word_tokenizer(FEW_WORDS, "$A [SEP] [CLS]"), **options).chain(MASKS)


def images(meddle: Meddle | None = None, **options: Any) -> GaussianChain:
    unet = tiny_unet().double() if meddle is None else meddle(tiny_unet().double())
    return from_diffusers(unet, DDPMScheduler(num_train_timesteps=6), **options)


def protein_weights(seed: int = 0) -> Weights:
    """Of a network of width 8 with one layer to encode and two to decode, in which neighbours matter."""
    generator = torch.Generator().manual_seed(seed)
    tensors: dict[str, Tensor] = {}

    def linear(name: str, wide: int, of: int, size: float = 1.5, bias: bool = True) -> None:
        tensors[f"{name}.weight"] = torch.randn(wide, of, dtype=torch.float64, generator=generator) * size / of**0.5
        if bias:
            tensors[f"{name}.bias"] = torch.randn(wide, dtype=torch.float64, generator=generator) * 0.3

    def norm(name: str) -> None:
        tensors[f"{name}.weight"] = 1 + 0.3 * torch.randn(8, dtype=torch.float64, generator=generator)
        tensors[f"{name}.bias"] = 0.3 * torch.randn(8, dtype=torch.float64, generator=generator)

    linear("features.embeddings.linear", 4, 66)
    linear("features.edge_embedding", 8, 404, bias=False)
    norm("features.norm_edges")
    linear("W_e", 8, 8)
    layers = {"encoder_layers.0": (24, "W1 W2 W3 W11 W12 W13"), "decoder_layers.0": (32, "W1 W2 W3")}
    for layer, (reads, names) in (layers | {"decoder_layers.1": layers["decoder_layers.0"]}).items():
        for name in names.split():
            linear(f"{layer}.{name}", 8, reads if name in ("W1", "W11") else 8, 30.0 if name == "W3" else 1.5)
        for name in ("norm1", "norm2", "norm3"):
            norm(f"{layer}.{name}")
        linear(f"{layer}.dense.W_in", 16, 8)
        linear(f"{layer}.dense.W_out", 8, 16)
    linear("W_s", 21, 8, bias=False)
    linear("W_out", 21, 8)
    return Weights(tensors, 6)


def protein(weights: Weights | None = None, **options: Any) -> TokenChain:
    given: dict[str, Any] = {"temperature": 0.5, "dtype": torch.float64}
    return ProteinMPNN(weights or protein_weights(), made_up_backbone(9), **given | options).chain()


KINDS: dict[str, Callable[[], Chain]] = {
    "masked": masked,
    "permuted": permuted,
    "images": images,
    "protein": protein,
    "some of a protein": lambda: ProteinMPNN(
        protein_weights(), made_up_backbone(9), temperature=0.5, dtype=torch.float64
    ).chain({0: "M", 4: "C"}),
}


# Both packings


@pytest.mark.parametrize("sampler", [Sequential(), Coupled(), Coupled(3), Block(), Stepwise(), da.Picard()], ids=repr)
@pytest.mark.parametrize("kind", KINDS)
def test_captured_rounds_draw_the_samples_of_packed_ones(kind: str, sampler: Sampler) -> None:
    chain, number = KINDS[kind](), 3 if kind == "images" else 6
    one, other = (
        da.sample(chain, number, sampler=sampler, seed=1, graphs=graphs, max_live=2) for graphs in (True, False)
    )
    assert same(one.samples, other.samples) and one.report.sample_rounds == other.report.sample_rounds


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_captured_is_used_again(kind: str, used: list[CapturedBatch]) -> None:
    chain = KINDS[kind]()
    first, second = (drawn(chain, True) for _ in range(2))
    assert same(first, second) and used[0] is used[1]
    reference = weakref.ref(used[0])
    used.clear()
    del chain
    gc.collect()
    assert reference() is None


# Changes


def halved(network: Any) -> Any:
    with torch.no_grad():
        for weight in network.parameters():
            weight.mul_(0.5)
    return network


def seeded(layer: nn.Module, size: float = 1.0) -> nn.Module:
    """A layer of the same shape with random weights."""
    generator = torch.Generator().manual_seed(5)
    for weight in layer.parameters():
        weight.data = size * torch.randn(weight.shape, generator=generator, dtype=torch.float64)
    return layer.double().eval()


def loaded(network: Any) -> Any:
    network.load_state_dict({name: 0.5 * tensor for name, tensor in network.state_dict().items()})
    return network


def bert_layer(network: Any) -> Any:
    network.bert.encoder.layer[0] = seeded(small("bert").bert.encoder.layer[0])
    return network


def bert_decoder(network: Any) -> Any:
    network.cls.predictions.decoder = seeded(nn.Linear(16, network.config.vocab_size))
    return network


def bert_head(network: Any) -> Any:
    network.cls = seeded(small("bert").cls)
    return network


def bert_encoder(network: Any) -> Any:
    network.bert = seeded(small("bert").bert, 0.5)
    return network


def xlnet_layer(network: Any) -> Any:
    network.transformer.layer[1] = seeded(xlnet().transformer.layer[1], 0.5)
    return network


def xlnet_head(network: Any) -> Any:
    network.lm_loss = seeded(nn.Linear(16, network.config.vocab_size))
    return network


def xlnet_encoder(network: Any) -> Any:
    network.transformer = seeded(xlnet().transformer, 0.5)
    return network


def first_layer(unet: Any) -> Any:
    unet.conv_in = seeded(nn.Conv2d(2, 8, 3, padding=1), 0.3)
    return unet


part = functools.partial
NETWORK = "oracle.language_model.model"
CHANGES = [
    *(
        Change(f"masked: {f.__name__}", masked, on(NETWORK, f), part(masked, f))
        for f in (halved, loaded, bert_layer, bert_decoder, bert_head, bert_encoder)
    ),
    *(
        Change(f"permuted: {f.__name__}", permuted, on(NETWORK, f), part(permuted, f))
        for f in (halved, loaded, xlnet_layer, xlnet_head, xlnet_encoder)
    ),
    *(
        Change(f"images: {f.__name__}", images, on("denoiser.network", f), part(images, f))
        for f in (halved, loaded, first_layer)
    ),
    Change("images: record", images, put("record", (2, 4)), part(images, record=(2, 4)), own=True),
    Change("protein: temperature", protein, put("oracle.temperature", 3.0), part(protein, temperature=3.0)),
    Change(
        "protein: temperature beside a bias",
        part(protein, bias={"A": 3.0}),
        put("oracle.temperature", 3.0),
        part(protein, bias={"A": 3.0}, temperature=3.0),
    ),
]


@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_a_change_is_seen(change: Change) -> None:
    """After captured rounds: packed ones keep nothing from call to call."""
    assert_seen(change, graphs=True)


@pytest.mark.parametrize("change", CHANGES[::3], ids=str)
def test_a_copy_may_be_changed_alone(change: Change) -> None:
    assert_copies_apart(change, graphs=True)


@PACKINGS
@pytest.mark.parametrize("make", [masked, permuted], ids=lambda make: make.__name__)
def test_training_mode_is_refused(make: Callable[[], Any], graphs: bool) -> None:
    chain = make()
    before = drawn(chain, graphs)
    chain.oracle.language_model.model.train()
    with pytest.raises(SamplingError, match="training mode"):
        drawn(chain, graphs)
    chain.oracle.language_model.model.eval()
    assert same(drawn(chain, graphs), before)


LATER: dict[str, Any] = {
    "temperature": 0.05,
    "law": TokenLaw(top_k=1),
    "model": bert_encoder(small("bert")).eval(),
    "forbidden": torch.arange(13) != 6,
}


def test_a_setting_that_is_set_is_refused() -> None:
    chain = masked()
    before = drawn(chain, True)
    for name, value in LATER.items():
        with pytest.raises(InputError, match=rf"this MaskedLM cannot be changed: MaskedLM\(.*{name}="):
            setattr(chain.oracle.language_model, name, value)  # type: ignore[attr-defined]
    assert same(drawn(chain, True), before)


NAMES = [
    "W_out.bias",
    "W_s.weight",
    "decoder_layers.0.W2.weight",
    "decoder_layers.1.W3.weight",
    "encoder_layers.0.W2.bias",
]


def test_the_weights_of_a_protein_model_are_its_own() -> None:
    """It works through them when it is made. So a later change of the file's tensors shows nowhere, or everywhere."""
    found = []
    for name in NAMES:
        weights = protein_weights()
        chain = protein(weights)
        before = drawn(chain, False)
        weights.tensors[name].mul_(-3)
        after, fresh = drawn(chain, False), drawn(protein(weights), False)
        assert not same(fresh, before)
        found.append("nowhere" if same(after, before) else "everywhere" if same(after, fresh) else "somewhere")
    assert set(found) in ({"nowhere"}, {"everywhere"}), dict(zip(NAMES, found, strict=True))
