import drawahead as da

chain = da.GaussianChain(da.targets.DataSet.digits(), da.DDPM(da.schedules.linear_betas(20)))
assert da.sample(chain, 2, seed=0).samples.shape == (2, 8, 8)
