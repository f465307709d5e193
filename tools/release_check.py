"""Is this tree fit to be released? `make release-check` builds it, installs it afresh, and tries it.

The sdist and the wheel of drawahead and of drawahead-models are built twice, from the same commit's time, and must be
the same files both times; then they are looked into. The wheel is installed into a new environment without extras, and
once more with each extra, on every Python from 3.11 to 3.14 that is found, and a small script of `tools/smoke` is run
in each. torch is installed once per Python: each environment begins as a copy, by hard links, of one with torch and
numpy. Ten minutes, and more where torch comes with CUDA. `--only NAME ...` tries some extras, `--python 3.12 ...` some
versions, and `--keep DIR` leaves what was built, with its list of licences, in a folder.

What cannot be tried here, because the package index has no wheel for this Python, is said and is no failure, unless no
Python is left for it. With `--cpu` a Python for which torch would bring gigabytes of CUDA is left out, too. Everything
is tried before the exit status says whether something failed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SMOKE = ROOT / "tools" / "smoke"
MOST_MEGABYTES = {"drawahead": {".whl": 1, ".gz": 20}, "drawahead_models": {".whl": 55, ".gz": 55}}
"""By distribution, of its wheel and its sdist."""
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
NETWORKS = ("text", "fashion", "emoji", "emoji_tokens")
AS_SOURCE = (
    "README.md",
    "LICENSE",
    "Makefile",
    "constraints.txt",
    "sbom.json",
    "pyproject.toml",
    "mkdocs.yml",
    "tests/conftest.py",
    "studies/__main__.py",
    "studies/pages/rounds.md",
    "docs/design.md",
    "CHANGELOG.md",
    "CITATION.cff",
    "CONTRIBUTING.md",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", help="of the environments: plain, or names of extras")
    parser.add_argument("--python", nargs="*", default=VERSIONS, help="versions of Python, such as 3.12")
    parser.add_argument("--keep", type=Path, help="a folder for what was built")
    parser.add_argument("--cpu", action="store_true", help="leave out a Python for which torch would come with CUDA")
    arguments = parser.parse_args()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    names = ["plain", *(name for name in extras if name not in ("test", "docs", "all"))]
    missing = [name for name in names if not (SMOKE / f"{name}.py").is_file()]
    if missing:
        sys.exit(f"no smoke test for {', '.join(missing)}: write tools/smoke/NAME.py")
    wanted = names if arguments.only is None else arguments.only
    unknown = sorted(set(wanted) - set(names))
    if unknown:
        sys.exit(f"unknown: {', '.join(unknown)}; there are {', '.join(names)}")
    pythons = interpreters(arguments.python)
    absent = [version for version in arguments.python if version not in pythons]
    with tempfile.TemporaryDirectory() as folder:
        built(Path(folder))
        files = {kind: Path(folder) / "first" / kind for kind in MOST_MEGABYTES}
        looked_into(*files.values())
        (wheel,) = files["drawahead"].glob("*.whl")
        tried = Tried()
        for version, python in pythons.items():
            on_one_python(
                tried, version, python, wanted, wheel, Path(folder) / "on", project["dependencies"], arguments.cpu
            )
        if arguments.keep:
            keep(arguments.keep, *(file for kind in files.values() for file in sorted(kind.iterdir())))
    if absent:
        say(f"not tried, for there is no Python {', '.join(absent)} here")
    if tried.failed:
        sys.exit(f"release-check: not fit to be released; failed: {', '.join(tried.failed)}")
    if nowhere := tried.nowhere(wanted):
        sys.exit(f"release-check: tried on no Python: {', '.join(nowhere)}")
    say("fit to be released" + (f", but for what could not be tried: {', '.join(tried.left)}" if tried.left else ""))


class Missing(Exception):
    """What is to be tried cannot be installed here, through no fault of drawahead's."""


class Failed(Exception):
    """A command did not work."""


