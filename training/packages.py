"""Fetch what `tasks.py` and `rollouts.py` need beside torch and SciPy, small enough to travel to where no network is.

python training/packages.py --python 3.12 --out carry/metaworld

A folder of unpacked wheels, for the path of Python; of Meta-World's pictures and meshes only those that one task reads.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

WHEELS = (
    "metaworld==3.1.1",
    "mujoco==3.3.0",
    "gymnasium==1.4.0",
    "cloudpickle",
    "farama-notifications",
)
_NOT_READ = ("plugin", "include", "introspect", "usd", "mjx", "testdata", "viewer", "_simulate")


def read_by(model: Path, root: Path) -> set[Path]:
    """The files that a model of MuJoCo names, and those that they name; names are relative to it or to its model."""
    found, waiting = set(), [model]
    while waiting:
        path = waiting.pop()
        if path in found:
            continue
        found.add(path)
        if path.suffix == ".xml":
            named = re.findall(r'file="([^"]+)"', path.read_text())
            near = [(folder / name).resolve() for name in named for folder in (path.parent, root)]
            waiting += [other for other in near if other.is_file()]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=f"{sys.version_info.major}.{sys.version_info.minor}")
    parser.add_argument("--model", default="sawyer_push_v3", help="whose pictures and meshes are kept")
    parser.add_argument("--out", type=Path, default=Path("carry/metaworld"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        fetch = [
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--only-binary",
            ":all:",
            "--python-version",
            options.python,
        ]
        subprocess.run([sys.executable, "-m", *fetch, "--dest", folder, *WHEELS], check=True)
        for wheel in Path(folder).glob("*.whl"):
            zipfile.ZipFile(wheel).extractall(options.out)
    assets = (options.out / "metaworld" / "assets").resolve()
    models = assets / "sawyer_xyz"
    kept = read_by(models / f"{options.model}.xml", models)
    for path in [path for path in assets.rglob("*") if path.is_file() and path not in kept]:
        path.unlink()
    for path in [path for path in (options.out / "mujoco").rglob("*") if path.is_file()]:
        if any(part.startswith(_NOT_READ) for part in path.relative_to(options.out / "mujoco").parts):
            path.unlink()
    size = sum(path.stat().st_size for path in options.out.rglob("*") if path.is_file()) / 1e6
    print(f"{options.out}: {size:.1f} MB for Python {options.python}")


if __name__ == "__main__":
    main()
