"""Chains whose model goes through torch.compile: the same samples up to rounding, said in the report, or as it is."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import drawahead as da
from drawahead import Coupled, Sequential, TokenChain
from drawahead.chains.base import Chain
from drawahead.oracles import compiled as module
from tests.changes import Network, kernels, spins, told
from tests.changes import module as vectors
from tests.test_prefix import Bag
from training.policy_unet import PolicyUNet

COMPILE = torch.compile


def by(backend: Any) -> Callable[[Any], Any]:
    return lambda function, **options: COMPILE(function, backend=backend, **options)


KINDS: dict[str, Callable[[], Chain]] = {
    "tokens": spins,
    "one pass": lambda: TokenChain(Bag()),
    "vectors": vectors,
    "a condition": told,
    "stacked": lambda: kernels(Network()),
}


PAIRS = [(kind, graphs) for kind in KINDS for graphs in ((False, True) if kind in ("tokens", "vectors") else (True,))]


@pytest.mark.parametrize(("kind", "graphs"), PAIRS)
def test_samples_are_those_of_the_model_as_it_is(kind: str, graphs: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a backend that changes no number, so that nothing but what is done around it can differ."""
    monkeypatch.setattr(torch, "compile", by("eager"))
    chain = KINDS[kind]()
    compiled = chain.compiled()
    for sampler in (Sequential(), Coupled(3)):
        one, other = (da.sample(c, 4, sampler=sampler, seed=1, graphs=graphs, max_live=3) for c in (chain, compiled))
        assert torch.allclose(one.samples.double(), other.samples.double(), rtol=1e-9, atol=1e-9)
        assert one.report.rounds == other.report.rounds and one.report.queries == other.report.queries
        assert "compiled, which took" in other.report.choice and not one.report.choice


def graphs_compiled() -> int:
    return int(torch._dynamo.utils.counters["stats"]["unique_graphs"])


