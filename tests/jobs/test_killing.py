"""A job whose process is killed, again and again, ends with the samples of one that was left alone."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

import drawahead as da

DYING = Path(__file__).with_name("dying.py")
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="children are forked")


@pytest.mark.parametrize("kills", [8, pytest.param(500, marks=pytest.mark.slow)])
def test_a_killed_process_loses_nothing_and_draws_nothing_twice(kills: int, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(DYING), str(kills), str(tmp_path)],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=3600,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["random"]["kills"] >= kills and found["random"]["progressed"] >= found["random"]["jobs"]
    # Four files: the manifest of the beginning and that of the end, and two shards. Each is opened, written in two
    # halves, synced, renamed, and its folder opened and synced. The lock is read wherever the folder might have been
    # replaced: four times before the first shard, twice for each (before it is written, and after), and twice in the
    # end.
    assert found["points"] == f"survives {{'points': {4 * 7 + 4 + 2 * 2 + 2}}}"
    # The same test finds out who writes files otherwise.
    assert "manifest.json: it is not readable" in found["write_in_place"]
    assert "000000.safetensors" in found["named_first"]


ARGUMENTS = ["sample", "markov", "--size", "32", "--num", "2000", "--shard-size", "40", "--sampler", "sequential"]


# Shells start what they put into the background with SIGINT ignored, and that is inherited.
COMMAND = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from drawahead.cli import main
main()
"""


def started(folder: Path, *more: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", COMMAND, *ARGUMENTS, "--out", str(folder), *more],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finished(folder: Path) -> int:
    try:
        return da.jobs.read(folder).num_samples
    except da.InputError:
        return 0


def test_the_command_is_interrupted_killed_and_resumed(tmp_path: Path) -> None:
    """Ctrl-C, then kill -9, then to the end; while it runs, a second process is refused."""
    folder = tmp_path / "job"
    kept = 0
    for number, how in enumerate((signal.SIGINT, signal.SIGKILL)):
        process = started(folder, "--resume")
        while finished(folder) <= kept:
            assert process.poll() is None
            time.sleep(0.01)
        if number == 1:
            with pytest.raises(da.InputError, match=f"in use by process {process.pid}"):
                da.jobs.draw(folder, da.targets.named("markov", 32), 2000, name="markov", resume=True)
        process.send_signal(how)
        out, err = process.communicate(timeout=600)
        assert out == "" and kept < finished(folder) < 2000
        kept = finished(folder)
        if how == signal.SIGINT:
            assert process.returncode == 130
            assert err.startswith(f"drawahead: interrupted; {kept} of 2000 samples are kept in {folder}; go on with: ")
            assert err.endswith(f"drawahead sample markov --out {folder} --resume\n") and err.count("\n") == 1
    process = started(folder, "--resume", "--json")
    out, err = process.communicate(timeout=1200)
    assert process.returncode == 0 and json.loads(out)["complete"] and err == ""
    whole = da.sample(da.targets.named("markov", 32), 2000, seed=0, sampler=da.Sequential())
    assert torch.equal(da.jobs.read(folder).samples(), whole.samples)


FULL = """
mount -t tmpfs -o size=200k none {folder} || exit 77
{python} -c 'from drawahead.cli import main; main()' sample pairs --size 64 --num 1000 --shard-size 100 --seed 1 \
    --sampler sequential --out {folder}/job
echo "status $?" >&2
mount -o remount,size=10m {folder}
{python} -c 'from drawahead.cli import main; main()' sample pairs --out {folder}/job --resume --quiet || exit 1
{python} -c 'import sys, drawahead as da; da.jobs.read(sys.argv[1]).verify()
whole = da.sample(da.targets.Pairs(64), 1000, seed=1, sampler=da.Sequential()).samples
assert da.jobs.read(sys.argv[1]).samples().equal(whole)' {folder}/job
"""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("unshare") is None, reason="a file system of our own is needed")
def test_a_disk_that_is_really_full(tmp_path: Path) -> None:
    script = FULL.format(folder=tmp_path, python=sys.executable)
    done = subprocess.run(["unshare", "-rm", "sh", "-c", script], capture_output=True, text=True, check=False)
    if done.returncode == 77 or "unshare failed" in done.stderr:
        pytest.skip("no file systems may be made here")
    assert done.returncode == 0, done.stderr
    kept = re.search(r"No space left on device; (\d+) of 1000 samples are kept", done.stderr)
    assert kept and 0 < int(kept[1]) < 1000 and "status 1" in done.stderr
