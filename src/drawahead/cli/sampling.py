"""`drawahead sample`: to the terminal, to a file, or as a job into a folder."""

from __future__ import annotations

from pathlib import Path

import drawahead
from drawahead.cli import options
from drawahead.cli.saying import INTERRUPTED, Stopped, say
from drawahead.errors import InputError, Interrupted, SamplingError
from drawahead.words import counted


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
    from drawahead.cli import files
    from drawahead.cli.registry import is_own, known_as, named, sampler_named
    from drawahead.cli.subjects import TargetOptions
    from drawahead.show.views.base import VectorView

    target = known_as(target)
    prompts = prompt[0] if prompt and len(prompt) == 1 else prompt or None
    special = (guidance, graph, kernel, items, coupling)
    target_options = TargetOptions(size, order, prompts, temperature, steps, device, dtype, *special)
    chosen = sampler_named(sampler, window)
    if out is not None and files.is_folder(out):
        from drawahead.jobs.commands import drawing
        from drawahead.jobs.commands.workers import workers_named

        cluster = workers_named(workers, address, gpus_per_worker)
        wanted = drawing.JobOptions(num, seed, chosen, max_batch_size, shard_size, resume, any_version, cluster)
        drawing.run(target, target_options, out, wanted, json=json, quiet=quiet)
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
        files.check(out, subject)
    if subject.remark and not (quiet or json):
        say(*subject.remark.splitlines())
    show = files.Output(subject, out, json, quiet)
    try:
        result = drawahead.sample(
            subject.chain,
            num,
            sampler=chosen or subject.sampler,
            seed=seed or 0,
            max_batch_size=max_batch_size,
            progress=not quiet,
        )
    except (Interrupted, SamplingError) as stopped:
        done = len(stopped.result.samples)
        if not done:
            raise
        show.result(stopped.result)
        status, why = (INTERRUPTED, "interrupted") if isinstance(stopped, Interrupted) else (1, stopped.__cause__)
        raise Stopped(f"{why}; the {done} of {counted(num, 'sample')} that were finished are kept", status) from None
    show.result(result)