@pytest.mark.parametrize("backend", ["eager", pytest.param("inductor", marks=pytest.mark.slow)])
def test_a_network_is_really_compiled(backend: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its graph is taken once for every size of a round; what the compiler makes of it takes half a minute."""
    monkeypatch.setattr(torch, "compile", by(backend))
    chain = vectors().compiled()
    result = da.sample(chain, 3, sampler=Coupled(3), seed=1)
    expected = da.sample(vectors(), 3, sampler=Coupled(3), seed=1)
    assert (
        torch.allclose(result.samples, expected.samples, atol=1e-6) and "compiled, which took" in result.report.choice
    )
    assert chain.denoiser.seconds > 0  # type: ignore[attr-defined]
    compiled = graphs_compiled()
    for seed in range(2, 6):
        da.sample(chain, 3, sampler=Coupled(3), seed=seed)
    assert graphs_compiled() <= compiled + 1, "a size of a round that is special, perhaps; not every one"


def test_what_cannot_be_compiled_is_called_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(graph: Any, inputs: Any) -> Any:
        raise ValueError("this backend has no use for it")

    monkeypatch.setattr(torch, "compile", by(broken))
    for make in (vectors, spins):
        chain = make()
        result = da.sample(chain.compiled(), 3, sampler=Coupled(3), seed=1)
        assert torch.allclose(result.samples, da.sample(chain, 3, sampler=Coupled(3), seed=1).samples)
        assert "could not be compiled" in result.report.choice and "no use for it" in result.report.choice


def test_a_model_that_fails_says_why_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "compile", by("eager"))

    def denoiser(x: Tensor, k: Tensor) -> Tensor:
        raise RuntimeError("no answer today")

    chain = vectors().replace(denoiser=denoiser).compiled()
    with pytest.raises(da.SamplingError, match="no answer today"):
        da.sample(chain, 1, sampler=Sequential())


def test_verify_takes_a_compiled_chain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "compile", by("eager"))
    assert da.verify(spins().compiled(), 60, seed=0, samplers=[Coupled(3)]).passed


def test_memory_that_is_not_enough_is_not_the_compilers_fault() -> None:
    def hungry() -> None:
        raise torch.OutOfMemoryError("too much")

    function = module.Compiled(hungry)
    function._fast = hungry
    with pytest.raises(torch.OutOfMemoryError):
        function()
    assert not function.trouble


NETWORKS: dict[str, tuple[nn.Module, tuple[Tensor, ...]]] = {
    "over time": (PolicyUNet(2, 3, (8, 16)), (torch.randn(5, 8, 2), torch.arange(5), torch.randn(5, 3))),
    "over a plane": (nn.Sequential(nn.Conv2d(3, 8, 3), nn.ConvTranspose2d(8, 4, 2)), (torch.randn(5, 3, 8, 8),)),
}


@pytest.mark.parametrize("kind", NETWORKS)
def test_weights_that_are_laid_out_anew_keep_their_values(kind: str) -> None:
    """In convolutions channels lie side by side afterwards, as a GPU wants them."""
    network, asked = NETWORKS[kind]
    network.eval().requires_grad_(False)
    weights = {name: weight.clone() for name, weight in network.named_parameters()}
    before = network(*asked)
    module.lay_out(network)
    assert all(torch.equal(weight, weights[name]) for name, weight in network.named_parameters())
    wide = [w if w.dim() == 4 else w.unsqueeze(2) for w in network.parameters() if w.dim() > 2 and w.shape[-1] > 1]
    assert wide and all(w.stride(1) == 1 and w.is_contiguous(memory_format=torch.channels_last) for w in wide)
    torch.testing.assert_close(network(*asked), before)


def test_networks_are_found_wherever_a_function_keeps_them() -> None:
    """In what it closes over, in an object it is a method of, or that is called; each once."""
    network = nn.Linear(2, 2)

    class Held:
        def __init__(self) -> None:
            self.inner, self.again = network, self

        def __call__(self, x: Tensor) -> Tensor:
            return self.inner(x)

        def method(self, x: Tensor) -> Tensor:
            return self.inner(x)

    schedule = da.StochasticLocalization(4)
    denoisers = [da.from_epsilon(lambda x, t: network(x), schedule), da.from_velocity(network, schedule)]
    for function in (network, Held(), Held().method, functools.partial(network), *denoisers):
        assert [*module.networks(function, set())] == [network]
    assert not [*module.networks(spins().oracle, set())]


def test_a_model_that_keeps_what_its_first_call_works_out_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """For a batch of one, which compilers take to be special, and for every other."""
    monkeypatch.setattr(torch, "compile", by("eager"))
    kept: dict[str, Tensor] = {}

    def denoiser(x: Tensor, k: Tensor) -> Tensor:
        if "half" not in kept:
            kept["half"] = torch.full((), 0.5)
        return x * kept["half"]

    made = {"its own": denoiser, "a schedule's": da.from_epsilon(lambda x, t: x / 2, da.DDPM((0.1, 0.2, 0.3, 0.4)))}
    for name, function in made.items():
        compiled, before = module.Compiled(function), graphs_compiled()
        for rows in (1, 1, 2, 5, 3):
            compiled(torch.ones(rows, 3), torch.zeros(rows, dtype=torch.int64))
        assert graphs_compiled() - before == 2 and not compiled.trouble, name


def test_convolutions_over_a_plane_are_compiled_for_sizes_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each once; when there have been many, for all further ones together, but for a batch of one."""
    monkeypatch.setattr(torch, "compile", by("eager"))
    network = nn.Conv2d(1, 1, 3, padding=1).requires_grad_(False)
    compiled = module.Compiled(network)
    compiled._planar, compiled._fixed = True, torch.compile(module._alone(network), dynamic=False)  # as on a GPU
    asked = [torch.randn(rows, 1, 4, 4) for rows in (2, 5, 2, 5, 1, 3, 4, 6)]
    before = graphs_compiled()
    for x in asked:
        assert torch.equal(compiled(x), network(x))
    assert graphs_compiled() - before == 6
    for rows in (7, 9, 8, 12):
        compiled(torch.randn(rows, 1, 4, 4))
    assert graphs_compiled() - before == 7 and not compiled.trouble
