"""Seconds of the shipped networks by every sampler, window and batch.

The sequential side is the best we know how to make: every step one captured graph, network and all, no step waits for
the CPU, in the fastest of the memory layouts that were tried. Times are medians after a warm-up, of `da.sample` as a
user calls it: noise, copies and the last transfer to the CPU included.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import Any

import drawahead as da
from studies.estimates import mean
from studies.speed.place import Place
from studies.speed.watching import RoundTimes, watched

WINDOWS = (64, 96, 128, 192, 256)
TEXT_WINDOWS = (None, 32, 64, 128)
TEXT_BATCHES = (1, 4, 16, 64, 256)
FASHION_BATCHES = (1, 4, 16, 64, 256, 512)
BY_HAND = 64  # samples together up to which a window is tried by hand: of more a round takes a quarter of a second
WARM_UP = 99
Row = dict[str, Any]


class After:
    """Stops a call when it has been looked at so often."""

    def __init__(self, looks: int) -> None:
        self.looks = looks

    def is_set(self) -> bool:
        self.looks -= 1
        return self.looks < 0


def measured(
    place: Place,
    target: Any,
    sampler: da.Sampler | None,
    num: int,
    seeds: Sequence[int],
    *,
    warm_ups: int = 2,
    alone: bool = False,
    **options: Any,
) -> Row:
    """Draw `num` samples for each seed. -> median seconds, and what the reports counted.

    `alone`: also the seconds of the captured rounds by themselves, see `watching`.
    """
    options = place.options | options

    def draw(seed: int, **more: Any) -> da.Result:
        return da.sample(target, num, sampler=sampler, seed=seed, **options, **more)

    began = place.now()
    for i in range(warm_ups):  # all rounds of `Sequential` are alike: a few are enough
        draw(WARM_UP - i, **({"stop": After(6)} if isinstance(sampler, da.Sequential) else {}))
    warm_up = place.now() - began
    seconds, reports, rounds, captures = [], [], [], 0
    for seed in seeds:
        with watched() as found:
            began = place.now()
            reports.append(draw(seed).report)
            seconds.append(place.now() - began)
        captures += found.captures
        rounds.append(found.rounds[-reports[-1].rounds :])  # without those that `Auto` may have timed before
    taken = mean(r for report in reports for r in report.sample_rounds)
    row = {
        "sampler": reports[-1].sampler,
        "choice": reports[-1].choice,
        "num_samples": num,
        "runs": len(seconds),
        "seconds": statistics.median(seconds),
        "all_seconds": seconds,
        "warm_up_seconds": warm_up,
        "mean_rounds": taken.value,
        "rounds_standard_error": taken.error,
        "batch_rounds": statistics.fmean(report.rounds for report in reports),
        "queries_per_sample": statistics.fmean(report.queries_per_sample for report in reports),
        "captured": all(rounds),
        "captures": captures,
    }
    if alone and all(rounds):
        times = RoundTimes(place)
        sums = [times(one) for one in rounds]
        row["rounds_alone_seconds"] = statistics.median(sums)
        row["beside_rounds_alone"] = statistics.median(s / a for s, a in zip(seconds, sums, strict=True))
    return row


def said(name: str, row: Row) -> None:
    """Print a row."""
    words = [name, row["sampler"], f"{row['seconds'] * 1e3:.1f} ms, {row['mean_rounds']:.1f} rounds"]
    words += [f"{row['seconds'] / row['batch_rounds'] * 1e3:.2f} ms per round, warm-up {row['warm_up_seconds']:.2f} s"]
    if "beside_rounds_alone" in row:
        words.append(f"{row['beside_rounds_alone']:.2f} times its captured rounds alone")
    words += [] if row["captured"] else ["NOT CAPTURED"]
    words += [f"{row['captures']} captures while it was timed"] if row["captures"] else []
    print("; ".join(words), row["choice"], flush=True)


def one_sample(
    results: dict[str, Any],
    place: Place,
    name: str,
    windows: Sequence[int | None],
    others: Sequence[da.Sampler],
    save: Callable[[], None],
) -> None:
    """Batch 1: sequential, hand-tuned windows, the other samplers as they come, Auto."""
    target = place.make(name)
    here = results.setdefault(name, {})

    def row(sampler: da.Sampler | None, seeds: Sequence[int] = place.seeds, **options: Any) -> Row:
        found = measured(place, target, sampler, 1, seeds, alone=True, **options)
        said(name, found)
        return found

    here["sequential"] = row(da.Sequential(), place.seeds[:4])
    here["coupled"] = [{"window": w} | row(da.Coupled(w)) for w in windows]
    save()
    here["auto"] = row(None, warm_ups=3)
    here["others"] = {}
    for sampler in others:
        here["others"][f"{type(sampler).__name__}()"] = row(sampler)
        save()


def many_samples(
    results: dict[str, Any],
    place: Place,
    name: str,
    batches: Sequence[int],
    window: int | None,
    save: Callable[[], None],
) -> None:
    """From which batch on speculation stops paying. Saved after every batch: the last ones take long."""
    target = place.make(name)
    rows: list[Row] = []
    for batch in batches:
        row: Row = {"batch": batch}
        ways = {"sequential": da.Sequential(), "auto": None}
        ways |= {"coupled": da.Coupled(window)} if batch <= BY_HAND else {}
        for key, sampler in ways.items():
            row[key] = measured(place, target, sampler, batch, place.seeds[:1], warm_ups=1)
        rows.append(row)
        print(name, batch, {key: round(row[key]["seconds"], 4) for key in ways}, row["auto"]["choice"], flush=True)
        results.setdefault(name, {})["batches"] = rows
        save()


def spread(place: Place) -> Row:
    """A text in the order "spread"."""
    return measured(place, da.TokenChain(place.text(), order="spread"), da.Coupled(), 1, place.seeds)
