"""What strangers' files can do: nothing is executed, nothing is written outside the folder that was named."""

from __future__ import annotations

import ast
import json
import os
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
import safetensors.torch
import torch
from hypothesis import strategies as st

import drawahead as da
from drawahead.cli.app import run
from drawahead.proteins.mpnn.model import Weights
from tests.design.structures import save_weights
from tests.fuzz.fuzzing import fuzzed
from tests.jobs.forging import forged, old, sealed
from tests.test_docs import STAND_INS

SOURCE = Path(da.__file__).parent
MODULES = {"pickle", "cPickle", "_pickle", "cloudpickle", "dill", "joblib", "jsonpickle", "marshal", "shelve", "yaml"}
CALLS = {"eval", "exec", "compile", "__import__", "os.system", "os.popen", "tempfile.mktemp", "torch.jit.load"}
OPTIONS = {"shell", "allow_pickle", "trust_remote_code"}
"""Options of any call that may not be anything but False."""


def forbidden(source: str) -> Iterator[str]:
    """What a file of Python does that no file of the package may do."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            yield from (name for name in names if name.split(".")[0] in MODULES)
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        given = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
        if name in CALLS or name.removeprefix("builtins.") in CALLS:
            yield name
        if name.endswith("torch.load") and given.get("weights_only") != "True":
            yield "torch.load"
        yield from (f"{key}={value}" for key, value in given.items() if key in OPTIONS and value != "False")
        if isinstance(node.func, ast.Name) and node.func.id == "load":
            yield from _unsafe_load(source, given)


def _unsafe_load(source: str, given: dict[str | None, str]) -> Iterator[str]:
    """`load` under its own name is torch's if it was imported from there."""
    if "from torch import load" in source and given.get("weights_only") != "True":
        yield "torch.load"


def test_nothing_in_the_package_runs_what_it_reads() -> None:
    paths = sorted(SOURCE.rglob("*.py"))
    assert len(paths) > 100
    found = {str(path.relative_to(SOURCE)): list(forbidden(path.read_text(encoding="utf-8"))) for path in paths}
    assert not {path: names for path, names in found.items() if names}


@pytest.mark.parametrize(
    "line",
    [
        "import pickle",
        "import cloudpickle.fast",
        "from pickle import loads",
        "def f():\n    import dill",
        "torch.load(path)",
        "torch.load(path, weights_only=False)",
        "torch.load(path, weights_only=flag)",
        "from torch import load\nload(path)",
        "numpy.load(path, allow_pickle=True)",
        "eval(text)",
        "exec(code, {})",
        "builtins.eval(text)",
        "__import__(name)",
        "subprocess.run(words, shell=True)",
        "os.system('ls')",
        "import yaml",
        "tempfile.mktemp()",
        "AutoModel.from_pretrained(name, trust_remote_code=True)",
    ],
)
def test_the_test_above_can_fail(line: str) -> None:
    assert list(forbidden(line))


def test_and_does_not_cry_wolf() -> None:
    for line in (
        "model.eval()",
        "torch.load(path, map_location='cpu', weights_only=True)",
        "subprocess.run(words, shell=False)",
        "re.compile(pattern)",
        "load(name)",
    ):
        assert not list(forbidden(line))