@dataclass
class Tried:
    """What became of each extra on each Python, as `ray on Python 3.13`."""

    works: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)

    def __call__(self, name: str, version: str, what: Callable[[], None]) -> bool:
        where = f"{name} on Python {version}"
        try:
            what()
        except Missing as error:
            self.left.append(where)
            say(f"{where}: not tried, {error}")
        except Failed as error:
            self.failed.append(where)
            say(f"{where}: FAILED, {error}")
        else:
            self.works.append(where)
            say(f"{where}: works")
        return where in self.works

    def nowhere(self, names: Iterable[str]) -> list[str]:
        """What was left out on every Python: a name written wrong in pyproject.toml looks just like that."""
        begun = {where.partition(" on ")[0] for where in (*self.works, *self.failed)}
        return [name for name in names if name not in begun]


def interpreters(versions: Iterable[str]) -> dict[str, str]:
    """An interpreter for each of these versions that is found: this one, one on the path, or one of pyenv's."""
    roots = [Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"]
    found: dict[str, str] = {}
    for version in versions:
        inside = sorted(path for root in roots for path in root.glob(f"{version}.*/bin/python"))
        for candidate in (sys.executable, shutil.which(f"python{version}"), *inside[::-1]):
            if candidate is not None and version_of(candidate) == version:
                found[version] = str(candidate)
                break
    return found


def version_of(python: str | Path) -> str:
    """The version of an interpreter, such as 3.12; nothing if it does not run, as pyenv's shims may not."""
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    done = subprocess.run([python, "-c", code], check=False, text=True, capture_output=True)
    return done.stdout.strip() if done.returncode == 0 else ""


def built(folder: Path) -> None:
    """Build both distributions, twice: `folder/first/NAME` then holds the wheel and the sdist of each."""
    epoch = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, check=False, text=True, capture_output=True)
    os.environ.setdefault("SOURCE_DATE_EPOCH", epoch.stdout.strip() or "1577836800")
    for name, root in (("drawahead", ROOT), ("drawahead_models", ROOT / "models")):
        first, second = folder / "first" / name, folder / "second" / name
        for part in (first, second):
            run(sys.executable, "-m", "build", "--outdir", part, root)
        if differ := differing(first, second):
            sys.exit(f"built twice, {', '.join(differ)} differ: what depends on the time or the order of files?")
        for file in sorted(first.iterdir()):
            say(f"{file.name}, built twice, both times the same: sha256 {digest(file)[:16]}...")


def differing(one: Path, other: Path) -> list[str]:
    """The names of files that are not the same in both folders, or are in one alone."""
    names = sorted({path.name for folder in (one, other) for path in folder.iterdir()})
    pairs = ((name, one / name, other / name) for name in names)
    return [name for name, a, b in pairs if not (a.is_file() and b.is_file() and digest(a) == digest(b))]


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def too_large(file: Path) -> str | None:
    """Why a wheel or an sdist is too large, if it is."""
    size, most = file.stat().st_size / 2**20, MOST_MEGABYTES[file.name.split("-")[0]][file.suffix]
    say(f"{file.name}: {size:.2f} MiB")
    return f"{file.name} has {size:.1f} MiB, more than {most}: what got into it?" if size > most else None


def looked_into(code: Path, models: Path) -> None:
    """Refuse what is too large, lacks something, or holds something strange."""
    for file in sorted([*code.iterdir(), *models.iterdir()]):
        if words := too_large(file):
            sys.exit(words)
    templates = {str(path.relative_to(ROOT / "src")) for path in (ROOT / "src" / "drawahead").glob("**/parts/*.*")}
    weights = {f"drawahead_models/{name}{suffix}" for name in NETWORKS for suffix in (".safetensors", ".md")}
    for folder, needed in ((code, {"drawahead/py.typed", *templates}), (models, weights)):
        (wheel,) = folder.glob("*.whl")
        package = wheel.name.split("-")[0]
        held = set(zipfile.ZipFile(wheel).namelist())
        lacks = sorted(needed - held)
        usual = (f"{package}/", f"{package}-")
        strange = sorted(name for name in held if not name.startswith(usual) or "__pycache__" in name)
        if lacks or strange:
            sys.exit(f"{wheel.name} lacks {lacks} and should not hold {strange}")
        if not any(name.endswith("/licenses/LICENSE") for name in held):
            sys.exit(f"{wheel.name} holds no licence")
    (source,) = code.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    if lacks := sorted(set(AS_SOURCE) - names):
        sys.exit(f"the sdist lacks {lacks}")


