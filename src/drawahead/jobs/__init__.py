"""Long jobs: samples are drawn in shards into a folder, and what is finished survives whatever stops the work.

    job = da.jobs.draw(folder, target, 100_000, name="my model", options={"temperature": 0.5}, seed=0)
    job = da.jobs.draw(folder, target, 100_000, name=..., options=..., seed=0, resume=True)   # goes on, or begins
    job = da.jobs.read(folder)                                                               # only looks
    da.jobs.draw(..., workers=da.RayWorkers(64, gpus=1))     # whole shards on the machines of a cluster, in any order
    da.jobs.mend(folder, target)                             # draws damaged shards again
    da.jobs.export(job, "samples.npz")                       # or .zarr, .parquet

    job.folder                      the path
    job.config                      `Config`: what is drawn, and how (name, options, sampler, seed, num_samples, ...)
    job.complete                    whether all samples are there
    job.num_samples                 samples finished from the first one on: numbers 0 ... num_samples-1
    job.finished                    all samples finished; several workers may be ahead of a shard that is missing
    job.samples(first=0, count=None)  some of them (all, if not told) as a tensor; only their shards are read
    job.report                      a `Report` of all shards together: rounds, widths, committed, sample_rounds, ...
    job.shards                      a `Shard` (path, file, first, count, sha256) for each finished one
    job.parts()                     the samples shard by shard, where they are more than memory holds
    job.condition                   the tables that the model was told, a row for each sample
    job.verify(), job.damaged()     reads every shard and compares its sha256

A shard is the unit of computation: shard s is one call of `da.sample` for samples s * size ... (s + 1) * size - 1, so a
shard drawn again after a crash is the same computation, bit for bit. A sampler that `Auto` chose is written down before
anything is drawn, and used for all shards.

On disk (the page on long jobs tells more): `manifest.json`, what `Config` holds, with versions and seconds; a file for
each shard in `shards`, and `condition.safetensors`; `lock`; `status.json`, on which nothing depends. The manifest and
every shard carry their own sha256, and a shard the identity of its job, a hash of all that decides samples. Shards are
written under a temporary name, synced and renamed: what is not there was not finished. Folders of format 1, in which
the manifest and a journal list shards, are read and resumed. `read` trusts nothing: whatever is wrong with a manifest
or a shard is an `InputError`.
A job that cannot go on raises `JobError`; Ctrl-C raises `Interrupted`.
"""

from typing import TYPE_CHECKING

from drawahead.doors import doors

if TYPE_CHECKING:  # what type checkers see, and `doors` reads
    from drawahead.executors.actors import RayWorkers
    from drawahead.jobs.config import Config
    from drawahead.jobs.drawing import draw, mend
    from drawahead.jobs.export import export
    from drawahead.jobs.job import Job, read
    from drawahead.jobs.shards import Shard
    from drawahead.samplers.record import SamplerRecord

__all__ = ["Config", "Job", "RayWorkers", "SamplerRecord", "Shard", "draw", "export", "mend", "read"]

doors(__name__)