class Bomb:
    """Unpickled, it makes a folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[[str], None], tuple[str]]:
        return os.mkdir, (str(self.path),)


def test_a_weight_file_cannot_run_code(tmp_path: Path) -> None:
    torch.save({"model_state_dict": Bomb(tmp_path / "burst"), "num_edges": 3}, tmp_path / "weights.pt")
    with pytest.raises(da.InputError, match=r"weights\.pt is not a ProteinMPNN weight file .* plain tensors") as caught:
        Weights.load(tmp_path / "weights.pt")
    assert not (tmp_path / "burst").exists()
    told = str(caught.value)
    assert "safetensors.torch.save_file" in told and "weights_only" not in told and "\n" not in told
    torch.load(tmp_path / "weights.pt", weights_only=False)  # the bomb does work
    assert (tmp_path / "burst").exists()


def test_weights_that_are_converted_as_the_message_says_are_read(tmp_path: Path) -> None:
    file = torch.load(save_weights(tmp_path), weights_only=True)
    numbers = {name: str(value) for name, value in file.items() if type(value) is int}
    safetensors.torch.save_file(file["model_state_dict"], tmp_path / "weights.safetensors", numbers)
    read = Weights.load(tmp_path / "weights.safetensors")
    assert read.neighbours == file["num_edges"] and read.tensors.keys() == file["model_state_dict"].keys()
    (tmp_path / "weights.safetensors").write_bytes(b"8" * 100)
    with pytest.raises(da.InputError, match="not a ProteinMPNN weight file"):
        Weights.load(tmp_path / "weights.safetensors")


@pytest.mark.parametrize("kind", STAND_INS)
def test_a_model_folder_cannot_run_code(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("transformers" if kind == "bert" else "diffusers")
    monkeypatch.chdir(tmp_path)
    STAND_INS[kind](tmp_path)
    code = "import os\nos.mkdir('burst')\n"
    index = tmp_path / ("config.json" if kind == "bert" else "model_index.json")
    told = json.loads(index.read_text())
    if kind == "bert":
        told |= {"model_type": "own", "auto_map": {"AutoConfig": "own.Own", "AutoModelForMaskedLM": "own.Own"}}
    else:
        told["unet"] = ["own", "Own"]
    index.write_text(json.dumps(told))
    assert run(["verify", str(tmp_path), "--num", "50"]) == 1
    for place in (tmp_path, tmp_path / "unet"):
        place.mkdir(exist_ok=True)
        (place / "own.py").write_text(code)
        assert run(["verify", str(tmp_path), "--num", "50"]) == 1
        assert "holds code" in capsys.readouterr().err
        (place / "own.py").unlink()
    assert not (tmp_path / "burst").exists()


def test_a_model_folder_with_pickled_weights_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    transformers = pytest.importorskip("transformers")
    STAND_INS["bert"](tmp_path)
    model = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path)
    torch.save(model.state_dict(), tmp_path / "pytorch_model.bin")
    (tmp_path / "model.safetensors").unlink()
    assert run(["verify", str(tmp_path), "--num", "50"]) == 1
    assert "cannot be loaded" in capsys.readouterr().err


TARGET = da.targets.Pairs(4)


def draw(folder: Path, *, resume: bool = False) -> da.jobs.Job:
    settings = {"name": "pairs", "options": {"size": 4}, "seed": 0, "shard_size": 2, "sampler": da.Coupled()}
    return da.jobs.draw(folder, TARGET, 4, resume=resume, **settings)


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[Path]:
    """A file that nobody may touch."""
    path = tmp_path / "precious.txt"
    path.write_text("precious")
    yield path
    assert path.read_text() == "precious" and not path.is_symlink()


@pytest.mark.parametrize("link", ["symbolic", "hard"])
@pytest.mark.parametrize(
    "name",
    ["lock", "manifest.json", ".manifest.json.tmp", "shards/000000.safetensors", "shards/.000001.safetensors.tmp"],
)
def test_links_in_a_job_folder_lead_nowhere(name: str, link: str, tmp_path: Path, outside: Path) -> None:
    """Going on with a stranger's folder: a link is refused or replaced, and what it leads to stays as it is."""
    folder = tmp_path / "job"
    draw(folder)
    (folder / "shards/000001.safetensors").unlink()  # so that there is something to draw
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to(outside) if link == "symbolic" else (folder / name).hardlink_to(outside)
    if name.endswith(".tmp"):
        draw(folder, resume=True)
    elif name.startswith("shards/"):
        for look in (da.jobs.read(folder).samples, lambda: da.jobs.read(folder).report):
            with pytest.raises(da.InputError, match=r"000000\.safetensors"):
                look()
        with pytest.warns(RuntimeWarning, match="damaged"):
            assert draw(folder, resume=True).complete and not (folder / name).is_symlink()
    else:
        with pytest.raises(da.DrawaheadError):
            draw(folder, resume=True)


def test_a_folder_of_shards_that_is_a_link_is_refused(tmp_path: Path) -> None:
    folder, away = tmp_path / "job", tmp_path / "away"
    draw(folder)
    (folder / "shards").rename(away)
    (folder / "shards").symlink_to(away)
    before = sorted(path.name for path in away.iterdir())
    for use in (lambda: da.jobs.read(folder).samples(), lambda: draw(folder, resume=True)):
        with pytest.raises(da.DrawaheadError, match=r"not a folder|is a link"):
            use()
    assert sorted(path.name for path in away.iterdir()) == before


