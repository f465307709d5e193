import networkx

import drawahead as da

matching = da.targets.PlanarMatching(networkx.grid_2d_graph(4, 4))
assert len(matching.matchings(da.sample(matching, 1, sampler=da.Separated(), seed=0).samples)[0]) == 8
