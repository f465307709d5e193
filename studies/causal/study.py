"""Left-to-right models: seconds of the shipped one, what a window costs large ones, and the fixed-point method beside.

    python -m studies causal --no-page                # measure: one GPU, about four minutes
    python -m studies causal --no-page --parts law --device cpu    # the laws alone, on any machine, in a minute
    make bench STUDY=causal OPTIONS=--page            # the sections of docs/causal.md

The sequential side is `Sequential` with the network's cache, every step one captured graph. Times are medians after a
warm-up, of `da.sample` as a user calls it.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

import drawahead as da
from drawahead.networks.emoji_tokens import GuidedPixels
from drawahead.oracles.left_to_right import LeftToRight
from drawahead.verification.statistics import chi_square
from studies.causal.jacobi import speculative_jacobi
from studies.causal.page import values
from studies.causal.shapes import SHAPES, window_costs
from studies.speed.place import Place
from studies.speed.timing import measured, said
from studies.study import DOCS, Data, Stamp, Study, Watch, data_path, read, save

PROMPTS = (
    *("red apple", "green apple", "smiling cat face", "black cat", "blue heart", "rocket", "fish", "house"),
    *("banana", "sun", "car", "dog face", "tree", "fire", "crown", "umbrella"),
)
BATCHES = (1, 4, 16)
WINDOWS = (16, 32, 64)
DRAWS, LENGTH, COLOURS = 40_000, 4, 3


def options(parser: argparse.ArgumentParser) -> None:
    """What to measure."""
    parser.add_argument("--parts", nargs="*", choices=PARTS, default=list(PARTS), help="measure these alone")
    parser.add_argument("--device", default="cuda", help="cpu: tiny stand-ins, to see that everything runs")


def measure(arguments: argparse.Namespace, watch: Watch) -> Data:
    """Part by part, saved after each; others stay as they were recorded."""
    stamp, path, place = Stamp(arguments), data_path(arguments.out, "causal"), Place(arguments.device)
    known = next((file for file in (path, data_path(DOCS, "causal")) if file.exists()), None)
    results: Data = {} if known is None else read(known)
    for i, name in enumerate(arguments.parts):
        watch(name, i, len(arguments.parts))
        results[name] = PARTS[name](place) | {"gpu": place.name()}
        save(results | stamp.made(), path)
        place.forget()
    return results | stamp.made()


def chain_of(place: Place, batch: int, guess: da.FirstGuess | None = None) -> da.CausalChain:
    """The shipped model, a prompt for each sample; on a CPU its first few pixels."""
    prompts = list(PROMPTS[:batch])
    chain = da.networks.emoji_tokens(prompts, first_guess=guess, device=place.device, dtype=place.half)
    return chain if place.real else chain.replace(max_length=8)


def shipped(place: Place) -> Data:
    """Rounds and seconds at every batch, as it is and compiled."""
    rows: list[Data] = []
    for batch in BATCHES if place.real else BATCHES[:2]:
        for compiled in (False, True) if place.real else (False,):
            chain = chain_of(place, batch)
            chain = chain.compiled() if compiled else chain
            samplers: list[da.Sampler | None] = [da.Sequential(), *map(da.Coupled, WINDOWS), None]
            for sampler in samplers:
                seeds = place.seeds[: 2 if isinstance(sampler, da.Sequential) else 4]
                row = measured(place, chain, sampler, batch, seeds)
                said("emoji-tokens, compiled" if compiled else "emoji-tokens", row)
                rows.append({"batch": batch, "compiled": compiled, "window": getattr(sampler, "window", None)} | row)
            place.forget()
    return {"rows": rows, "steps": chain_of(place, 1).steps}


def guesses(place: Place) -> Data:
    """Rounds of the shipped model by first guess and window."""
    batch = 16 if place.real else 2
    kinds = {"above": da.Above(32), "last answer": da.LastAnswer(), "uniform": da.Uniform()}
    found: Data = {}
    for name, guess in kinds.items():
        chain = chain_of(place, batch, guess)
        for window in WINDOWS:
            report = da.sample(chain, batch, sampler=da.Coupled(window), seed=100, **place.options).report
            found.setdefault(name, {})[str(window)] = report.mean_rounds
            print(name, window, report.mean_rounds, flush=True)
    return {"rounds": found}


def shapes(place: Place) -> Data:
    """Milliseconds of a window by the size of the network."""
    found = {}
    for name in SHAPES:
        found[name] = window_costs(place, name)
        print(name, found[name], flush=True)
        place.forget()
    return {"shapes": found}


def jacobi(place: Place) -> Data:
    """Rounds of the fixed-point method with resampling on the shipped model, beside ours on the same prompts."""
    batch = 8 if place.real else 2
    chain = chain_of(place, batch)
    oracle = chain.oracle
    assert isinstance(oracle, LeftToRight) and isinstance(oracle.model, GuidedPixels)
    model = oracle.model

    def ask(tokens: Tensor) -> Tensor:
        return model.rows(tokens, 0)

    found: Data = {}
    for window in WINDOWS:
        generator = torch.Generator(place.device).manual_seed(window)
        prompt = chain.prompt.to(place.device)
        _, passes = speculative_jacobi(ask, prompt, chain.steps, window, generator, stride=32)
        ours = da.sample(chain, batch, sampler=da.Coupled(window), seed=100, **place.options).report.mean_rounds
        found[str(window)] = {"resampled": float(passes.double().mean()), "coupled": ours}
        print(window, found[str(window)], flush=True)
    return {"rounds": found}


class Fading:
    """A left-to-right law on a few colours in which every token before counts, less with distance."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(0)
        self.table, self.out = (
            torch.randn(shape, generator=generator, dtype=torch.float64) for shape in ((COLOURS + 1, 6), (6, COLOURS))
        )

    def __call__(self, tokens: Tensor) -> Tensor:
        place = torch.arange(tokens.shape[1])
        distance = place[:, None] - place
        weight = torch.where(distance >= 0, torch.exp(-distance.double() / 2), 0.0)
        return (2 * torch.tanh(weight @ self.table[tokens]) @ self.out).log_softmax(-1)


