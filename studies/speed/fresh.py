"""Work in processes of their own, one at a time: what a first call costs shows in no other way.

All processes of a list are started together and import what they need, which is not counted. Then they wait, without
having touched the device, until it is their turn.
"""

from __future__ import annotations

import importlib
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any, final

from studies.speed.place import Place

READY = "ready"


class Failed(RuntimeError):
    """A process ended without a result, or did not end."""


@final
class Fresh:
    """A process that is going to call one function, given as "module:name", with a `Place` and plain options."""

    def __init__(self, work: str) -> None:
        path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
        environment = os.environ | {"PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}
        command = [sys.executable, "-m", "studies.speed.fresh", work]
        pipe = subprocess.PIPE
        self.work = work
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, env=environment, bufsize=0)

    def ready(self, timeout: float = 120.0) -> None:
        """Wait until it has imported everything."""
        assert self.process.stdout is not None
        until = time.monotonic() + timeout
        while select.select([self.process.stdout], [], [], max(0.0, until - time.monotonic()))[0]:
            line = self.process.stdout.readline().decode(errors="replace")
            if line.strip() == READY:
                return
            if not line:
                break
        raise Failed(f"a process for {self.work} did not get ready")

    def result(self, place: Place, timeout: float = 120.0, **options: Any) -> Any:
        """Let it work. -> what the function returned."""
        job = json.dumps({"place": asdict(place), "options": options}) + "\n"
        try:
            said, _ = self.process.communicate(job.encode(), timeout)
        except subprocess.TimeoutExpired:
            raise Failed(f"{self.work} with {options} took more than {timeout:.0f} s") from None
        lines = said.decode(errors="replace").strip().splitlines()
        if self.process.returncode or not lines:
            raise Failed(f"{self.work} with {options} ended with status {self.process.returncode}")
        return json.loads(lines[-1])

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


@contextmanager
def started(works: Sequence[str]) -> Iterator[list[Fresh]]:
    """A process for each, importing; those that are left over are ended."""
    processes: list[Fresh] = []
    try:
        processes.extend(map(Fresh, works))
        yield processes
    finally:
        for process in processes:
            process.end()


def main(work: str) -> None:
    """Inside the process."""
    module_name, name = work.split(":")
    module = importlib.import_module(module_name)
    getattr(module, "prepare", lambda: None)()
    print(READY, flush=True)
    job = json.loads(sys.stdin.readline())
    print(json.dumps(getattr(module, name)(Place(**job["place"]), **job["options"])), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
