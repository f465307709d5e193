"""Is this tree fit to be released? `make release-check` builds it, installs it afresh, and tries it.

The sdist and the wheel are built and looked into; the wheel is then installed into a new environment without extras,
and once more with each extra, and a small script of `tools/smoke` is run in each. A quarter of an hour, most of it
installing torch again and again; `--only NAME ...` tries some of them.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SMOKE = ROOT / "tools" / "smoke"
MOST_MEGABYTES = 30
NEEDED = (
    "drawahead/py.typed",
    "drawahead/networks/weights/text.safetensors",
    "drawahead/networks/weights/text.md",
    "drawahead/networks/weights/fashion.safetensors",
    "drawahead/networks/weights/fashion.md",
)
AS_SOURCE = (
    "README.md",
    "LICENSE",
    "Makefile",
    "constraints.txt",
    "pyproject.toml",
    "mkdocs.yml",
    "tests/conftest.py",
    "studies/__main__.py",
    "studies/pages/rounds.md",
    "docs/design.md",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", help="of the environments: plain, or names of extras")
    wanted = parser.parse_args().only
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    names = ["plain", *(name for name in extras if name not in ("test", "docs", "all"))]
    missing = [name for name in names if not (SMOKE / f"{name}.py").is_file()]
    if missing:
        sys.exit(f"no smoke test for {', '.join(missing)}: write tools/smoke/NAME.py")
    unknown = sorted(set(wanted or ()) - set(names))
    if unknown:
        sys.exit(f"unknown: {', '.join(unknown)}; there are {', '.join(names)}")
    with tempfile.TemporaryDirectory() as folder:
        wheel = build(Path(folder))
        for name in names if wanted is None else wanted:
            attempt(name, wheel, Path(folder) / "environment")
    say("fit to be released")


def build(folder: Path) -> Path:
    """Build both, and look at what is in them. -> the wheel."""
    run(sys.executable, "-m", "build", "--outdir", folder, ROOT)
    (wheel,), (source,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    for file in (wheel, source):
        size = file.stat().st_size / 2**20
        say(f"{file.name}: {size:.1f} MiB")
        if size > MOST_MEGABYTES:
            sys.exit(f"{file.name} has more than {MOST_MEGABYTES} MiB: what got into it?")
    held = set(zipfile.ZipFile(wheel).namelist())
    templates = {f"drawahead/pages/parts/{path.name}" for path in (ROOT / "src/drawahead/pages/parts").iterdir()}
    lacks = sorted({*NEEDED, *templates} - held)
    strange = sorted(
        name for name in held if not name.startswith(("drawahead/", "drawahead-")) or "__pycache__" in name
    )
    if lacks or strange:
        sys.exit(f"the wheel lacks {lacks} and should not hold {strange}")
    if not any(name.endswith("/licenses/LICENSE") for name in held):
        sys.exit("the wheel holds no licence")
    with tarfile.open(source) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    if lacks := sorted(set(AS_SOURCE) - names):
        sys.exit(f"the sdist lacks {lacks}")
    return wheel


def attempt(name: str, wheel: Path, home: Path) -> None:
    """Install the wheel with this extra into a new environment, and run its smoke test there."""
    shutil.rmtree(home, ignore_errors=True)
    run(sys.executable, "-m", "venv", home)
    python = home / "bin" / "python"
    wanted = f"{wheel}" if name == "plain" else f"{wheel}[{name}]"
    run(
        python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-c", ROOT / "constraints.txt", wanted
    )
    run(python, "-m", "pip", "check")
    with tempfile.TemporaryDirectory() as away:  # nothing of the checkout is on the path
        run(python, "-P", SMOKE / f"{name}.py", cwd=away)  # -P: the scripts have the names of the libraries they try
    say(f"{name}: works")


def run(*command: object, cwd: str | None = None) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([str(part) for part in command], cwd=cwd, env=environment, check=False, text=True, stdout=-1)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))} failed with {done.returncode}\n{done.stdout}")


def say(words: str) -> None:
    print(f"release-check: {words}", flush=True)


if __name__ == "__main__":
    main()
