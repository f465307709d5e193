"""Models of every kind, and changes of them once they have been drawn from.

Each `Change` knows the chain as it is made with the changed setting to begin with: what a fresh process would draw.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import drawahead as da
from drawahead import HIDDEN, CountingDenoiser, CountingOracle, GaussianChain, Noisy, StackedChain, TokenChain, rtk
from drawahead import ardiffusion as ar
from drawahead.chains.base import Chain
from drawahead.oracles.tokens import TokenOracle
from drawahead.rounds.captured.batch import CapturedBatch
from drawahead.rounds.captured.run import CapturedRun
from drawahead.samplers import Coupled, Sampler
from drawahead.schedules import linear_betas
from drawahead.targets import GaussianMixture
from tests.ardiffusion.test_model import CONFIGS, awake
from tests.gaussian.reference import Walk
from tests.gaussian.stacked_reference import BENT, PLANS, normal
from tests.test_networks import tiny

NUMBER = 3
"""How many samples are drawn: as many as a vector has entries, so that rows and entries may be mistaken."""


def drawn(chain: Chain, graphs: bool, sampler: Sampler | None = None, seed: int = 1) -> Tensor:
    return da.sample(chain, NUMBER, sampler=sampler or Coupled(3), seed=seed, graphs=graphs).samples


def same(one: Tensor, other: Tensor) -> bool:
    """Whether these are the same samples: tokens bit by bit, vectors up to rounding."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if not one.is_floating_point():
        return torch.equal(one, other)
    tolerance = 1e-9 if one.dtype == torch.float64 else 1e-4
    return torch.allclose(one, other, rtol=tolerance, atol=tolerance)


@dataclass(frozen=True)
class Change:
    """Something that is changed about a chain or its model once samples have been drawn."""

    name: str
    make: Callable[[], Chain]
    change: Callable[[Any], object]
    """Changes what the chain is made of; or makes another chain, which is then drawn from."""
    fresh: Callable[[], Chain]
    """The chain as it is made with the changed setting to begin with."""
    own: bool = False
    """Whether only the chain is changed, not its model: then the model of a shallow copy stays as it is."""
    deep: bool = True
    """Whether a deep copy has a model of its own: what a function closes over is not copied."""

    def __str__(self) -> str:
        return self.name

    def of(self, chain: Chain) -> Chain:
        """The chain once it is changed."""
        changed = self.change(chain)
        return changed if isinstance(changed, Chain) else chain


def assert_seen(change: Change, graphs: bool) -> None:
    """After the change samples are those of the fresh chain."""
    chain = change.make()
    before = drawn(chain, graphs)
    assert same(drawn(chain, graphs), before)  # by now whatever is kept is kept
    expected = drawn(change.fresh(), graphs)
    assert not same(expected, before), "this change would not show"
    changed = change.of(chain)
    assert same(drawn(changed, graphs), expected)
    assert same(drawn(changed, not graphs), expected)
    assert not change.own or same(drawn(chain, graphs), before)


def assert_copies_apart(change: Change, graphs: bool) -> None:
    """A copy that is changed draws what is expected of it, and the original what it drew before."""
    for copied, possible in ((copy.copy, change.own), (copy.deepcopy, change.deep)):
        if possible:
            chain = change.make()
            before = drawn(chain, graphs)
            twin = copied(chain)
            assert same(drawn(twin, graphs), before)
            assert same(drawn(change.of(twin), graphs), drawn(change.fresh(), graphs))
            assert same(drawn(chain, graphs), before)


def batches_used(monkeypatch: pytest.MonkeyPatch) -> list[CapturedBatch]:
    """A list to which every captured run adds the batch that it is given."""
    used: list[CapturedBatch] = []
    begin = CapturedRun._begin_early

    def noting(run: CapturedRun, batch: CapturedBatch) -> None:
        used.append(batch)
        begin(run, batch)

    monkeypatch.setattr(CapturedRun, "_begin_early", noting)
    return used


# How to change things


def found(chain: Any, path: str) -> Any:
    """What is there under these attributes of a chain."""
    return functools.reduce(getattr, path.split("."), chain) if path else chain


def put(path: str, value: Any) -> Callable[[Any], Chain | None]:
    """Set what is there under these attributes of a chain to this value; a chain's own are another chain's."""
    owner, _, name = path.rpartition(".")
    if not owner:
        return lambda chain: chain.replace(**{name: value})
    return lambda chain: setattr(found(chain, owner), name, value)


def setting(make: Callable[..., Chain], name: str, value: Any, note: str = "") -> Change:
    """An argument of the constructor, replaced by another: as if it had been given to begin with."""
    title = f"{make.__name__}: {name}{note and ', '}{note}"
    return Change(title, make, put(name, value), lambda: make(**{name: value}), own=True)


