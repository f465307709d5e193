"""Write what `make` and CI install, every package with the hashes of its files: `python tools/lock.py [--upgrade]`.

Needs uv (`pip install uv`). Versions that are listed stay as they are, unless `--upgrade` asks for the newest ones.
Packages that torch needs for CUDA come into a file of their own: a build of torch for the CPU alone does without.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FILE, CUDA, WEIGHTS = (ROOT / name for name in ("constraints.txt", "constraints-cuda.txt", "constraints-weights.txt"))
PYTHON = "3.11.5"  # the oldest that all of them support
OF_CUDA = re.compile(r"(nvidia-|cuda-)")
HEADER = "# Written by tools/lock.py: {}. For all platforms, and Python {} or later.\n"


def compiled(source: list[str], before: str, *options: str) -> list[str]:
    """The entries of a lock file, one for each package, by uv."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.txt"
        out.write_text(before)
        words = [
            "--universal",
            "--python-version",
            PYTHON,
            "--generate-hashes",
            "--no-annotate",
            "--no-header",
            "--quiet",
        ]
        subprocess.run(["uv", "pip", "compile", *words, *options, *source, "-o", str(out)], cwd=ROOT, check=True)
        return re.findall(r"(?m)^\S.*(?:\n .*)*\n", out.read_text())


def main() -> None:
    """All three files."""
    before = "".join(path.read_text() for path in (FILE, CUDA) if path.exists())
    extras = ["--extra", "all", "--extra", "test", *(["--upgrade"] if "--upgrade" in sys.argv else [])]
    with tempfile.TemporaryDirectory() as folder:  # our own package of weights is in no index
        subprocess.run(["uv", "build", "--quiet", "--wheel", "models", "-o", folder], cwd=ROOT, check=True)
        ours = ["--find-links", folder, "--no-emit-package", "drawahead-models"]
        entries = compiled(["pyproject.toml"], before, *extras, *ours)
    parts = {FILE: [e for e in entries if not OF_CUDA.match(e)], CUDA: [e for e in entries if OF_CUDA.match(e)]}
    named = [line for line in WEIGHTS.read_text().replace(" \\", "").splitlines() if re.match(r"\w", line)]
    with tempfile.TemporaryDirectory() as folder:
        wanted = Path(folder) / "weights.in"
        wanted.write_text("\n".join(named))
        parts[WEIGHTS] = compiled([str(wanted)], "", "--no-deps")
    what = {
        FILE: "what make and CI install",
        CUDA: "what torch needs beside these where it is built for CUDA",
        WEIGHTS: "packages with published weights; their files are read, and never run",
    }
    for path, lines in parts.items():
        path.write_text(HEADER.format(what[path], PYTHON) + "".join(lines))
        print(f"wrote {path.name}: {len(lines)} packages")


if __name__ == "__main__":
    main()
