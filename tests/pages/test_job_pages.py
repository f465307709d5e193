"""`drawahead report`: pages about jobs on disk, whatever is in their folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

import drawahead as da
from drawahead.cli.app import app
from drawahead.jobs.commands.report import subject_of
from tests.jobs.forging import forged
from tests.pages.reading import Read, pictures_chain, uniform_chain


def run(*arguments: object) -> Any:
    return CliRunner().invoke(app, ["report", *map(str, arguments)], catch_exceptions=False)


def drawn(folder: Path, name: str, num: int = 40, **options: Any) -> da.jobs.Job:
    """A job as the command line begins it."""
    target = da.tilings.dominoes("square", options["size"]) if name == "dominoes" else da.targets.named(name, **options)
    sampler = da.Separated() if name == "dominoes" else da.Coupled()
    return da.jobs.draw(
        folder, target, num, name=name, options=options, seed=1, shard_size=min(num, 16), sampler=sampler
    )


def test_the_page_of_a_job(tmp_path: Path) -> None:
    job = drawn(tmp_path / "job", "ising", size=3)
    done = run(tmp_path / "job")
    assert done.exit_code == 0 and done.stdout == f"wrote {tmp_path / 'job' / 'report.html'}\n"
    page = Read((tmp_path / "job" / "report.html").read_text(encoding="utf-8"))
    assert page.text("title") == ["ising"] and "The first 24 of 40." in page.text("p")
    assert page.data["rounds"]["queries"] == list(job.report.widths)
    assert page.data["rounds"]["drafts"] == list(job.report.drafts)
    reels = page.data["film"]["reels"]
    assert [tuple(reel["progress"]) for reel in reels] == [job.report.progress[number] for number in range(4)]
    told = dict(zip(page.text("th"), page.text("td"), strict=True))
    assert told["target"] == "ising" and told["options"] == "size 3"
    assert told["samples requested"] == "40, in shards of 16" and told["drawn with"].startswith("drawahead ")
    again = run(tmp_path / "job", "--out", tmp_path / "x.html", "--films", 0, "--num", 2, "--json")
    assert json.loads(again.stdout) == {
        "folder": str(tmp_path / "job"),
        "page": str(tmp_path / "x.html"),
        "samples": 40,
        "complete": True,
    }
    page = Read((tmp_path / "x.html").read_text(encoding="utf-8"))
    assert page.data["film"] is None and len(page.all("figure")) == 2
    assert run(tmp_path / "job", "--quiet").stdout == ""


def test_what_is_finished_of_a_job(tmp_path: Path) -> None:
    class Soon:
        looks = 0

        def is_set(self) -> bool:
            Soon.looks += 1
            return Soon.looks > 12

    target = da.targets.named("pairs", 8)
    job = da.jobs.draw(
        tmp_path / "job", target, 64, name="pairs", options={"size": 8}, seed=0, shard_size=8, sampler=da.Sequential(),
        stop=Soon(),
    )  # fmt: skip
    assert 0 < job.num_samples < 64
    page = Read(da.show.job_page(job, target=target))
    assert f"The job is not complete: it has {job.num_samples} of 64 samples." in page.text("p")
    assert page.text("h1") == ["8 steps in 8 rounds per sample: as many as one by one."]


def test_images_and_dominoes_are_drawn_again_for_the_film(tmp_path: Path) -> None:
    job = drawn(tmp_path / "dominoes", "dominoes", 3, size=4)
    subject = subject_of(job)
    assert subject is not None
    reels = Read(da.show.job_page(job, target=subject.chain)).data["film"]["reels"]
    assert [tuple(reel["progress"]) for reel in reels] == list(job.report.progress.values())
    chain = pictures_chain()
    job = da.jobs.draw(tmp_path / "images", chain, 3, name="mine", seed=0, sampler=da.Block(window=8))
    page = Read(da.show.job_page(job, target=chain, films=2))
    assert [tuple(reel["progress"]) for reel in page.data["film"]["reels"]] == [job.report.progress[i] for i in (0, 1)]
    assert len(page.all("img")) == 3 and subject_of(job) is None
    plain = Read(da.show.job_page(job))  # without its target: images by their shape, and no film
    assert [image["src"] for image in plain.all("img")] == [image["src"] for image in page.all("img")]
    assert plain.data["film"] is None
    done = run(tmp_path / "images")
    assert "not one of drawahead's own targets" in done.stdout and done.exit_code == 0


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("ising", {"size": "3"}),
        ("ising", {"size": True}),
        ("ising", {"size": -3}),
        ("ising", {"size": 10**9}),
        ("ising", {"size": 4}),
        ("ising", {"size": 3, "exec": "x"}),
        ("ising", {"size": 3, "dtype": "float64"}),
        ("text", {"prompt": ["_"]}),
        ("fashion", {"steps": 1.5}),
        ("os:system", {}),
    ],
)
def test_nothing_that_a_folder_names_is_imported_or_believed(
    tmp_path: Path, name: str, options: dict[str, Any]
) -> None:
    drawn(tmp_path / "job", "ising", 4, size=3)
    forged(tmp_path / "job", lambda found: found.update(target={"name": name, "options": options}))
    if name == "os:system":  # only what the user names is imported
        assert subject_of(da.jobs.read(tmp_path / "job")) is None and run(tmp_path / "job").exit_code == 0
    else:
        with pytest.raises(da.InputError):
            run(tmp_path / "job")


def test_a_model_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import drawahead as da\n\ndef model():\n    return da.targets.Ising.grid(3, 3)\n"
    )
    name = f"{tmp_path / 'mine.py'}:model"
    da.jobs.draw(tmp_path / "job", da.targets.Ising.grid(3, 3), 4, name=name, seed=0, sampler=da.Coupled())
    assert "not one of drawahead's own" in run(tmp_path / "job").stdout
    page = Read((tmp_path / "job" / "report.html").read_text(encoding="utf-8"))
    assert page.data["film"] is None and not page.all("rect")
    run(tmp_path / "job", "--target", name)
    page = Read((tmp_path / "job" / "report.html").read_text(encoding="utf-8"))
    assert len(page.data["film"]["reels"]) == 4 and len(page.all("rect")) == 36


def test_samples_of_another_target_are_refused(tmp_path: Path) -> None:
    job = drawn(tmp_path / "job", "ising", 4, size=3)
    for other in (da.targets.named("ising", 4), uniform_chain(9, 1), pictures_chain()):
        with pytest.raises(da.InputError, match="not of the target"):
            da.show.job_page(job, target=other)
    job = da.jobs.draw(tmp_path / "own", uniform_chain(9, 7), 30, name="own", seed=0, sampler=da.Block())
    assert int(job.samples().max()) == 6
    with pytest.raises(da.InputError, match="not of the target"):
        da.show.job_page(job, target=uniform_chain(9, 3))
    with pytest.raises(da.InputError, match="there is no folder"):
        run(tmp_path / "job", "--out", tmp_path / "none" / "x.html")
    assert torch.equal(job.samples(0, 2), job.samples()[:2])
