"""The README and the pages cannot drift: their code runs, their tables are those of the registries."""

import re
from pathlib import Path

import pytest

from drawahead.samplers import SAMPLERS

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCKS = [
    pytest.param(block, id=f"{page.stem}-{i}")
    for page in PAGES
    for i, block in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL))
]


@pytest.mark.parametrize("block", BLOCKS)
def test_every_python_block_runs(block: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    checked: dict[str, object] = {"__name__": "__docs__"}
    exec(compile(block, "docs", "exec"), checked)  # raises if the page is wrong
    assert "da" in checked


def test_the_readme_lists_every_sampler_with_its_guarantee() -> None:
    readme = (ROOT / "README.md").read_text()
    for sampler in SAMPLERS.values():
        promise = sampler.guarantee
        exact = "yes" if promise.exact else "no"
        assert f"| `{sampler.__name__}` | {exact} | {promise.rounds} | {promise.reference} |" in readme


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)#]+?)\)", page.read_text()):
        assert link.startswith("http") or (page.parent / link).exists(), link
