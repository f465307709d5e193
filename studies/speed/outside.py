"""A captured round beside the model alone: what the sampler adds. This one looks inside the library."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import torch

import drawahead as da
from studies.speed.place import Place
from studies.speed.watching import on_average, replaying, watched


def outside(place: Place, kind: str, window: int | None) -> dict[str, float]:
    """The round that a call with this window replays most often among its widest, at batch 1, and how long the host
    waits for it; beside it the model alone on the same batch."""
    target = place.make(kind)
    sampler = da.Sequential() if window == 0 else da.Coupled(window)
    with watched() as found:
        da.sample(target, 1, sampler=sampler, seed=99, **place.options)
    widest = max(shape.window for _, _, shape in found.rounds)
    shape = Counter(shape for _, _, shape in found.rounds if shape.window == widest).most_common(1)[0][0]
    batch, chain, _ = next(one for one in found.rounds if one[2] == shape)
    with replaying(batch, chain, shape) as replay:

        def one_round() -> None:
            replay()
            batch._status.tolist()  # what is read back after a round

        waited = on_average(place, one_round)
        if isinstance(chain, da.GaussianChain):
            x = torch.randn(widest + 1, *chain.shape, device=place.device, dtype=chain.dtype)
            k = torch.arange(widest + 1, device=place.device).clamp(max=chain.steps - 1)
            model = _alone(place, lambda: chain.denoiser(x, k))
        else:
            state, asked = batch._state, min(widest + 1 + shape.beyond, target.length)
            spot = torch.arange(asked, device=place.device)[None]
            model = _alone(place, lambda: target.path_rows(state["tokens"], state["rank"], spot, spot))
    return {"window": widest, "round": waited, "model": model, "share_outside": 1 - model / waited}


def _alone(place: Place, work: Callable[[], Any]) -> float:
    """Seconds of `work`, captured where there is a GPU."""
    if not place.real:
        return on_average(place, work)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            work()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return on_average(place, graph.replay)
