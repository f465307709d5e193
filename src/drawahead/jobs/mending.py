"""Draw those shards of a job again that are damaged or gone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from drawahead.chains.base import Chain
from drawahead.errors import InputError, JobError, SamplingError
from drawahead.jobs import files, journal, lock, manifest
from drawahead.jobs.config import Facts
from drawahead.jobs.job import Folder, Job, read
from drawahead.jobs.manifest import Shard
from drawahead.jobs.model import Drawn, Model
from drawahead.jobs.request import JobRequest
from drawahead.oracles.denoisers import DenoisingTarget
from drawahead.oracles.tokens import TokenOracle
from drawahead.sample import as_chain
from drawahead.samplers import Sampler
from drawahead.samplers.record import as_sampler
from drawahead.validate import path


def mend(
    folder: Folder,
    target: Chain | TokenOracle | DenoisingTarget | Callable[..., Any],
    *,
    sampler: Sampler | str | None = None,
    any_version: bool = False,
) -> list[Shard]:
    """Read every finished shard, and draw those again that are not what the manifest tells. -> those, as they are now.

    target: what the job draws from; as far as that can be seen, anything else is refused.
    sampler: only if the job was begun with one of your own.
    any_version: as for `draw`.
    """
    place, model = path("folder", folder), Model(as_chain(target))
    with lock.locked(place) as token:
        files.refuse_links(place, journal.NAME, manifest.SHARDS)
        job = read(place)
        config = job.config
        asked = JobRequest(config.name, config.options, config.num, as_sampler(sampler), None, None, None, None, None)
        _, used = asked.resumed(job.manifest, Facts.of(model.chain), any_version=any_version)
        if not files.is_folder(place / manifest.SHARDS):
            raise InputError(f"{place / manifest.SHARDS} is not a folder")
        return [_mended(job, shard, model, used, token) for shard in job.damaged()]


def _mended(job: Job, shard: Shard, model: Model, sampler: Sampler, token: str) -> Shard:
    """Draw a shard again. A network may answer otherwise in the last digit: then the journal tells what it is now."""
    try:
        index = shard.first // job.config.shard_size
        drawn = Drawn.of(index, model.shard(job.config, sampler, index), job.config)
        assert drawn.data is not None
        now = Shard(shard.file, shard.first, shard.count, drawn.size, drawn.sha256, drawn.report)
        lock.check(job.folder, token)
        files.write(job.folder / manifest.SHARDS / shard.file, drawn.data)
        if now.sha256 != shard.sha256:
            journal.note(job.folder, [now], job.config)
    except SamplingError as error:
        raise JobError(f"{error.__cause__}; {shard.file} is still damaged", job.folder) from error
    except OSError as error:
        raise JobError(f"{error.strerror or error}; {shard.file} is still damaged", job.folder) from error
    return now
