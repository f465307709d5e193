"""The pages of docs/ are their templates filled in from the recorded data, and nothing else."""

from __future__ import annotations

import copy
import importlib
from pathlib import Path

import pytest

from drawahead.errors import InputError
from studies import STUDIES, template
from studies.__main__ import main
from studies.study import DOCS, Study, data_path, save

MODULES = {name: importlib.import_module(module) for name, (module, _) in STUDIES.items()}
WITH_PAGE: dict[str, Study] = {name: module.STUDY for name, module in MODULES.items() if hasattr(module, "STUDY")}


@pytest.mark.parametrize("name", WITH_PAGE)
def test_a_page_is_that_of_its_data(name: str) -> None:
    study = WITH_PAGE[name]
    page = (DOCS / f"{study.page_name}.md").read_text()
    message = f"edit studies/pages, not the page, then run `make bench STUDY={name} OPTIONS=--page`"
    assert study.render(study.data(DOCS), page) == page, message


@pytest.mark.parametrize("name", WITH_PAGE)
def test_figures_of_a_page_are_there(name: str) -> None:
    study = WITH_PAGE[name]
    page = (DOCS / f"{study.page_name}.md").read_text()
    for figure in study.figures:
        assert f"(figures/{figure}.png)" in page and (DOCS / "figures" / f"{figure}.png").exists()


def test_every_template_belongs_to_a_study() -> None:
    assert {path.stem for path in template.PAGES.iterdir()} == {study.page_name for study in WITH_PAGE.values()}


def test_other_data_make_another_page() -> None:
    study = WITH_PAGE["rounds"]
    data = study.data(DOCS)
    other = copy.deepcopy(data)
    next(cell for cell in other[0]["measurements"] if cell["status"] == "measured")["rounds"] += 1
    assert study.render(other) != study.render(data)


def test_data_that_are_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"noise.json cannot be read .* measure first"):
        WITH_PAGE["noise"].data(tmp_path)
    data_path(tmp_path, "noise").parent.mkdir()
    data_path(tmp_path, "noise").write_text("{")
    with pytest.raises(InputError, match="cannot be read"):
        WITH_PAGE["noise"].data(tmp_path)
    save({"versions": {}, "seconds": 1.0}, data_path(tmp_path, "noise"))
    with pytest.raises(InputError, match="lack 'studies'"):
        WITH_PAGE["noise"].render(WITH_PAGE["noise"].data(tmp_path))


def test_a_page_is_written_again_from_its_data(tmp_path: Path) -> None:
    """One that is whole, and one that is a part of a page written by hand."""
    for name, page in (("lower-bound", "lower-bound"), ("peers", "counting")):
        save(WITH_PAGE[name].data(DOCS)[0], data_path(tmp_path, name))
        main([name, "--page", "--out", str(tmp_path)])
        assert (tmp_path / f"{page}.md").read_text() == (DOCS / f"{page}.md").read_text()


def test_studies_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    main([])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[2:]] == list(STUDIES)
    with pytest.raises(SystemExit, match="no study 'no-such'; there are rounds"):
        main(["no-such"])


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([name, "--help"])
    assert stopped.value.code == 0 and f"python -m studies {name}" in capsys.readouterr().out


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A template of the test's own."""
    monkeypatch.setattr(template, "PAGES", tmp_path)
    return tmp_path / "own.md"


def test_what_may_be_left_out_is_left_out(written: Path) -> None:
    written.write_text("# One\n\n{?Two $two.?}\n\nThree.{? Four $two.?} Five $five.\n\n```\na\n\n\nb $$\n```\n")
    rest = "\n\n```\na\n\n\nb $\n```\n"
    assert template.render("own", {"two": None, "five": "5"}) == f"# One\n\nThree. Five 5.{rest}"
    assert template.render("own", {"two": "2", "five": "5"}) == f"# One\n\nTwo 2.\n\nThree. Four 2. Five 5.{rest}"
    with pytest.raises(ValueError, match="five is None"):
        template.render("own", {"two": "2", "five": None})
    with pytest.raises(ValueError, match="no place for six"):
        template.render("own", {"two": "2", "five": "5", "six": "6"})
    with pytest.raises(KeyError, match="five"):
        template.render("own", {"two": "2"})


def test_only_what_has_numbers_is_filled_anew(written: Path) -> None:
    words = "word " * 30
    written.write_text(f"short\nlines\n\nshort\n$a\n\n* one\n  $a\n* {words}$a\n\n$table\n\n    code $a\n    code\n")
    page = template.render("own", {"a": "A", "table": "| x |\n| y |"})
    first, second, items, table, code = page.rstrip("\n").split("\n\n")
    assert (first, second, table, code) == ("short\nlines", "short A", "| x |\n| y |", "    code A\n    code")
    assert items.splitlines()[0] == "* one A" and items.splitlines()[2] == "  " + "word " * 7 + "A"
    assert max(map(len, page.splitlines())) <= template.WIDTH


def test_a_dash_does_not_begin_a_line(written: Path) -> None:
    for length in range(110, 125):
        lines = template.filled("x" * length + " - it would be a list").splitlines()
        assert not any(line.startswith("- ") for line in lines)


def test_sections_replace_those_of_the_page(written: Path) -> None:
    written.write_text("<!-- begin one -->\nOne $a.\n<!-- end one -->\n\n<!-- begin two -->\n$a\n<!-- end two -->\n")
    page = "Top\n<!-- begin two -->\nold\n\nold\n<!-- end two -->\nMiddle\n<!-- begin one -->\n<!-- end one -->\n"
    with pytest.raises(ValueError, match="no section one"):
        template.render("own", {"a": "1"}, page.replace("begin one", "begin no"))
    found = template.render("own", {"a": "1"}, page.replace("begin one -->\n", "begin one -->\nold\n"))
    assert found == page.replace("old\n\nold", "1").replace("begin one -->\n", "begin one -->\nOne 1.\n")
