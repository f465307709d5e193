"""A captured round beside the model alone: what the sampler adds. This one looks inside the library."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

import drawahead as da
from drawahead.chains.base import Tally
from drawahead.fixed import fixed_batch


def outside(target: Any, window: int) -> dict[str, float]:
    """A captured round at batch 1 beside the model alone on the same batch, and how long the host waits for it."""
    chain = target if isinstance(target, da.GaussianChain) else da.TokenChain(target)
    batch = fixed_batch(chain, 1, torch.arange(1), window, True)
    whole = window >= chain.steps - 1
    for _ in range(2):
        batch.load(chain.start(1, torch.arange(1), Tally()))
        batch.round(0, window)
        batch.round(window, 0 if whole else window)
    graph = batch.graphs[window, 0 if whole else window]

    def one_round() -> None:
        graph.replay()
        batch.paths.position.fill_(1)  # or soon nothing would be left to draw
        batch.standing()

    waited = on_average(one_round)
    if isinstance(target, da.GaussianChain):
        x = torch.randn(window + 1, *target.shape, device="cuda", dtype=target.dtype)
        k = torch.arange(window + 1, device="cuda")
        model = replayed(lambda: target.denoiser(x, k))
    else:
        own = batch.paths
        place = torch.arange(target.length, device="cuda")[None, : window + 1]
        model = replayed(lambda: target.path_rows(own.tokens, own.rank, place, place))
    return {"window": window, "round": waited, "model": model, "share_outside": 1 - model / waited}


def replayed(work: Callable[[], Any]) -> float:
    """Seconds of one replay of `work`, captured."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            work()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    graph.replay()
    return on_average(graph.replay)


def on_average(work: Callable[[], Any], times: int = 30, repeats: int = 5) -> float:
    """Seconds that `work` takes when it is done again and again: the median of a few averages."""
    averages = []
    for _ in range(repeats):
        torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(times):
            work()
        torch.cuda.synchronize()
        averages.append((time.perf_counter() - began) / times)
    return statistics.median(averages)
