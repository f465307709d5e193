import drawahead as da

result = da.sample(da.networks.text(32), 1, seed=0)
assert len(da.networks.to_text(result.samples[0])) == 32
assert da.sample(da.networks.fashion(4), 1, seed=0).samples.shape == (1, 28, 28)