def on(path: str, change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Change what is there under these attributes of a chain."""
    return lambda chain: change(found(chain, path))


# Tokens

LENGTH = 7
EVIDENCE = torch.tensor([0, 1, HIDDEN, HIDDEN, 1, HIDDEN, HIDDEN])
OTHER_EVIDENCE = torch.tensor([1, 1, HIDDEN, HIDDEN, 0, HIDDEN, HIDDEN])


class Spins(TokenOracle):
    """A masked model with weights and a temperature."""

    length, vocab_size = LENGTH, 2

    def __init__(self, seed: int = 0, temperature: float = 1.0) -> None:
        self.weight = 2 * normal(LENGTH, LENGTH, seed=seed)
        self.temperature = temperature

    def rows(self, tokens: Tensor) -> Tensor:
        spins = torch.where(tokens == HIDDEN, 0, 2 * tokens - 1).double()
        field = spins @ self.weight / self.temperature
        return torch.stack([-field, field], dim=-1).log_softmax(-1)


class Following(TokenOracle):
    """A model that answers in one pass, and by the order in which known tokens were drawn: it means `chain_rows`."""

    length, vocab_size, one_pass = LENGTH, 2, True

    def rows(self, tokens: Tensor) -> Tensor:
        return Spins(2).rows(tokens)

    def chain_rows(self, tokens: Tensor, rank: Tensor, row: Tensor, prefix: Tensor, position: Tensor) -> Tensor:
        last = (rank[row] == prefix[:, None] - 1).long().argmax(1)  # the position that was drawn last
        field = torch.where(prefix > 0, 3.0 * (2 * tokens[row, last] - 1), 0.0).double()
        return torch.stack([-field, field], dim=-1).log_softmax(-1)


def spins(seed: int = 0, temperature: float = 1.0, **options: Any) -> TokenChain:
    return TokenChain(Spins(seed, temperature), **options)


def token(**options: Any) -> TokenChain:
    return TokenChain(**{"oracle": Spins()} | options)


def told_tokens(**options: Any) -> TokenChain:
    def rows(tokens: Tensor, condition: Tensor) -> Tensor:
        return (condition[:, None] * Spins().rows(tokens)).log_softmax(-1)

    given: dict[str, Any] = {"oracle": rows, "length": LENGTH, "vocab_size": 2, "condition": torch.ones(1, 2).double()}
    return TokenChain(**given | options)


def function(seed: int = 0) -> TokenChain:
    return TokenChain(Spins(seed).rows, length=LENGTH, vocab_size=2)


def counting(oracle: TokenOracle | None = None) -> TokenChain:
    return TokenChain(CountingOracle(oracle or Spins()))


def noisy(temperature: float = 1.0, **options: Any) -> TokenChain:
    return TokenChain(Noisy(Spins(0, temperature), **{"error": 0.2} | options))


def text(seed: int = 0, temperature: float = 1.0, changed: Callable[[Any], Any] | None = None) -> TokenChain:
    model = tiny(5, 8, seed, temperature)
    if changed is not None:
        changed(model.network)
    return TokenChain(model)


def other_layer(network: Any) -> None:
    network.layers[0] = tiny(5, 8, 3).network.layers[0]


def other_head(network: Any) -> None:
    network.head = tiny(5, 8, 3).network.head


def other_weights(network: Any) -> None:
    network.load_state_dict(tiny(5, 8, 3).network.state_dict())


part = functools.partial
TOKENS = [
    Change("tokens: temperature", spins, put("oracle.temperature", 0.2), part(spins, temperature=0.2)),
    Change("tokens: weight", spins, put("oracle.weight", Spins(1).weight), part(spins, 1)),
    Change("tokens: in place", spins, on("oracle.weight", lambda w: w.copy_(Spins(1).weight)), part(spins, 1)),
    setting(token, "oracle", Spins(1)),
    setting(token, "order", torch.arange(LENGTH)),
    setting(token, "order", "spread", "spread"),
    setting(token, "evidence", EVIDENCE),
    setting(token, "evidence", EVIDENCE.tolist(), "a list"),
    setting(told_tokens, "condition", torch.tensor([[3.0, 0.1]], dtype=torch.float64)),
    Change(
        "tokens: evidence in place",
        lambda: spins(evidence=EVIDENCE.clone()),
        on("evidence", lambda evidence: evidence.copy_(OTHER_EVIDENCE)),
        part(spins, evidence=OTHER_EVIDENCE),
    ),
    Change("function: another", function, put("oracle.function", Spins(1).rows), part(function, 1)),
    Change("counting: temperature", counting, put("oracle.oracle.temperature", 0.2), part(spins, temperature=0.2)),
    Change("counting: another oracle", counting, put("oracle.oracle", Spins(1)), part(spins, 1)),
    Change("counting: another kind", counting, put("oracle.oracle", Following()), lambda: counting(Following())),
    Change("noisy: error", noisy, put("oracle.error", 0.4), part(noisy, error=0.4)),
    Change("noisy: seed", noisy, put("oracle.seed", 3), part(noisy, seed=3)),
    Change("noisy: toward", noisy, put("oracle.toward", 1), part(noisy, toward=1)),
    Change("noisy: temperature", noisy, put("oracle.oracle.temperature", 0.2), part(noisy, 0.2)),
    Change("text: temperature", text, put("oracle.temperature", 0.2), part(text, temperature=0.2)),
    Change("text: network", text, put("oracle.network", tiny(5, 8, 3).network), part(text, 3)),
    Change("text: in place", text, on("oracle.network", other_weights), part(text, 3)),
    Change("text: a layer", text, on("oracle.network", other_layer), part(text, changed=other_layer)),
    Change("text: the head", text, on("oracle.network", other_head), part(text, changed=other_head)),
]

# Vectors

WALK = Walk((0.5,) * 6)
DDPM = da.DDPM(betas=linear_betas(6, 0.15, 0.7))
KNOWN = torch.tensor([[torch.nan, 0.8, torch.nan]], dtype=torch.float64)
START = torch.tensor([[1.0, -2.0, 3.0]], dtype=torch.float64)


class Network(nn.Module):
    """A denoiser of vectors of three entries; it may as well be told a time."""

    def __init__(self, seed: int = 0, dropout: float = 0.0) -> None:
        super().__init__()
        self.first, self.last, self.drop = nn.Linear(3, 8), nn.Linear(8, 3), nn.Dropout(dropout)
        self.scale = 1.0
        generator = torch.Generator().manual_seed(seed)
        for weight in self.parameters():
            weight.data.copy_(torch.randn(weight.shape, generator=generator))
        self.double().eval()

    def forward(self, x: Tensor, k: Tensor) -> Tensor:
        hidden = self.drop(torch.tanh(self.first(x.double()) + 0.1 * k.view(-1, 1)))
        answer: Tensor = self.scale * self.last(hidden)
        return answer


def loaded(network: Network) -> Network:
    network.load_state_dict(Network(1).state_dict())
    return network


def assigned(network: Network) -> Network:
    network.load_state_dict(Network(1).state_dict(), assign=True)
    return network


def swapped(network: Network) -> Network:
    network.last = Network(1).last
    return network


def replaced(network: Network) -> Network:
    network.first.weight = nn.Parameter(Network(1).first.weight.detach().clone())
    return network


def moved(network: Network) -> Network:
    network.last.weight.data = 0.5 * network.last.weight.data
    return network


def added(network: Network) -> Network:
    with torch.no_grad():
        network.last.bias.add_(0.7)
    return network


def stepped(network: Network) -> Network:
    """One step of an optimiser."""
    optimiser = torch.optim.SGD(network.parameters(), lr=0.1)
    with torch.enable_grad():
        network(START, torch.zeros(1, dtype=torch.int64)).square().sum().backward()
    optimiser.step()
    return network


def merged(network: Network) -> Network:
    """A low-rank update, merged into the weights."""
    with torch.no_grad():
        network.first.weight += normal(8, 2, seed=3) @ normal(2, 3, seed=4)
    return network


def scaled(network: Network) -> Network:
    network.scale = 0.4
    return network


def hooked(network: Network) -> Network:
    network.last.register_forward_hook(lambda module, inputs, output: 0.5 * output)
    return network


REPLACED = [assigned, swapped, replaced, moved, scaled, hooked]
"""What a captured round cannot see."""
IN_PLACE = [loaded, added, stepped, merged]


def module(change: Callable[[Network], Network] | None = None, **options: Any) -> GaussianChain:
    network = Network() if change is None else change(Network())
    return GaussianChain(network, WALK, (3,), dtype=torch.float64, **options)


def gaussian(**options: Any) -> GaussianChain:
    given: dict[str, Any] = {"denoiser": lambda x, k: torch.tanh(2 * x), "schedule": DDPM, "shape": (3,)}
    return GaussianChain(**given | {"dtype": torch.float64} | options)


def epsilon(network: Network) -> GaussianChain:
    return GaussianChain(da.from_epsilon(network, DDPM), DDPM, (3,), dtype=torch.float64)


def kernels(network: Network) -> StackedChain:
    score = rtk.learned(lambda x, t: 0.1 * network(x, t) - x, (3,))
    return rtk.chain(score, rtk.ULD(0.3, 2.0, 3), rtk.Segments.even(2.0, 2, last=0.1))


def parts(model: ar.ARModel) -> StackedChain:
    return ar.chain(model, da.OUExponential.even(4, first=2.0, last=0.05), dtype=torch.float64)


def made_smaller(model: ar.ARModel) -> ar.ARModel:
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(0.7)
    return model


def other_encoder(model: ar.ARModel) -> ar.ARModel:
    model.encoder = made_smaller(awake(CONFIGS[0])).encoder
    return model


def mixture(target: GaussianMixture) -> GaussianChain:
    return GaussianChain(target, DDPM)


def other_means(target: GaussianMixture) -> GaussianMixture:
    target.means = GaussianMixture.random(3, components=4, seed=4).means
    return target


def means_in_place(target: GaussianMixture) -> GaussianMixture:
    target.means.copy_(GaussianMixture.random(3, components=4, seed=4).means)
    return target


def inside(
    name: str, model: Callable[[], Any], chain: Callable[[Any], Chain], *changes: Callable[[Any], Any]
) -> list[Change]:
    """Changes of a model that is inside a function: the one of the last chain made is changed."""
    last: list[Any] = []

    def make() -> Chain:
        last[:] = [model()]
        return chain(last[0])

    return [
        Change(
            f"{name}: {change.__name__}",
            make,
            lambda _, change=change: change(last[0]),
            lambda change=change: chain(change(model())),
            deep=False,
        )
        for change in changes
    ]


def told(condition: Tensor = START) -> GaussianChain:
    def denoiser(x: Tensor, k: Tensor, condition: Tensor) -> Tensor:
        return condition * torch.tanh(x)

    return GaussianChain(denoiser, WALK, (3,), dtype=torch.float64, condition=condition)


def counted(change: Callable[[Network], Network] | None = None) -> GaussianChain:
    network = Network() if change is None else change(Network())
    return GaussianChain(CountingDenoiser(network), WALK, (3,), dtype=torch.float64)


class Pull:
    """An oracle of lanes that has a strength."""

    def __init__(self, strength: float = 1.0) -> None:
        self.strength = strength

    def __call__(self, x: Tensor, k: Tensor) -> Tensor:
        return self.strength * torch.sin(x[:, 0] + x[:, 1])


PLAN = PLANS["refreshed"]


def lanes(strength: float = 1.0, **options: Any) -> StackedChain:
    given: dict[str, Any] = {"oracle": Pull(strength), "plan": PLAN, "shape": (2,)}
    return StackedChain(**given | {"dtype": torch.float64} | options)


VECTORS = [
    *(Change(f"module: {f.__name__}", module, on("denoiser", f), part(module, f)) for f in REPLACED + IN_PLACE),
    Change("counting: a part", counted, on("denoiser.denoiser", swapped), part(counted, swapped)),
    setting(gaussian, "denoiser", Network(1)),
    setting(gaussian, "schedule", replace(DDPM, clip=0.5), "clipped"),
    setting(gaussian, "schedule", da.DDPM(betas=linear_betas(8, 0.15, 0.7)), "longer"),
    setting(gaussian, "schedule", da.EulerAncestral((12.0, 5.0, 2.0, 1.0, 0.5, 0.2, 0.0)), "another kind"),
    setting(gaussian, "start", START[0]),
    setting(gaussian, "known", KNOWN),
    setting(gaussian, "record", (2, 4)),
    setting(gaussian, "dtype", torch.float32),
    setting(told, "condition", -START),
    Change(
        "vectors: condition in place",
        lambda: told(START.clone()),
        on("condition", lambda condition: condition["condition"].neg_()),
        part(told, -START),
    ),
    *inside("epsilon", Network, epsilon, loaded, swapped, scaled),
    *inside("kernels", Network, kernels, loaded, swapped, scaled),
    *inside("target", part(GaussianMixture.random, 3, components=4), mixture, other_means, means_in_place),
    *inside("parts", part(awake, CONFIGS[0]), parts, made_smaller, other_encoder),
    setting(lanes, "oracle", Pull(2.0)),
    setting(lanes, "oracle", BENT["refreshed"], "another kind"),
    setting(lanes, "plan", replace(PLAN, b=0.5 * PLAN.b), "b"),
    setting(lanes, "plan", replace(PLAN, a=0.5 * PLAN.a), "a"),
    setting(lanes, "plan", replace(PLAN, refresh=None), "never refreshed"),
    setting(lanes, "plan", replace(PLAN, final=torch.tensor([1.0, 0.0, 0.0])), "final"),
    setting(lanes, "start", normal(1, 3, 2, seed=1)),
    setting(lanes, "record", (2, 5)),
    Change("lanes: strength", lanes, put("oracle.strength", 2.0), part(lanes, 2.0)),
]
CHANGES = TOKENS + VECTORS
