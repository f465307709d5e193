"""`drawahead sample`: to the terminal, to a file, or as a job into a folder."""

from __future__ import annotations

import json as json_format
from dataclasses import dataclass
from pathlib import Path
from typing import final

import typer
from rich.console import Console

import drawahead
from drawahead.cli import files, long_jobs, options
from drawahead.cli.failing import INTERRUPTED, Stopped
from drawahead.cli.names import named, sampler_named
from drawahead.cli.own import is_own
from drawahead.cli.shipped import Subject, TargetOptions
from drawahead.errors import InputError, Interrupted, SamplingError
from drawahead.sample import Result
from drawahead.views import Images


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
    sampler: options.Sampler = None,
    window: options.Window = None,
    device: options.Device = None,
    dtype: options.Dtype = None,
    max_batch_size: options.MaxBatchSize = None,
    out: options.Out = None,
    resume: options.Resume = False,
    shard_size: options.ShardSize = None,
    any_version: options.AnyVersion = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Draw samples from a target or a shipped network, and show what they cost."""
    prompts = prompt[0] if prompt and len(prompt) == 1 else prompt or None
    asked = TargetOptions(size, order, prompts, temperature, steps, device, dtype, guidance)
    chosen = sampler_named(sampler, window)
    if out is not None and files.is_folder(out):
        wanted = long_jobs.JobOptions(num, seed, chosen, max_batch_size, shard_size, resume, any_version)
        long_jobs.run(target, asked, out, wanted, json=json, quiet=quiet)
        return
    for option, given in (("--resume", resume), ("--shard-size", shard_size), ("--any-version", any_version)):
        if given:
            raise InputError(f"{option} is for a folder of shards: give one with --out, a name without an ending")
    subject = named(target, asked)
    num = num or subject.num
    subject = subject.of(num)
    if isinstance(subject.view, Images) and out is None and not (quiet or json or is_own(target)):
        out = Path(f"{target}.png")
    if out is not None:
        files.check(out, subject)
    if subject.remark and not (quiet or json):
        typer.echo(subject.remark)
    show = _Output(subject, out, json, quiet)
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
        raise Stopped(f"{why}; the {done} of {num} samples that were finished are kept", status) from None
    show.result(result)


@final
@dataclass(frozen=True)
class _Output:
    """Where samples go."""

    subject: Subject
    out: Path | None
    json: bool
    quiet: bool

    def result(self, result: Result) -> None:
        """Write the file that was asked for, and print."""
        console = Console()
        if self.out is not None:
            files.write(self.out, self.subject, result)
        if self.json:
            typer.echo(json_format.dumps(files.to_dict(self.subject, result)))
        elif not self.quiet:
            console.print(self.subject.view.terminal(result, console))
            typer.echo(f"\n{result.report}")
            if self.out is not None:
                typer.echo(f"wrote {self.out}")
        elif self.out is None:
            typer.echo("\n".join(self.subject.view.line(values) for values in result.samples))
