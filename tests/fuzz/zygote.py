"""Runs commands one after the other, each in a child of its own, under limits: a program for `judge`.

Cases come as lines of JSON on stdin, outcomes go back so on stdout. Libraries are imported once, before the forks: a
child costs milliseconds.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import pkgutil
import resource
import signal
import sys
import time
from pathlib import Path

LATER = ("drawahead.diffusers", "drawahead.executors.ray")
STEP = 0.002


def child(arguments: list[str], home: str, gigabytes: float, patch: str) -> None:
    """Become the command."""
    os.chdir(home)
    for number, name in ((0, os.devnull), (1, "../stdout"), (2, "../stderr")):
        handle = os.open(name, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(handle, number)
    sys.stdin, sys.stdout, sys.stderr = (os.fdopen(number, mode) for number, mode in ((0, "r"), (1, "w"), (2, "w")))
    sys.stderr.reconfigure(errors="backslashreplace", line_buffering=True)
    taken = int(Path("/proc/self/statm").read_text().split()[5]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_DATA, (int(taken + gigabytes * 2**30),) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**30,) * 2)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv = ["drawahead", *arguments]
    exec(patch, {})
    importlib.import_module("drawahead.cli").main()


def judged(case: dict[str, object]) -> dict[str, object]:
    """What became of a case: its status, how long it took, and how long it took to hear Ctrl-C."""
    began = time.monotonic()
    pid = os.fork()
    if pid == 0:
        status = 70
        try:
            child(case["arguments"], case["home"], case["gigabytes"], case["patch"])  # type: ignore[arg-type]
        except SystemExit as leaving:
            status = leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
            if isinstance(leaving.code, str):
                sys.stderr.write(f"{leaving.code}\n")
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            try:
                sys.stdout.flush()
                sys.stderr.flush()
            finally:
                os._exit(status)
    asked = None
    while True:
        done, status, used = os.wait4(pid, os.WNOHANG)
        now = time.monotonic()
        if done:
            break
        if asked is None and now - began > case["seconds"]:  # type: ignore[operator]
            os.kill(pid, signal.SIGINT)
            asked = now
        if asked is not None and now - asked > case["late"]:  # type: ignore[operator]
            os.kill(pid, signal.SIGKILL)
        time.sleep(STEP)
    return {
        "status": os.waitstatus_to_exitcode(status),
        "seconds": now - began,
        "processor": used.ru_utime + used.ru_stime,
        "heard": None if asked is None else now - asked,
    }


def main() -> None:
    import torch

    for name in ("networkx", "matplotlib.pyplot", "PIL.Image", "pydantic", "rich.progress", "typer.rich_utils"):
        importlib.import_module(name)
    drawahead = importlib.import_module("drawahead")
    for module in pkgutil.walk_packages(drawahead.__path__, "drawahead."):
        if not module.name.startswith(LATER) and not module.name.endswith("_cuda"):
            importlib.import_module(module.name)
    torch.set_num_threads(1)
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
        for words in (["targets"], ["sample", "pairs", "--size", "x"]):
            importlib.import_module("drawahead.cli.app").run(words)
    gc.freeze()  # or each child would copy what it only looks at
    tell({})
    for line in sys.stdin:
        tell(judged(json.loads(line)))


def tell(outcome: dict[str, object]) -> None:
    sys.stdout.write(json.dumps(outcome) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    main()
