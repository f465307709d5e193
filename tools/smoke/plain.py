"""torch and numpy alone: samplers and targets work, and what needs an extra says which."""

import sys

import drawahead as da

assert da.sample(da.targets.Ising.grid(3, 3), 10, seed=0).samples.shape == (10, 9)
chain = da.GaussianChain(da.targets.Hypercube(8), da.StochasticLocalization(32, radius=1.0, delta=0.05))
report = da.sample(chain, 4, sampler=da.Coupled(), seed=0).report
assert report.exact and report.rounds < 32 and "rounds" in str(report)
assert da.verify(da.targets.Pairs(4), 60).passed
assert report.to_html().startswith("<!")
heavy = {"typer", "rich", "matplotlib", "transformers", "diffusers", "safetensors", "networkx", "ray", "sklearn"}
assert not heavy & set(sys.modules), heavy & set(sys.modules)


def refused(extra, call):
    try:
        call()
    except da.InputError as error:
        assert extra in str(error), error
    else:
        raise AssertionError(f"{extra} was not asked for")


refused("digits", da.targets.DataSet.digits)
refused("models", da.networks.text)
refused("plots", report.plot)
