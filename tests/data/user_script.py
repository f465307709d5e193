# ruff: noqa: T201
"""A user's script, checked by type checkers in their strict mode, and never run: every door that people use first."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

import drawahead as da
from drawahead.targets import Ising


class Mine(da.TokenOracle):
    """A model of one's own."""

    length, vocab_size = 8, 4

    def rows(self, tokens: Tensor) -> Tensor:
        return torch.zeros(*tokens.shape, self.vocab_size).log_softmax(-1)


def tokens() -> Tensor:
    result = da.sample(Mine(), 4, sampler="coupled", seed=0)
    again: da.Result = da.sample(da.TokenChain(Mine(), order="spread"), 4, sampler=da.Block(window=4))
    report: da.Report = result.report
    rounds: float = report.mean_rounds
    text: str = f"{report.sampler}: {rounds} of {report.steps}, {again.complete}"
    print(text)
    return result.samples


def diffusion(network: nn.Module) -> Tensor:
    def epsilon(x: Tensor, t: Tensor) -> Tensor:
        answer: Tensor = network(x, t)
        return answer

    chain = da.GaussianChain(da.from_epsilon(epsilon, da.DDPM()), da.DDPM(), shape=(1, 8, 8))
    briefly = da.from_velocity(lambda x, t: epsilon(x.flip(0), t.flip(0)), da.DDPM())  # x and t are known as tensors
    print(briefly)
    try:
        return da.sample(chain, 2, executor=da.Local(max_batch_size=64)).samples
    except da.Interrupted as stopped:
        return stopped.result.samples
    except da.SamplingError as failed:
        return failed.result.samples


def language(model: nn.Module, tokenizer: object) -> list[str]:
    lm = da.adapters.MaskedLM(model, tokenizer, temperature=0.9, top_p=0.95)
    chain: da.TokenChain = lm.chain("The [MASK] sat on the [MASK].", order="left-to-right")
    texts: list[str] = lm.text(da.sample(chain, 10).samples)
    return texts


def protein(weights: Path, structure: Path) -> None:
    model = da.adapters.ProteinMPNN(weights, structure, temperature=0.2)
    designs = model.design(8, fixed=["A10"], sampler="coupled")
    print(designs)


def images() -> None:
    pipe = da.adapters.DrawaheadPipeline.from_pretrained("folder")
    print(pipe(batch_size=2).report)


def robot(model: nn.Module, observation: dict[str, Tensor]) -> None:
    twin = da.adapters.policy(model, deadline_ms=20.0, seed=0)
    action: Tensor = twin.select_action(observation)
    with da.adapters.accelerate(model, sampler="coupled") as fast:
        print(action, fast.report, fast.latency)


def report(result: da.Result, folder: Path) -> str:
    result.report.plot(folder / "report.png")
    page: str = result.report.to_html()
    steps: int = result.report.to_dict()["steps"]
    return f"{page}{steps}{result.report.queries_per_sample:.1f}"


def job(folder: Path) -> int:
    drawn = da.jobs.draw(folder, Ising(4, 4), 100, name="mine", sampler="coupled", resume=True)
    parts: list[Tensor] = list(drawn.parts())
    page: str = da.show.job_page(drawn)
    return len(parts) + len(page)


def check() -> bool:
    verdict: da.Verdict = da.verify(Mine(), 300, samplers=["coupled", da.Block()])
    print([finding.passed for finding in verdict.findings])
    return verdict.passed


def others() -> None:
    tree = da.targets.named("tree", 15)
    da.sample(da.tilings.dominoes("aztec", 4), sampler=da.Separated())
    da.sample(da.networks.text(20), 2)
    da.sample(tree, 2)
    with da.Runner(tree, da.tune(tree, 2)) as runner:
        runner.sample(2, seed=0)
        runner.recapture()