def keep(folder: Path, *built_: Path) -> None:
    """Leave what was built in a folder, with its hashes and its bill of materials, to be signed and published."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in built_:
        shutil.copy2(file, folder)
    (folder / "SHA256SUMS").write_text("".join(f"{digest(file)}  {file.name}\n" for file in built_))
    from sbom import bill  # beside this file

    (folder / "sbom.json").write_text(json.dumps(bill(), indent=1) + "\n")
    say(f"kept in {folder}")


def on_one_python(
    tried: Tried,
    version: str,
    interpreter: str,
    names: Iterable[str],
    wheel: Path,
    folder: Path,
    core: list[str],
    cpu: bool,
) -> None:
    """Try the wheel with each of these extras, each in a new environment that begins with torch and numpy alone."""
    base, home = folder / "base", folder / "environment"

    def prepare() -> None:
        shutil.rmtree(folder, ignore_errors=True)
        run(interpreter, "-m", "venv", base)
        if cpu and (heavy := with_cuda(base, core, folder / "plan.json")):
            raise Missing(f"this package index has no CPU build of it here: {heavy} packages of CUDA would come along")
        install(base, *core)

    def attempt(name: str) -> None:
        shutil.rmtree(home, ignore_errors=True)
        shutil.copytree(base, home, symlinks=True, copy_function=os.link)
        models = wheel.parent.with_name("drawahead_models")
        install(home, "--find-links", models, f"{wheel}" if name == "plain" else f"{wheel}[{name}]")
        run(home / "bin" / "python", "-m", "pip", "check")
        with tempfile.TemporaryDirectory() as away:  # nothing of the checkout is on the path
            # -P: the scripts have the names of the libraries they try
            run(home / "bin" / "python", "-P", SMOKE / f"{name}.py", cwd=away)

    if tried("torch", version, prepare):
        for name in names:
            tried(name, version, partial(attempt, name))


def install(home: Path, *wanted: object) -> None:
    """Install wheels only: a build from source fails in a compiler's words, or takes an hour."""
    try:
        run(*pip_install(home), "--quiet", *wanted)
    except Failed as error:
        if lacking := re.findall(r"No matching distribution found for (.+)", str(error)):
            raise Missing(f"this package index has no wheel of {lacking[0].strip()} for it") from error
        raise


def with_cuda(home: Path, core: list[str], plan: Path) -> int:
    """How many packages of CUDA the core would bring along."""
    run(*pip_install(home), "--quiet", "--dry-run", "--report", plan, *core)
    found = (item["metadata"]["name"].lower() for item in json.loads(plan.read_text())["install"])
    return sum(name.startswith(("nvidia", "cuda")) for name in found)


def pip_install(home: Path) -> list[object]:
    pins = home / "constraints.txt"  # of the same versions: with hashes pip would refuse what is built here
    entries = re.findall(r"(?m)^\w.*", (ROOT / "constraints.txt").read_text())
    pins.write_text("\n".join(entry.removesuffix(" \\") for entry in entries))
    rest = ("--disable-pip-version-check", "--only-binary", ":all:", "-c", pins)
    return [home / "bin" / "python", "-m", "pip", "install", *rest]


def run(*command: object, cwd: str | None = None) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    words = [str(part) for part in command]
    done = subprocess.run(
        words, cwd=cwd, env=environment, check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    if done.returncode:
        raise Failed(f"{' '.join(words)} ended with {done.returncode}:\n{done.stdout}")


def say(words: str) -> None:
    print(f"release-check: {words}", flush=True)


if __name__ == "__main__":
    try:
        main()
    except Failed as error:
        sys.exit(f"release-check: {error}")
