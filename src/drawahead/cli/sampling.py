"""`drawahead sample`: to the terminal, to a file (.npz, .json, .png for images, .txt for texts), or as a job into a
folder."""

from __future__ import annotations

import json as json_format
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import drawahead
from drawahead.cli import options
from drawahead.cli.building import apart, check_room
from drawahead.cli.registry import is_own, known_as, named, sampler_named, setup
from drawahead.cli.saying import INTERRUPTED, Stopped, say, say_json
from drawahead.cli.subjects import Subject, TargetOptions
from drawahead.errors import InputError, Interrupted, SamplingError
from drawahead.words import counted

if TYPE_CHECKING:
    from drawahead.sample import Result

FORMATS = {".npz": "", ".json": "", ".png": "images", ".txt": "texts"}
"""How a file's name may end, and which samples it is for, if not for all."""


def sample(
    target: options.Target,
    num: options.Num = None,
    size: options.Size = None,
    seed: options.Seed = None,
    order: options.Order = None,
    prompt: options.Prompt = None,
    guidance: options.Guidance = None,
    temperature: options.Temperature = None,
    steps: options.Steps = None,
    graph: options.Graph = None,
    kernel: options.Kernel = None,
    items: options.Items = None,
    coupling: options.Coupling = None,
    sampler: options.Sampler = None,
    window: options.Window = None,
    device: options.Device = None,
    dtype: options.Dtype = None,
    compile: options.Compile = False,  # noqa: A002
    max_batch_size: options.MaxBatchSize = None,
    out: options.Out = None,
    resume: options.Resume = False,
    shard_size: options.ShardSize = None,
    any_version: options.AnyVersion = False,
    workers: options.Workers = None,
    address: options.Address = None,
    gpus_per_worker: options.GpusPerWorker = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Draw samples from a target or a shipped network, and show what they cost."""
    from drawahead.show.views import VectorView

    target = known_as(target)
    prompts = prompt[0] if prompt and len(prompt) == 1 else prompt or None
    special = (guidance, graph, kernel, items, coupling, compile or None)
    target_options = TargetOptions(size, order, prompts, temperature, steps, device, dtype, *special)
    chosen = sampler_named(sampler, window)
    if out is not None and is_folder(out):
        from drawahead.jobs.commands import drawing

        cluster = drawing.workers_named(workers, address, gpus_per_worker)
        settings = {"max_batch_size": max_batch_size, "shard_size": shard_size, "any_version": any_version}
        asked = (num, seed, chosen, resume, cluster, settings)
        drawing.run(target, target_options, out, *asked, json=json, quiet=quiet)
        return
    only = {"resume": resume, "shard-size": shard_size, "any-version": any_version, "workers": workers}
    for option, given in {**only, "address": address, "gpus-per-worker": gpus_per_worker}.items():
        if given:
            raise InputError(f"--{option} is for a folder of shards: give one with --out, a name without an ending")
    subject = named(target, target_options)
    num = num or subject.num
    subject = subject.of(num)
    if (
        isinstance(subject.view, VectorView)
        and ".png" in subject.view.formats
        and out is None
        and not (quiet or json or is_own(target))
    ):
        out = Path(f"{subject.name}.png")
    if out is not None:
        check(out, subject)
    if subject.remark and not (quiet or json):
        say(*subject.remark.splitlines())
    check_room(subject.chain, num, "ask for fewer, or write them into a folder, shard by shard: --out DIR")
    stop = threading.Event()
    try:
        result = apart(
            lambda: drawahead.sample(
                subject.chain,
                num,
                sampler=chosen or subject.sampler,
                seed=seed or 0,
                max_batch_size=max_batch_size,
                progress=not quiet,
                stop=stop,
            ),
            stop,
        )
    except (Interrupted, SamplingError) as stopped:
        if not len(stopped.result.samples):
            raise
        status, why = (INTERRUPTED, "interrupted") if isinstance(stopped, Interrupted) else (1, stopped.__cause__)
        result = stopped.result
    else:
        status, why = (0, None) if result.complete else (INTERRUPTED, "interrupted")
    done = len(result.samples)
    if status and not done:
        raise Stopped(str(why), status)
    _show(subject, result, out, json=json, quiet=quiet)
    if status:
        raise Stopped(f"{why}; the {done} of {counted(num, 'sample')} that were finished are kept", status)


def is_folder(path: Path) -> bool:
    """Whether samples are to be written into a folder, as a job: it is one, or its name has no ending."""
    return path.is_dir() or not path.suffix


def check(path: Path, subject: Subject) -> None:
    """Refuse, before anything is drawn, a file that cannot be written."""
    if path.suffix not in FORMATS:
        raise InputError(
            f"--out must end in {', '.join(FORMATS)}, or be a folder, whose name has no ending; not {path.name!r}"
        )
    if path.suffix not in subject.view.formats:
        raise InputError(
            f"--out {path.name!r}: the samples of {subject.name} are not {FORMATS[path.suffix]}; "
            f"write {' or '.join(subject.view.formats)}"
        )
    if path.suffix == ".png":
        from drawahead.show import plots

        plots.check()
    if not path.absolute().parent.is_dir():
        raise InputError(f"--out {path}: there is no folder {path.parent}")


def to_dict(subject: Subject, result: Result) -> dict[str, Any]:
    """Samples and report as plain values, ready for json_format.dumps."""
    return {
        "target": subject.name,
        "complete": result.complete,
        "numbers": result.numbers.tolist(),
        "samples": subject.view.plain(result.samples),
        "report": result.report.to_dict(),
        "setup_seconds": subject.setup_seconds,
    }


def write(path: Path, subject: Subject, result: Result) -> None:
    """Write in the format that the file's name asks for; a picture or a text file holds the samples alone."""
    if path.suffix == ".png":
        subject.view.draw(result.samples, path)
    elif path.suffix == ".txt":
        path.write_text("".join(f"{subject.view.line(values)}\n" for values in result.samples))
    elif path.suffix == ".json":
        path.write_text(json_format.dumps(to_dict(subject, result)) + "\n")
    else:
        import numpy

        arrays: dict[str, Any] = {"samples": result.samples.numpy(), "numbers": result.numbers.numpy()}
        arrays |= {"target": subject.name, "report": json_format.dumps(result.report.to_dict())}
        if ".txt" in subject.view.formats:
            arrays["texts"] = numpy.array(subject.view.plain(result.samples))
        with path.open("wb") as file:
            numpy.savez_compressed(file, **arrays)


def _show(subject: Subject, result: Result, out: Path | None, *, json: bool, quiet: bool) -> None:
    """Write the file, and print."""
    if out is not None:
        write(out, subject, result)
    if json:
        say_json(to_dict(subject, result))
    elif not quiet:
        from rich.console import Console

        console = Console()
        console.print(subject.view.terminal(result, console))
        say("", *f"{result.report}{setup(subject.setup_seconds)}".splitlines())
        if out is not None:
            say(f"wrote {out}")
    elif out is None:
        for values in result.samples:
            say(subject.view.line(values))
