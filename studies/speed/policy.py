"""A robot policy of 65 million parameters, call after call: how long a call takes, and what spreads it.

The network is trained for a quarter of a minute on made-up pushes, from a hand's place to a goal by the left or by the
right: how many rounds a chunk takes depends on what has been learnt.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import drawahead as da
from studies.policies import ENTRIES, HORIZON, SIZES, STEPS, TOLD, Policy
from studies.speed.place import Place
from studies.speed.timing import Row
from studies.speed.watching import RoundTimes, watched
from studies.study import Data
from training.policy_unet import PolicyUNet

CALLS, SECONDS, BATCH = 2000, 50.0, 256


def observations(number: int, place: Place) -> Tensor:
    base = torch.rand(number, TOLD // 2, device=place.device) * 2 - 1
    return torch.cat([base, base + 0.02 * torch.randn_like(base)], 1)


def chunks(told: Tensor) -> Tensor:
    """What was shown, for observations (m, TOLD)."""
    t = torch.linspace(0, 1, HORIZON, device=told.device)[None, :, None]
    here, goal = told[:, None, :ENTRIES], told[:, None, ENTRIES : 2 * ENTRIES]
    side = torch.randint(0, 2, (len(told), 1, 1), device=told.device) * 2.0 - 1
    around = torch.tensor([1.0, -1.0, 0.5, 0.0], device=told.device)
    bend = side * (0.3 + 0.2 * told[:, None, 8:9]) * torch.sin(math.pi * t) * around
    clean = (here + (goal - here) * t) * 0.6 + bend
    return (clean + 0.01 * torch.randn_like(clean)).clamp(-1, 1)


def trained(place: Place, seconds: float) -> Policy:
    """Noise prediction for so many seconds; weights are averaged over the last steps."""
    torch.manual_seed(0)
    policy = Policy(PolicyUNet(ENTRIES, TOLD, SIZES["65m" if place.real else "tiny"]).to(place.device))
    weights: list[Tensor] = [*policy.unet.parameters()]
    averages = [weight.detach().clone() for weight in weights]
    scheduler: Any = policy.noise_scheduler
    levels = scheduler.alphas_cumprod.to(place.device)
    optimizer = torch.optim.AdamW(weights, lr=0.0, weight_decay=1e-6)
    began, steps = time.perf_counter(), 0
    while (progress := (time.perf_counter() - began) / seconds) < 1 or not steps:
        optimizer.param_groups[0]["lr"] = (
            3e-4 * min(1, (steps + 1) / 100) * (0.02 + 0.98 * math.cos(math.pi * progress / 2) ** 2)
        )
        told = observations(BATCH, place)
        clean, moment = chunks(told), torch.randint(STEPS, (BATCH,), device=place.device)
        noise, level = torch.randn_like(clean), levels[moment][:, None, None]
        with torch.autocast(torch.device(place.device).type, torch.bfloat16):
            answer = policy.unet(level.sqrt() * clean + (1 - level).sqrt() * noise, moment, told)
        loss = (answer.float() - noise).square().mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(weights, 1.0)
        optimizer.step()
        with torch.no_grad():
            torch._foreach_lerp_(averages, weights, 1 - min(0.995, (steps + 1) / (steps + 10)))
        steps += 1
        if steps % 50 == 0:
            place.synchronize()  # so that the clock is not far ahead of the device
    with torch.no_grad():
        for weight, average in zip(weights, averages, strict=True):
            weight.copy_(average)
    policy.unet.eval().requires_grad_(False)
    return policy


def calls(place: Place, policy: Policy, sampler: da.Sampler, *, compiled: bool, most: int = CALLS) -> Row:
    """Latencies over as many calls, after a few; and of some of them, beside their rounds alone."""
    told, graphs = observations(BATCH, place), None if place.real else True
    seconds: list[float] = []
    rounds: list[int] = []
    sums: list[float] = []  # of the rounds alone, each call's own
    with da.adapters.accelerate(policy, sampler=sampler, seed=0, graphs=graphs, compile=compiled) as fast:

        def call(number: int) -> float:
            began = place.now()
            policy.conditional_sample(1, global_cond=told[number % BATCH][None]).cpu()
            return time.perf_counter() - began

        for i in range(4):
            call(i)
        until = time.perf_counter() + SECONDS
        replayed = []
        while len(seconds) < most and time.perf_counter() < until:
            with watched() as found:
                seconds.append(call(len(seconds)))
            replayed.append(found.rounds)
            rounds.append(fast.report.rounds if fast.report else 0)
        alone = RoundTimes(place)
        sums = [alone(one) for one in replayed]
    row: Row = {"calls": len(seconds), "mean_rounds": statistics.fmean(rounds)}
    row["ratio"] = statistics.median(spent / sum_ for spent, sum_ in zip(seconds, sums, strict=True))
    for part, values, unit in (("", seconds, 1e3), ("_rounds", rounds, 1.0), ("_alone", sums, 1e3)):
        for share in (50, 95, 99):
            row[f"p{share}{part}"] = unit * float(np.quantile(values, share / 100))
    return row


def policies(results: Data, place: Place, keep: Callable[[], None]) -> None:
    """One by one, ahead, and compiled."""
    torch.set_float32_matmul_precision("high")  # for everyone, as LeRobot evaluates, and kernels by trial
    tuned, torch.backends.cudnn.benchmark = torch.backends.cudnn.benchmark, True
    policy, ahead = trained(place, 16.0 if place.real else 0.1), da.Coupled(window=STEPS - 1)
    try:
        found = results["policy"] = {"one by one": calls(place, policy, da.Sequential(), compiled=False, most=8)}
        found["drawahead"] = calls(place, policy, ahead, compiled=False, most=CALLS if place.real else 3)
        print("policy", found, flush=True)
        keep()
        if place.real:
            found["drawahead, compiled"] = calls(place, policy, ahead, compiled=True, most=500)
            print("policy, compiled", found["drawahead, compiled"], flush=True)
    finally:
        torch.backends.cudnn.benchmark = tuned
