"""What a release is made of: one version, a changelog, a citation, files that are the same when built again."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from pathlib import Path

import pytest

import drawahead
from drawahead.cli.app import run
from tools import release_check, sbom

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_the_version_is_written_once() -> None:
    assert "version" in PROJECT["project"]["dynamic"] and "version" not in PROJECT["project"]
    assert PROJECT["tool"]["hatch"]["version"]["path"] == "src/drawahead/__init__.py"
    assert sbom.bill()["metadata"]["component"]["version"] == drawahead.__version__
    assert not re.search(r"(?m)^version:", (ROOT / "CITATION.cff").read_text())


def test_the_changelog_begins_with_what_is_not_released() -> None:
    text = (ROOT / "CHANGELOG.md").read_text()
    versions = re.findall(r"(?m)^## \[(.+?)\]", text)
    assert versions[0] == "Unreleased"
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in versions[1:])
    kinds = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    assert set(re.findall(r"(?m)^### (.+)$", text)) <= kinds
    assert all(len(line) <= 120 for line in text.splitlines())


def test_the_citation_names_the_paper() -> None:
    yaml = pytest.importorskip("yaml")  # comes with transformers
    found = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert found["cff-version"] == "1.2.0" and found["type"] == "software" and found["license"] == "MIT"
    (paper,) = found["references"]
    assert paper["identifiers"][0]["value"] == "arXiv:2511.07869" and len(paper["authors"]) == 7


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "CHANGELOG.md", "docs/release.md"])
def test_what_pages_name_is_there(page: str) -> None:
    path = ROOT / page
    text = path.read_text()
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", text)
    assert links and all((path.parent / link).exists() for link in links)
    package = ROOT / "src" / "drawahead"
    for name in re.findall(r"`((?:[\w.]+/)+[\w.]+\.\w+)`", text):
        if not name.startswith("adapters/yours") and "yours" not in name:
            assert (ROOT / name).exists() or (package / name).exists(), name
    for words in re.findall(r"\.venv/bin/pytest -q (\S+)", text):
        assert (ROOT / words).exists()


def test_the_bill_of_materials_holds_every_dependency_once() -> None:
    bill = sbom.bill()
    names = [component["name"].lower() for component in bill["components"]]
    pairs = [(one["name"], one.get("version")) for one in bill["components"]]
    assert bill["specVersion"] == "1.6" and len(pairs) == len(set(pairs)) and len(names) > 120
    assert all(one["hashes"] for one in bill["components"] if one["type"] == "library")
    core = {component["name"] for component in bill["components"] if component.get("scope") == "required"}
    assert {"torch", "numpy"} <= core and {"text", "fashion", "typer"} <= set(names) and "typer" not in core
    assert bill["metadata"]["component"]["version"] == drawahead.__version__


def test_built_twice_is_compared(tmp_path: Path) -> None:
    for folder, rest in (("a", b"x"), ("b", b"y")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "same.whl").write_bytes(b"same")
        (tmp_path / folder / "other.whl").write_bytes(rest)
    (tmp_path / "a" / "one.whl").write_bytes(b"alone")
    assert release_check.differing(tmp_path / "a", tmp_path / "b") == ["one.whl", "other.whl"]
    assert release_check.differing(tmp_path / "a", tmp_path / "a") == []


def test_a_wheel_with_weights_is_too_large(tmp_path: Path) -> None:
    for package, refused in (("drawahead", True), ("drawahead_models", False)):
        wheel = tmp_path / f"{package}-1.0.0-py3-none-any.whl"
        wheel.write_bytes(b"x" * 2**22)
        assert (release_check.too_large(wheel) is not None) is refused


def test_weights_are_in_a_package_of_their_own() -> None:
    assert not list((ROOT / "src").glob("**/*.safetensors")) and list((ROOT / "models").glob("**/*.safetensors"))
    models = tomllib.loads((ROOT / "models/pyproject.toml").read_text())["project"]
    (wanted,) = (line for line in PROJECT["project"]["optional-dependencies"]["models"] if "models" in line)
    assert wanted == f"{models['name']}>=1,<2" and models["version"].startswith("1.")


def test_the_package_index_is_told_what_is_tried() -> None:
    """Classifiers name the Pythons of `make release-check`, the licence is an expression, and no link is made up."""
    models = tomllib.loads((ROOT / "models/pyproject.toml").read_text())["project"]
    for project in (PROJECT["project"], models):
        kinds = project["classifiers"]
        assert kinds == sorted(set(kinds), key=kinds.index) and not any("License ::" in kind for kind in kinds)
        assert project["requires-python"] == ">=3.11" and project["license"] and project["description"]
        assert 3 < len(project["keywords"]) == len(set(project["keywords"]))
        assert "urls" not in project  # there is no public address yet
    pythons = [kind.rpartition(" :: ")[2] for kind in PROJECT["project"]["classifiers"] if ":: 3." in kind]
    assert pythons == list(release_check.VERSIONS)
    assert {"diffusion", "speculative sampling"} <= set(PROJECT["project"]["keywords"])


def test_the_conda_recipe_agrees_with_the_packages() -> None:
    yaml = pytest.importorskip("yaml")  # comes with transformers
    recipe = yaml.safe_load((ROOT / "conda/recipe.yaml").read_text())
    models = tomllib.loads((ROOT / "models/pyproject.toml").read_text())
    context = recipe["context"]
    assert (context["version"], context["models_version"]) == (drawahead.__version__, models["project"]["version"])
    optional = PROJECT["project"]["optional-dependencies"]
    bundled = [line for line in (*optional["cli"], *optional["models"]) if "[" not in line]
    lines = [*PROJECT["project"]["dependencies"], *bundled]
    wanted = {"drawahead": lines, "drawahead-models": []}
    for output, project in zip(recipe["outputs"], (models, PROJECT), strict=True):
        name, needs = project["project"]["name"], output["requirements"]
        assert output["package"]["name"] == name and output["build"]["noarch"] == "python"
        python, *others = (line.replace("${{ python_min }}", context["python_min"]) for line in needs["run"])
        assert python.replace("python ", "") == project["project"]["requires-python"]
        assert [line.replace(" ", "").replace("pytorch", "torch") for line in others] == wanted[name]
        assert "".join(needs["host"][-1].split()) == project["build-system"]["requires"][0]
        about = output["about"]
        assert (about["summary"], about["license"]) == tuple(
            project["project"][key] for key in ("description", "license")
        )
    (point,) = recipe["outputs"][1]["build"]["python"]["entry_points"]
    assert point == "drawahead = " + PROJECT["project"]["scripts"]["drawahead"]


def test_what_the_conda_recipe_runs_works(capsys: pytest.CaptureFixture[str]) -> None:
    yaml = pytest.importorskip("yaml")
    recipe = yaml.safe_load((ROOT / "conda/recipe.yaml").read_text())
    scripts = [test["script"] for test in recipe["outputs"][1]["tests"] if "script" in test]
    for line in scripts[0]:
        assert run(line.split()[1:]) == 0 and capsys.readouterr().out


def test_everything_is_tried_and_what_cannot_be_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    tried = release_check.Tried()

    def ends(error: Exception | None) -> None:
        if error is not None:
            raise error

    outcomes = {
        "plain": None,
        "ray": release_check.Missing("there is no wheel"),
        "cli": release_check.Failed("it broke"),
    }
    for name, error in outcomes.items():
        assert tried(name, "3.13", lambda error=error: ends(error)) == (error is None)
    assert tried.works == ["plain on Python 3.13"] and tried.failed == ["cli on Python 3.13"]
    assert tried.left == ["ray on Python 3.13"] and tried.nowhere(outcomes) == ["ray"]
    shown = capsys.readouterr().out
    assert (
        "ray on Python 3.13: not tried, there is no wheel" in shown and "cli on Python 3.13: FAILED, it broke" in shown
    )


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("print('ERROR: No matching distribution found for ray>=2.40'); exit(1)", "no wheel of ray>=2.40 for it"),
        ("print('ERROR: ResolutionImpossible'); exit(1)", "ResolutionImpossible"),
    ],
)
def test_a_wheel_that_is_not_there_is_told_from_a_failure(
    code: str, error: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "pip.py").write_text(code)
    monkeypatch.setattr(release_check, "pip_install", lambda home: [sys.executable, home / "pip.py"])
    kind = release_check.Missing if "wheel" in error else release_check.Failed
    with pytest.raises(kind, match=re.escape(error)):
        release_check.install(tmp_path, "anything")


def test_interpreters_that_are_not_there_are_left_out() -> None:
    here = "{}.{}".format(*sys.version_info)
    found = release_check.interpreters([here, "2.99"])
    assert found == {here: sys.executable} and release_check.version_of(sys.executable) == here


def test_the_first_sample_takes_what_was_measured() -> None:
    figures = json.loads((ROOT / "docs/data/first_sample.json").read_text())
    page = (ROOT / "docs/release.md").read_text()
    assert all(
        f"| {name.partition(',')[0]} | {value} {name.split(', ')[1]} |" in page for name, value in figures.items()
    )
    assert figures["base wheel, MB"] < 1
