"""Draw a job: shard after shard into a folder, from the beginning or from where it was left."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from drawahead import validate
from drawahead.chains.base import Chain
from drawahead.errors import InputError
from drawahead.executors.actors import RayWorkers
from drawahead.jobs import shards
from drawahead.jobs.job import LAYOUT, Folder, Job, read
from drawahead.jobs.model import JobRequest, Model
from drawahead.jobs.runner import JobRunner
from drawahead.jobs.shards import Shard
from drawahead.jobs.store import Store
from drawahead.jobs.workers import drawing
from drawahead.oracles.denoisers import DenoisingTarget
from drawahead.oracles.tokens import TokenOracle
from drawahead.report import Report
from drawahead.rounds.run import Stop
from drawahead.rounds.threads import Executor
from drawahead.runner import as_chain
from drawahead.samplers import Sampler
from drawahead.samplers.record import as_sampler
from drawahead.show.progress import bar
from drawahead.validate import instance, whole


def draw(
    folder: Folder,
    target: Chain | TokenOracle | DenoisingTarget | Callable[..., Any],
    num_samples: int,
    *,
    name: str,
    options: Mapping[str, Any] | None = None,
    resume: bool = False,
    any_version: bool = False,
    shard_size: int | None = None,
    sampler: Sampler | str | None = None,
    seed: int | None = None,
    max_batch_size: int | None = None,
    max_live: int | None = None,
    executor: Executor | None = None,
    workers: RayWorkers | None = None,
    graphs: bool | None = None,
    on_round: Callable[[Report], None] | None = None,
    stop: Stop | None = None,
    progress: bool | None = None,
) -> Job:
    """Draw samples 0 ... num_samples-1 into a folder, shard by shard. -> the job, as far as it has come.

    target, sampler, seed, max_batch_size, max_live, executor, graphs: as for `sample`.
    workers: whole shards are drawn by these, on many machines, each with the model. The target is then a function
        without arguments that makes it in a worker (an oracle, a denoising target, a chain, or `Replicas` of one on
        several devices); or the thing itself, which is sent as it is. What is drawn does not depend on the workers.
    name, options: what the target is, in plain values; who resumes the job must give the same ones. drawahead cannot
        see whether your model is still the same: let the options say what it depends on.
    resume: go on with the job in the folder, or begin one if there is none. All that decides the samples must be as
        it was; what is not given is taken from the job. Damaged shards are named by a warning and drawn again. Without
        it the folder must be new or empty.
    any_version: resume even if drawahead or torch has another version now, which may not draw the very same samples.
    shard_size: samples in a shard. By default about half a minute of work, and 64 MiB at most; pilot samples, which
        are thrown away, are timed for about a second to find out.
    on_round: called after every round with the report so far of the shard under way.
    stop: once it is set, the unfinished shard is dropped, and the job is returned as it is.
    progress: whether a line on stderr shows how far it is. Only a terminal or a notebook gets one.

    A folder that another process draws into is refused. If the oracle or the disk fails, a `JobError` tells; Ctrl-C is
    an `Interrupted`, with what was finished of the shard under way. The finished shards are kept whatever happens.
    """
    place = Path(folder)
    for what, given in (("graphs", graphs), ("resume", resume), ("progress", progress)):
        instance(what, given, bool | None, "True, False or None")
    if workers is not None and (executor is not None or on_round is not None):
        raise InputError("workers draw whole shards by themselves: leave out executor and on_round, or workers")
    asked = JobRequest(
        validate.text("name", name, 1000),
        validate.plain("options", {} if options is None else {**options}),
        whole("num_samples", num_samples, 1),
        as_sampler(sampler),
        None if seed is None else validate.count("seed", seed, 0, 2**64 - 1),
        None if shard_size is None else whole("shard_size", shard_size, 1),
        None if max_batch_size is None else whole("max_batch_size", max_batch_size, 1),
        None if max_live is None else whole("max_live", max_live, 1),
        graphs,
    )
    shards.need_safetensors()
    if workers is None:
        model = Model(as_chain(target), executor)
        model.chain.check(asked.num)
    with ExitStack() as opened:
        store = opened.enter_context(Store.opened(place, LAYOUT, resume=resume))
        show = opened.enter_context(bar()) if progress else None
        if show is not None:
            show(0.0, [f"0/{asked.num} samples", "measuring"])
        many = None if workers is None else opened.enter_context(drawing(workers, target))
        runner = JobRunner(store, asked, many or model, any_version)
        runner.run(runner.missing(), on_round, stop, show)
        return Job(place, runner.manifest)


def mend(
    folder: Folder,
    target: Chain | TokenOracle | DenoisingTarget | Callable[..., Any],
    *,
    sampler: Sampler | str | None = None,
    any_version: bool = False,
) -> list[Shard]:
    """Read every finished shard, and draw those again that are damaged. -> those.

    target: the job's target; as far as that can be checked, any other raises an error.
    sampler: only if the job was begun with one of your own.
    any_version: as for `draw`.
    """
    place, model = Path(folder), Model(as_chain(target))
    config = read(place).config
    asked = JobRequest(config.name, config.options, config.num, as_sampler(sampler))
    with Store.opened(place, LAYOUT, resume=True) as store, warnings.catch_warnings(action="ignore"):
        runner = JobRunner(store, asked, model, any_version)
        damaged = sorted(runner.damaged)
        runner.run(damaged)
        return [shard for shard in Job(place, runner.manifest).shards if shard.index in damaged]
