from pathlib import Path

import drawahead as da

da.sample(da.targets.Pairs(8), 4, seed=0).report.plot("plot.png")
assert Path("plot.png").read_bytes()[:4] == b"\x89PNG"
