"""How rounds and queries grow with the length. The same as `drawahead bench rounds`, without the command line."""

import argparse
from pathlib import Path

from drawahead.bench.rounds import run

if __name__ == "__main__":  # worker processes import this file
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="up to 256 steps only")
    parser.add_argument("--out", type=Path, default=Path("docs"), help="the folder for page, data and figure")
    parser.add_argument("--workers", type=int, default=2, help="processes that measure side by side")
    arguments = parser.parse_args()
    for path in run(arguments.out, quick=arguments.quick, workers=arguments.workers):
        print(f"wrote {path}")