@pytest.mark.parametrize("out", [[], ["--out", "job/report.html"]])
def test_a_page_does_not_follow_a_link_that_waits_for_it(
    out: list[str], tmp_path: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    draw(tmp_path / "job")
    page = tmp_path / "job/report.html"
    page.symlink_to(outside)
    assert run(["report", str(tmp_path / "job"), "--quiet", *out]) == 0
    assert not page.is_symlink() and "<html" in page.read_text()


NAMES = [
    "../000000.safetensors",
    "/etc/passwd",
    "000000.safetensors\0",
    "000000.safetensors/",
    "./000000.safetensors",
    "0" * 5000,
    "００００００.safetensors",  # noqa: RUF001  (digits that are other digits)
    "\u202e000000.safetensors",
    "000000.safetensors ",
    "000000\u2024safetensors",
    "",
]


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_names_in_a_manifest_lead_nowhere(name: str, tmp_path: Path) -> None:
    """Those of earlier versions list shards, which must have the names they have; ours name files of theirs alone."""
    old("sealed", tmp_path / "old")
    sealed(tmp_path / "old", lambda told: told["shards"][0].update(file=name))
    with pytest.raises(da.InputError, match="the file of a shard must be"):
        da.jobs.read(tmp_path / "old")
    draw(tmp_path / "job")
    sealed(tmp_path / "job", lambda told: told["records"].update({name: "0" * 64}))
    if len(name) <= 100:
        da.jobs.read(tmp_path / "job").verify()


@pytest.mark.parametrize(
    "name",
    [
        "0.safetensors",
        "0000000.safetensors",
        "\u0660\u0660\u0660\u0660\u0660\u0660.safetensors",
        "-00001.safetensors",
        "1e3.safetensors",
    ],
)
def test_files_with_other_names_are_no_shards(name: str, tmp_path: Path) -> None:
    draw(tmp_path)
    (tmp_path / "shards" / "000001.safetensors").rename(tmp_path / "shards" / name)
    assert da.jobs.read(tmp_path).finished == 2 and draw(tmp_path, resume=True).complete


def test_a_manifest_cannot_make_a_page_build_something_huge(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Sizes count only as far as the samples that are there bear them out."""
    draw(tmp_path)
    huge = {"steps": 2**40, "target": {"name": "dense", "options": {"size": 2**20}}}
    forged(tmp_path, lambda told: told.update(huge))
    assert run(["report", str(tmp_path)]) == 1
    assert "of size 1048576 has not" in capsys.readouterr().err
    forged(tmp_path, lambda told: told.update(shape=[2**30]))
    assert run(["report", str(tmp_path)]) == 1
    assert "does not hold 2 samples" in capsys.readouterr().err


class Seen(HTMLParser):
    """The elements of a page that could do something, and its texts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.active: list[str] = []
        self.texts: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        harmless = tag not in ("script", "style", "iframe", "link", "object", "embed", "form", "a", "base", "meta")
        if not harmless or any(name.startswith("on") or name in ("href", "src", "style") for name, _ in attributes):
            self.active.append(f"{tag} {dict(attributes)}")

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


REPORT = da.sample(TARGET, 2, sampler=da.Coupled(), seed=0).report
texts = st.text(max_size=20) | st.sampled_from(
    [
        "</script><script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        '" onmouseover="alert(1)',
        "]]><!--",
        "</title><meta http-equiv=refresh content=0>",
        "${title} $style {{ }} %s",
        "\ud800\0\u202e",
    ]
)


@fuzzed(60, title=texts, note=texts, name=texts, value=texts, samples=st.lists(texts, max_size=2))
def test_no_text_on_a_page_becomes_more_than_text(
    title: str, note: str, name: str, value: str, samples: list[str]
) -> None:
    plain = Seen(REPORT.to_html(title="t", note="n", about={"a": "b"}, samples=["s"] * len(samples)))
    seen = Seen(REPORT.to_html(title=title, note=note, about={name: value}, samples=samples))
    assert seen.active == plain.active
    if title.isascii() and title.strip() and title.isprintable():
        assert title in "".join(seen.texts)


SOAKS = {"An hour on a CPU": "cpu", "Seven minutes on an H200": "h200"}


@pytest.mark.parametrize("begins", SOAKS)
def test_the_page_says_what_the_soak_found(begins: str) -> None:
    root = Path(__file__).parents[1]
    found = json.loads((root / "docs/data/soak.json").read_text())["runners"][SOAKS[begins]]
    page = " ".join((root / "docs/safety.md").read_text().split()).split(begins)[1].split(" - ")[0]
    counts, held = found["counts"], found["early_late"]
    errors = counts["SamplingError"] + counts["InputError"]
    assert f"{sum(counts.values()):,} calls, of which {counts['KeyboardInterrupt']:,} ended by Ctrl-C" in page
    assert f"{errors:,} by an error that was meant; no other" in page and not (found["unexpected"] or found["grown"])
    for words, name in (
        ("Memory went", "megabytes"),
        ("memory of the GPU", "cuda_megabytes"),
        ("captured graphs", "graphs"),
        ("open files", "handles"),
        ("threads", "threads"),
        ("batches of captured rounds", "batches"),
    ):
        assert name not in held or f"{words} from {held[name][0]:.0f} to {held[name][1]:.0f}" in page
    if "ctrl_c" in found:
        pressed = found["ctrl_c"]
        assert f"{pressed['interrupted']} times, {pressed['inside_a_capture']} times while" in page
        assert not (pressed["wrong"] or pressed["unexpected"])
