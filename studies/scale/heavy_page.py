"""The part of docs/scale.md on a heavy network: its curve, what follows from it, and a simulation beside that."""

from __future__ import annotations

from studies.scale.curve import Best, Curve, Network
from studies.scale.sizing import Row, image_windows, images, replicas_overhead
from studies.tables import table

GPUS = (2, 4, 8)
SAMPLES = (1, 8, 16, 64)
SHOWN = (1, 2, 4, 8, 16, 32, 64)  # of the states that were measured
FEW, FULL = 8, 32  # states that one GPU answers at little cost, and that fill it


def network_values(found: Row, gpu: Row, speed: Row, heavy: Row) -> dict[str, str]:
    """What the section `network` says."""
    steps = round(speed["fashion"]["sequential"]["mean_rounds"])
    network = Network(Curve.of(heavy), steps, image_windows(speed), replicas_overhead(found))
    uncaptured = images(speed, gpu).uncaptured
    return {
        "network_gpu": heavy["machine"],
        "network_millions": f"{heavy['parameters'] / 1e6:.0f}",
        "curve": _curve(network.curve),
        "few_states": str(FEW),
        "few_cost": f"{network.curve.times(FEW):.1f}",
        "half_full": str(FULL),
        "full_cost": f"{network.curve.times(2 * FULL, FULL):.1f}",
        "most_measured": str(network.curve.points[-1][0]),
        "windows": f"{network.windows[0][0] - 1} to {network.windows[-1][0] - 1}",
        "replica_ms": f"{network.overhead.slope * 1e3:.2f}",
        "network_u_ms": f"{uncaptured * 1e3:.0f}",
        "two_replicas_ms": f"{gpu['fashion'][0]['replicas']['ms']:.0f}",
        "engine_ms": f"{gpu['fashion'][0]['local']['ms']:.0f}",
        "network_shares": _shares(network, uncaptured),
        **_one_gpu(network),
        **_simulated(network, heavy["simulated"]),
    }


def _curve(curve: Curve) -> str:
    rows = [
        [str(n), f"{curve(n) * 1e3:.1f}", f"{curve(n) / n * 1e3:.2f}", f"{curve.times(n):.1f}"]
        for n, _ in curve.points
        if n in SHOWN
    ]
    return table(["states in a pass", "ms", "ms per state", "passes of one"], rows, right=False)


def _one_gpu(network: Network) -> dict[str, str]:
    """Where one GPU gains and where it loses."""
    few, even, many = SAMPLES[0], *SAMPLES[-2:]
    one, loses = network.coupled(few, 1), network.coupled(many, 1)
    least = min(items * rounds for items, rounds in network.windows) / network.steps
    assert one.seconds < network.sequential(few) and loses.seconds > network.sequential(many) and least > 1
    assert abs(network.coupled(even, 1).seconds / network.sequential(even) - 1) < 0.1
    return {
        "one_window": str(one.items - 1),
        "one_states": str(one.items),
        "one_rounds": f"{one.rounds:.0f}",
        "one_costs": f"{network.curve.times(one.items):.1f}",
        "one_may_cost": f"{network.steps / one.rounds:.1f}",
        "one_gain": f"{network.sequential(few) / one.seconds:.1f}",
        "even_samples": str(even),
        "many_samples": str(many),
        "many_states": str(many * loses.items),
        "many_costs": f"{network.curve.times(many * loses.items, many):.1f}",
        "many_may_cost": f"{network.steps / loses.rounds:.1f}",
        "least_work": f"{least:.2f}",
    }


def _shares(network: Network, uncaptured: float) -> str:
    """What the list below the table says is checked here."""
    limit, one, two, most = (
        network.coupled(1, gpus, more).seconds
        for gpus, more in ((GPUS[-1], 0.0), (1, 0.0), (GPUS[0], uncaptured), (GPUS[-1], uncaptured))
    )
    assert limit < (limit + one) / 2 < most < one < two
    rows = []
    for samples in SAMPLES:
        whole = [f"{network.sequential(samples):.2f}", _cell(network.coupled(samples, 1))]
        shared = f"{network.by_samples(samples, GPUS[-1]):.2f}"
        apart = [(network.by_samples(samples, gpus), network.coupled(samples, gpus).seconds) for gpus in GPUS]
        assert samples == 1 or all(by_samples < by_rounds for by_samples, by_rounds in apart)
        rows += [
            [str(samples), words, *whole, *(_cell(network.coupled(samples, gpus, more)) for gpus in GPUS), shared]
            for words, more in (("o(W)", 0.0), ("o(W) + u", uncaptured))
        ]
    heading = ["samples", "several GPUs add", "Sequential, 1 GPU", "Coupled, 1 GPU", *(f"{gpus} GPUs" for gpus in GPUS)]
    return table([*heading, f"samples shared, {GPUS[-1]} GPUs"], rows, right=False)


def _cell(best: Best) -> str:
    return f"{best.seconds:.2f} ({best.items - 1})"


def _simulated(network: Network, found: Row) -> dict[str, str]:
    rows, late = [], []
    for row in found["rows"]:
        states = row["samples"] * (row["window"] + 1)
        predicted = row["rounds"] * network.shared_round(states, row["replicas"])
        late.append((row["executor_seconds"] - predicted) / row["rounds"])
        rows.append(
            [
                str(row["samples"]),
                f"`Coupled({row['window']})`" if row["window"] else "`Sequential()`",
                str(row["replicas"]),
                str(row["rounds"]),
                f"{predicted:.2f}",
                f"{row['executor_seconds']:.2f}",
                f"{row['seconds']:.2f}",
            ]
        )
    heading = ["samples", "sampler", "replicas", "rounds", "predicted, s", "in the executor, s", "whole run, s"]
    return {
        "simulated": table(heading, rows, right=False),
        "late_ms": f"{max(late) * 1e3:.1f}",
        "simulated_cores": str(found["cores"]),
        "simulated_repeats": str(found["repeats"]),
        "simulated_load": f"{found['load_before']:.1f}",
        "simulated_load_after": f"{found['load_after']:.1f}",
    }
