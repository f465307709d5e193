"""The samples of a job in formats of others, shard by shard: memory is needed for one of them."""

from __future__ import annotations

import importlib
import json
import shutil
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from drawahead.errors import InputError
from drawahead.jobs import files
from drawahead.jobs.job import Job

Array = np.ndarray[Any, Any]


def export(job: Job, path: str | Path) -> None:
    """Write samples 0 ... num_samples-1 to a new file or folder; its name says how.

    .npz: numpy's; "samples" and "numbers".  .zarr: a Zarr array (format 2), a chunk for each shard.
    .parquet: a row for each sample, with "number" and, flat, "sample"; needs pyarrow.
    bfloat16, which none of them has, becomes float32.
    """
    out = Path(path)
    if out.suffix not in WRITERS:
        raise InputError(f"path must end in {', '.join(WRITERS)}, not be {out.name!r}")
    if out.exists():
        raise InputError(f"{out} is there already: name another one")
    if not out.absolute().parent.is_dir():
        raise InputError(f"{out}: there is no folder {out.parent}")
    if not job.num_samples:
        raise InputError(f"{job.folder} has no samples yet: nothing can be exported")
    _ = job.condition  # refuses a damaged one
    with whole(out) as temporary:
        WRITERS[out.suffix](job, temporary)


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """A name to write under: what is written there is renamed if all went well, and removed if not."""
    temporary = path.with_name(files.temporary_name(path.name))
    _remove(temporary)
    try:
        yield temporary
        temporary.replace(path)
    except BaseException:
        _remove(temporary)
        raise


def _remove(path: Path) -> None:
    shutil.rmtree(path) if files.is_folder(path) else path.unlink(missing_ok=True)


def _arrays(job: Job) -> Iterator[Array]:
    for part in job.parts():
        yield (part.float() if part.dtype == torch.bfloat16 else part).contiguous().numpy()


def _dtype(job: Job) -> np.dtype[Any]:
    """Little-endian, as the files have it."""
    dtype = torch.float32 if job.config.torch_dtype == torch.bfloat16 else job.config.torch_dtype
    return torch.zeros(0, dtype=dtype).numpy().dtype.newbyteorder("<")


def _npz(job: Job, path: Path) -> None:
    shape, dtype = (job.num_samples, *job.config.shape), _dtype(job)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        with archive.open("samples.npy", "w", force_zip64=True) as file:
            head = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_2_0(file, head)
            for part in _arrays(job):
                file.write(part.astype(dtype, copy=False).tobytes())
        with archive.open("numbers.npy", "w", force_zip64=True) as file:
            np.lib.format.write_array(file, np.arange(job.num_samples))


def _zarr(job: Job, path: Path) -> None:
    """Format 2 is plain enough to be written without a library: a folder, a description, and a file for each chunk."""
    chunk, dtype = (job.config.shard_size, *job.config.shape), _dtype(job)
    path.mkdir()
    for number, part in enumerate(_arrays(job)):
        padded = np.zeros(chunk, dtype)  # chunks have one size, also the last
        padded[: len(part)] = part
        (path / ".".join([str(number), *("0" for _ in job.config.shape)])).write_bytes(padded.tobytes())
    head = {
        "zarr_format": 2,
        "shape": [job.num_samples, *job.config.shape],
        "chunks": list(chunk),
        "dtype": dtype.str,
        "compressor": None,
        "filters": None,
        "fill_value": 0,
        "order": "C",
    }
    (path / ".zattrs").write_text(json.dumps({"target": job.config.name, "seed": job.config.seed}) + "\n")
    (path / ".zarray").write_text(json.dumps(head, indent=1) + "\n")


def _parquet(job: Job, path: Path) -> None:
    try:
        arrow, parquet = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise InputError("parquet needs pyarrow: pip install pyarrow") from None
    kind = arrow.from_numpy_dtype(_dtype(job))
    shape = {b"shape": json.dumps(job.config.shape).encode(), b"target": job.config.name.encode()}
    schema = arrow.schema([("number", arrow.int64()), ("sample", arrow.list_(kind))], metadata=shape)
    first = 0
    with parquet.ParquetWriter(path, schema) as writer:
        for part in _arrays(job):
            flat = part.reshape(len(part), -1)
            starts = arrow.array(np.arange(len(part) + 1, dtype=np.int32) * flat.shape[1])
            samples = arrow.ListArray.from_arrays(starts, arrow.array(flat.reshape(-1)))
            numbers = arrow.array(np.arange(first, first + len(part)))
            writer.write_table(arrow.Table.from_arrays([numbers, samples], schema=schema))
            first += len(part)


WRITERS: dict[str, Callable[[Job, Path], None]] = {".npz": _npz, ".zarr": _zarr, ".parquet": _parquet}
"""By how the name ends."""
