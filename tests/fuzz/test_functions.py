"""Functions with strange arguments: checks of laws, pages, jobs, shipped networks, files of other programs."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from hypothesis import strategies as st

import drawahead as da
from drawahead import ardiffusion as ar
from drawahead import jobs, show, targets, teaching
from drawahead.laws import Categorical, Gaussian
from drawahead.proteins.structures.files import Backbone, made_up_backbone, read_pdb
from drawahead.samplers import Coupled
from drawahead.verification import statistics
from tests.fuzz.fuzzing import clear_errors, elsewhere, fuzzed, huge, only_our_errors, strange, tensors

TOKENS = targets.Pairs(4)
VECTORS = da.GaussianChain(targets.Hypercube(4), da.StochasticLocalization(9))
DRAWN = da.sample(TOKENS, 3, sampler=Coupled(), seed=0)
COIN = Categorical(torch.full((2, 3, 2), 0.5).log())
LEVEL = Gaussian(torch.zeros(2, 3, 4, dtype=torch.float64), torch.ones(2, 3, dtype=torch.float64))
PARTS = ar.Parts((4,), (2,))
CONFIG = ar.ModelConfig(PARTS, ar.MLPEncoder(4, 1), ar.MLPDenoiser(4, 1))
MODEL = ar.ARModel(CONFIG)

DOORS: dict[str, tuple[Callable[..., Any], Mapping[str, Any]]] = {
    "verify": (
        da.verify,
        {
            "target": TOKENS,
            "num_samples": 50,
            "samplers": (Coupled(),),
            "level": 0.01,
            "seed": 0,
            "with_power": False,
            "max_batch_size": None,
            "watch": None,
        },
    ),
    "verify vectors": (
        da.verify,
        {"target": VECTORS, "num_samples": 50, "samplers": (Coupled(),), "seed": 0, "with_power": True},
    ),
    "chi_square": (
        statistics.chi_square,
        {"counts": torch.tensor([5, 6, 7]), "probabilities": torch.tensor([0.25, 0.25, 0.5])},
    ),
    "two_sample": (statistics.two_sample, {"first": DRAWN.samples, "second": DRAWN.samples}),
    "kolmogorov": (statistics.kolmogorov, {"cdf_values": torch.tensor([0.1, 0.5])}),
    "kolmogorov_columns": (statistics.kolmogorov_columns, {"cdf_values": torch.tensor([[0.1, 0.5], [0.2, 0.9]])}),
    "two_sample_kolmogorov": (
        statistics.two_sample_kolmogorov,
        {"first": torch.tensor([0.1, 0.5]), "second": torch.tensor([0.1])},
    ),
    "two_sample_vectors": (statistics.two_sample_vectors, {"first": torch.eye(3), "second": torch.eye(3)}),
    "same_law": (statistics.same_law, {"first": torch.eye(3), "second": torch.eye(3)}),
    "tune": (da.tune, {"target": TOKENS, "num_samples": 2, "seed": 0, "max_batch_size": 2, "max_live": 2}),
    "rejection": (da.rejection, {"target": COIN, "draft": COIN, "bound": 1.5, "seed": 0}),
    "speculative_rejection": (da.speculative_rejection, {"target": LEVEL, "draft": LEVEL, "seed": 0}),
    "rejection of tables": (
        lambda log_probs, draft: da.rejection(Categorical(log_probs), Categorical(draft), 2.0),
        {"log_probs": COIN.log_probs, "draft": COIN.log_probs},
    ),
    "speculative_rejection of tables": (
        lambda mean, scale: da.speculative_rejection(Gaussian(mean, scale), LEVEL),
        {"mean": LEVEL.mean, "scale": LEVEL.scale},
    ),
    "NoisyDenoiser": (da.NoisyDenoiser, {"denoiser": lambda x, k: x, "error": 0.1, "seed": 0}),
    **{
        made.__name__: (made, {"network": lambda x, t: x, "schedule": da.DDPM((0.1,))})
        for made in (da.from_data_prediction, da.from_epsilon, da.from_score, da.from_velocity)
    },
    "Plan": (
        lambda **tables: da.sample(
            da.GaussianChain(lambda x, k: x, da.schedules.Given(da.schedules.Plan(**tables)), (2,))
        ),
        {**vars(da.DDPM((0.1, 0.1)).plan())},
    ),
    "region": (da.tilings.region, {"shape": "aztec", "size": 2}),
    "to_tokens": (da.networks.to_tokens, {"text": "a"}),
    "ar.law": (ar.law, {"chain": ar.chain(ar.GaussianParts(torch.eye(4), ar.Parts((4,), (2,))), da.DDPM((0.1, 0.1)))}),
    "to_html": (
        DRAWN.report.to_html,
        {"path": None, "title": "", "samples": None, "film": None, "about": None, "note": ""},
    ),
    "from_dict": (da.Report.from_dict, {"plain": DRAWN.report.to_dict()}),
    "gallery": (show.gallery, {"target": TOKENS, "result": DRAWN, "samples": 2, "view": None}),
    "film": (show.film, {"target": TOKENS, "result": DRAWN, "samples": 2, "view": None, "sampler": None}),
    "page": (
        show.page,
        {
            "target": TOKENS,
            "result": DRAWN,
            "path": None,
            "title": "",
            "samples": 2,
            "films": 1,
            "view": None,
            "sampler": None,
            "about": None,
            "note": "",
        },
    ),
    "Images": (lambda low, high: show.Images(low, high).picture(torch.eye(3)).html(""), {"low": 0.0, "high": 1.0}),
    "Vectors": (lambda reach: show.Vectors(reach).pixels(torch.eye(3), 9), {"reach": 1.0}),
    "Grids": (
        lambda columns, vocab_size: show.Grids(columns, vocab_size).picture(torch.tensor([0, 1, 0])).html(""),
        {"columns": 2, "vocab_size": 2},
    ),
    "Texts": (
        lambda letters, blanks: show.Texts(letters, blanks).picture(torch.tensor([0, 1])).html(""),
        {"letters": lambda s: "ab", "blanks": (0,)},
    ),
    "jobs.draw": (
        jobs.draw,
        {
            "folder": "job",
            "target": TOKENS,
            "num_samples": 3,
            "name": "pairs",
            "options": {"size": 4},
            "resume": True,
            "any_version": False,
            "shard_size": 2,
            "sampler": Coupled(),
            "seed": 0,
            "max_batch_size": None,
            "max_live": 2,
            "executor": None,
            "graphs": None,
            "on_round": None,
            "stop": None,
            "progress": None,
        },
    ),
    "jobs.read": (jobs.read, {"folder": "job"}),
    "jobs.export": (lambda path: jobs.export(_job(), path), {"path": "samples.npz"}),
    "jobs.mend": (
        lambda target, sampler, any_version: jobs.mend(_job().folder, target, sampler=sampler, any_version=any_version),
        {"target": TOKENS, "sampler": None, "any_version": False},
    ),
    "tilings.needs": (da.tilings.needs, {"shape": "dominoes", "size": 4}),
    "targets.draw_directly": (
        targets.draw_directly,
        {"target": targets.DPP(L=torch.eye(3, dtype=torch.float64)), "num_samples": 2, "seed": 0},
    ),
    "Job.samples": (lambda first, count: _job().samples(first, count), {"first": 0, "count": 1}),
    "animation": (lambda film, path: show.animation(film, path), {"film": show.film(TOKENS, DRAWN, 1), "path": None}),
    "explain": (teaching.explain, {"samplers": ["sequential"], "path": None, "seed": 4}),
    "job_film": (
        lambda target, films, view: show.job_film(_job(), target=target, films=films, view=view),
        {"target": TOKENS, "films": 1, "view": None},
    ),
    "job_page": (
        lambda path, target, samples, films, view: show.job_page(
            _job(), path, target=target, samples=samples, films=films, view=view
        ),
        {"path": None, "target": TOKENS, "samples": 1, "films": 1, "view": None},
    ),
    "networks.text": (da.networks.text, {"length": 3, "temperature": 0.5, "device": "cpu", "dtype": torch.float32}),
    "networks.infilling": (
        da.networks.infilling,
        {"prompt": "a_", "temperature": 0.5, "device": "cpu", "dtype": torch.float32},
    ),
    "networks.fashion": (da.networks.fashion, {"steps": 3, "device": "cpu", "dtype": torch.float32}),
    "networks.emoji": (
        da.networks.emoji,
        {
            "prompts": "red apple",
            "guidance": 2.0,
            "steps": 3,
            "learned_range": False,
            "device": "cpu",
            "dtype": torch.float32,
        },
    ),
    "networks.to_text": (da.networks.to_text, {"tokens": torch.tensor([1, 2])}),
    "ARModel": (ar.ARModel, {"config": CONFIG, "seed": 0}),
    "ar.sample": (
        ar.sample,
        {
            "conditionals": MODEL,
            "num_samples": 2,
            "inner": da.OUExponential((1.0, 0.5)),
            "sampler": Coupled(),
            "seed": 0,
            "max_live": 2,
        },
    ),
    "ar.RTK": (ar.RTK, {"kernel": da.rtk.ULD(0.1, 1.0, 2), "segments": da.rtk.Segments((1.0, 0.5)), "spread": 0.5}),
    "Training": (
        lambda **given: ar.train(CONFIG, torch.ones(3, 4), training=ar.Training(**given)),
        {"steps": 2, "batch": 2, "rate": 0.01, "warmup": 1, "average": 0.5, "decay": 0.1, "clip": 1.0, "seed": 0},
    ),
    "train": (
        ar.train,
        {
            "config": CONFIG,
            "data": torch.ones(3, 4),
            "training": ar.Training(steps=1, batch=2),
            "out": None,
            "device": "cpu",
            "on_progress": None,
        },
    ),
    "GaussianParts": (ar.GaussianParts, {"covariance": torch.eye(4), "parts": PARTS, "mean": torch.zeros(4)}),
    "ar.load": (ar.load, {"folder": "model", "device": "cpu"}),
    "Backbone": (
        Backbone,
        {"coordinates": torch.ones(2, 4, 3), "chain": ("A", "B"), "index": torch.arange(2), "sequence": "AC"},
    ),
    "made_up_backbone": (made_up_backbone, {"length": 2, "seed": 0}),
    "read_pdb": (read_pdb, {"path": "no.pdb"}),
    "ProteinMPNN": (
        da.adapters.ProteinMPNN,
        {"weights": "no.pt", "structure": torch.ones(2, 4, 3), "temperature": 0.1, "omit": "X", "bias": None},
    ),
    "Weights.load": (da.proteins.mpnn.encoder.Weights.load, {"path": "no.pt"}),
    "Tilings": (
        lambda matching: da.counting.Tilings(matching).picture(torch.tensor([0, 1, 0, 1])),
        {"matching": da.tilings.dominoes("square", 2)},
    ),
}


@functools.cache
def _job() -> jobs.Job:
    return jobs.draw(tempfile.mkdtemp(), TOKENS, 3, name="pairs", seed=0, shard_size=2, sampler=Coupled())


def values_of(argument: str) -> st.SearchStrategy[Any]:
    """What an argument may be. A function of the caller's own may fail as it likes."""
    if argument in ("letters", "on_progress"):
        return strange.filter(lambda value: not callable(value))
    return strange | huge if argument == "seed" else strange | tensors()


@pytest.mark.parametrize("name", DOORS)
def test_what_is_right_is_done(name: str) -> None:
    call, arguments = DOORS[name]
    with elsewhere(), only_our_errors():
        call(**arguments)


@fuzzed(400, name=st.sampled_from(sorted(DOORS)), data=st.data())
def test_one_or_two_strange_arguments(name: str, data: st.DataObject) -> None:
    call, arguments = DOORS[name]
    odd = data.draw(st.lists(st.sampled_from(sorted(arguments)), min_size=1, max_size=2, unique=True))
    changed = {key: data.draw(values_of(key), key) for key in odd}
    with elsewhere(), clear_errors(arguments, changed):
        call(**{**arguments, **changed})
