"""Draw a job: shard after shard into a folder, from the beginning or from where it was left."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, final

from drawahead.chains.base import Chain
from drawahead.denoisers import DenoisingTarget
from drawahead.errors import InputError, Interrupted, JobError, SamplingError, whole
from drawahead.jobs import checks, files, lock, manifest, shards
from drawahead.jobs import folder as folders
from drawahead.jobs.asking import Asked
from drawahead.jobs.config import versions
from drawahead.jobs.job import Folder, Job
from drawahead.jobs.manifest import Manifest, Shard
from drawahead.oracles import TokenOracle
from drawahead.progress import Show, Standing, bar, watching
from drawahead.report import Report
from drawahead.rounds import Executor
from drawahead.sample import Result, Stop, as_chain, sample
from drawahead.samplers import Sampler


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
    sampler: Sampler | None = None,
    seed: int | None = None,
    max_batch_size: int | None = None,
    max_live: int | None = None,
    executor: Executor | None = None,
    graphs: bool | None = None,
    on_round: Callable[[Report], None] | None = None,
    stop: Stop | None = None,
    progress: bool | None = None,
) -> Job:
    """Draw samples 0 ... num_samples-1 into a folder, shard by shard. -> the job, as far as it has come.

    target, sampler, seed, max_batch_size, max_live, executor, graphs: as for `sample`.
    name, options: what the target is, in plain values; who resumes the job must give the same ones. drawahead cannot
        see whether your model is still the same: let the options say what it depends on.
    resume: go on with the job in the folder, or begin one if there is none. All that decides the samples must be as
        it was; what is not given is taken from the job. Without it the folder must be new or empty.
    any_version: resume even if drawahead or torch has another version now, which may not draw the very same samples.
    shard_size: samples in a shard. By default about half a minute of work, and 64 MiB at most; pilot samples, which
        are thrown away, are timed for about a second to find out.
    on_round: called after every round with the report so far of the shard under way.
    stop: once it is set, the shard under way is given up, and the job is returned as it is.
    progress: whether a line on stderr shows how far it is. Only a terminal or a notebook gets one.

    A folder that another process draws into is refused. If the oracle or the disk fails, a `JobError` tells; Ctrl-C is
    an `Interrupted`, with what was finished of the shard under way. The finished shards are kept whatever happens.
    """
    chain = as_chain(target)
    if sampler is not None and not isinstance(sampler, Sampler):
        raise InputError(f"sampler must be a sampler such as Block(), not {sampler!r}")
    asked = Asked(
        chain,
        checks.text(name, "name", 1000),
        checks.plain(dict(options or {}), "options"),
        whole("num_samples", num_samples, 1),
        sampler,
        None if seed is None else checks.count(seed, "seed", -(2**64), 2**64),
        None if shard_size is None else whole("shard_size", shard_size, 1),
        max_batch_size,
        None if max_live is None else whole("max_live", max_live, 1),
        graphs,
        executor,
    )
    shards.need_safetensors()
    chain.check(asked.num)
    path = Path(folder)
    with ExitStack() as opened:
        folders.make(path)
        opened.enter_context(lock.locked(path))
        folders.look(path, resume)
        drawing = _Drawing(path, asked, any_version)
        drawing.run(on_round, stop, opened.enter_context(bar()) if progress else None)
    return Job(path, drawing.manifest)


@final
class _Drawing:
    """A job under way, in a folder that is ours."""

    def __init__(self, folder: Path, asked: Asked, any_version: bool) -> None:
        self.folder, self.executor, self.chain = folder, asked.executor, asked.chain
        if (folder / manifest.NAME).exists():
            self.manifest = manifest.read(folder)
            config, self.sampler = asked.resumed(self.manifest, any_version=any_version)
            self._tidy()
        else:
            config = asked.begun()
            assert config.sampler.sampler is not None
            self.sampler = config.sampler.sampler
            self.manifest = Manifest(config, datetime.now(UTC).isoformat(timespec="seconds"), [])
            self._tidy()
        self._note_versions()
        self.config = config

    def run(self, on_round: Callable[[Report], None] | None, stop: Stop | None, show: Show | None) -> None:
        """Draw what is missing."""
        standing = self._standing()
        for index in range(self.config.shards):
            if self._there(index):
                continue
            if stop is not None and stop.is_set():
                return
            result = self._drawn(index, watching(on_round, show, standing), stop)
            if not result.complete:
                return
            standing = standing.plus(result.report)
            self._keep(index, result)

    def _drawn(self, index: int, watch: Callable[[Report], None] | None, stop: Stop | None) -> Result:
        config, (first, count) = self.config, self.config.part(index)
        try:
            return sample(
                self.chain,
                count,
                first=first,
                sampler=self.sampler,
                seed=config.seed,
                max_batch_size=config.max_batch_size,
                max_live=config.max_live,
                executor=self.executor,
                graphs=config.graphs,
                on_round=watch,
                stop=stop,
            )
        except Interrupted as error:
            raise Interrupted(f"interrupted; {self._kept()}", error.result) from error
        except SamplingError as error:
            raise JobError(f"{error.__cause__}; {self._kept()}", self.folder) from error

    def _keep(self, index: int, result: Result) -> None:
        """Write a shard, and then that it is there."""
        data = shards.encoded(result)
        first, count = self.config.part(index)
        file = manifest.file_name(index)
        totals = manifest.totals([result.report.totals()])
        shard = Shard(file, first, count, len(data), files.sha256(data), totals)
        kept = list(self.manifest.shards)
        kept[index : index + 1] = [shard]
        with self._writing():
            files.write(self.folder / manifest.SHARDS / file, data)
            after = replace(self.manifest, shards=tuple(kept))
            after.write(self.folder)
            self.manifest = after

    def _there(self, index: int) -> bool:
        """Whether a shard is finished. One that the manifest tells of and somebody removed is drawn again."""
        known = self.manifest.shards[index : index + 1]
        return bool(known) and (self.folder / manifest.SHARDS / known[0].file).exists()

    def _tidy(self) -> None:
        """Remove what a crash left half-written; see that what was finished is as it was."""
        with self._writing():
            (self.folder / manifest.SHARDS).mkdir(exist_ok=True)
            if not files.is_folder(self.folder / manifest.SHARDS):
                raise InputError(f"{self.folder / manifest.SHARDS} is not a folder")
            files.tidy(self.folder)
            files.tidy(self.folder / manifest.SHARDS)
        for index, shard in enumerate(self.manifest.shards):
            if self._there(index):
                shards.read(self.folder, shard)

    def _note_versions(self) -> None:
        """Write the manifest of a new job, or of one that other versions go on with."""
        now = versions()
        last = self.manifest.versions[-1] if self.manifest.versions else {}
        if now != {key: last.get(key) for key in now}:
            noted = [*self.manifest.versions, {**now, "shard": len(self.manifest.shards)}]
            self.manifest = replace(self.manifest, versions=noted)
            with self._writing():
                self.manifest.write(self.folder)

    def _standing(self) -> Standing:
        totals = manifest.totals([shard.report for shard in self.manifest.shards])
        done, steps = totals["num_samples"], self.config.steps
        earlier = done * steps
        return Standing(
            self.config.num, done, steps, earlier, totals["rounds"], totals["queries"], 0.0, earlier=earlier
        )

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise JobError(f"{error.strerror or error}; {self._kept()}", self.folder) from error

    def _kept(self) -> str:
        kept = sum(shard.count for shard in self.manifest.shards)
        return f"{kept} of {self.manifest.config.num} samples are kept in {self.folder}"