def law(place: Place) -> Data:
    """Whether short sequences have their law, by enumeration: the method, a version without resampling, and ours."""
    model = Fading()
    prompt = torch.full((DRAWS, 1), COLOURS)
    atoms = torch.cartesian_prod(*[torch.arange(COLOURS)] * LENGTH)
    laws = model(torch.cat([prompt[: len(atoms)], atoms], dim=1))[:, :LENGTH]
    exact = laws.gather(2, atoms[..., None])[..., 0].sum(1).exp()

    def p_value(samples: Tensor) -> float:
        index = (samples * COLOURS ** torch.arange(LENGTH - 1, -1, -1)).sum(1)
        return float(chi_square(torch.bincount(index, minlength=len(atoms)), exact))

    def drawn(resample: bool) -> Tensor:
        generator = torch.Generator().manual_seed(1)
        return speculative_jacobi(model, prompt, LENGTH, 3, generator, resample=resample)[0]

    chain = da.CausalChain(model, vocab_size=COLOURS, max_length=LENGTH, prompt=[COLOURS])
    ours = da.sample(chain, DRAWS, sampler=da.Coupled(3), seed=1, max_live=DRAWS).samples
    found = {"resampled": p_value(drawn(True)), "kept": p_value(drawn(False)), "coupled": p_value(ours)}
    print(found, flush=True)
    return {"p": found, "draws": DRAWS, "length": LENGTH, "colours": COLOURS}


PARTS: dict[str, Callable[[Place], Any]] = {
    "law": law,
    "shipped": shipped,
    "guesses": guesses,
    "shapes": shapes,
    "jacobi": jacobi,
}

STUDY = Study("causal", measure, values, {}, options=options)
