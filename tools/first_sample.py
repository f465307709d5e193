"""From `pip install 'drawahead[cli]'` in an empty environment to the first sample: `python tools/first_sample.py`.

Both wheels are built first. Then pip fetches everything anew, without its cache, into a folder that is weighed.
The figures go to docs/data/first_sample.json; docs/release.md quotes them, and a test compares.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULT = ROOT / "docs" / "data" / "first_sample.json"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        dist, home = Path(folder) / "dist", Path(folder) / "environment"
        for project in (ROOT, ROOT / "models"):
            run(sys.executable, "-m", "build", "--wheel", "--outdir", dist, project)
        (base,), (models,) = dist.glob("drawahead-*.whl"), dist.glob("drawahead_models-*.whl")
        run(sys.executable, "-m", "venv", home)
        pip, files, wanted = (home / "bin/python", "-m", "pip"), Path(folder) / "files", "drawahead[cli]"
        began = time.perf_counter()
        versions = Path(folder) / "constraints.txt"  # without hashes, which our own wheels have not
        versions.write_text("\n".join(re.findall(r"(?m)^[\w.-]+==\S+", (ROOT / "constraints.txt").read_text())))
        bounds = ("-c", versions, "--find-links", dist)
        run(*pip, "download", "--no-cache-dir", *bounds, "-d", files, wanted)
        fetched = time.perf_counter()
        run(*pip, "install", "--no-index", "--find-links", files, wanted)
        installed = time.perf_counter()
        run(home / "bin/drawahead", "sample", "text")
        sampled = time.perf_counter()
        figures = {
            "base wheel, MB": round(base.stat().st_size / 1e6, 1),
            "models wheel, MB": round(models.stat().st_size / 1e6),
            "all files, MB": round(sum(file.stat().st_size for file in files.iterdir()) / 1e6),
            "download, s": round(fetched - began),
            "install, s": round(installed - fetched),
            "first sample, s": round(sampled - installed, 1),
        }
    RESULT.write_text(json.dumps(figures, indent=1) + "\n")
    print(json.dumps(figures, indent=1))


def run(*command: object) -> str:
    done = subprocess.run([str(part) for part in command], check=False, text=True, capture_output=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    main()
