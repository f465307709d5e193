import drawahead as da


def make():
    return da.targets.Ising.grid(3, 3)


with da.Ray(make, workers=2) as cluster:
    drawn = da.sample(cluster.chain, 20, sampler=da.Block(), seed=0, executor=cluster)
assert (drawn.samples == da.sample(make(), 20, sampler=da.Block(), seed=0).samples).all()
