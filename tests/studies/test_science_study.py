"""The study of a denoiser of power spectra runs on a CPU with a stand-in, and its section says what was measured."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from studies.__main__ import main
from studies.science import STUDY, bands
from studies.spectra import CHOSEN
from studies.study import data_path, read


def test_it_runs_and_says_so(tmp_path: Path) -> None:
    main(["science", "--no-page", "--out", str(tmp_path), "--device", "cpu"])
    data = read(data_path(tmp_path, "science"))
    assert [row["redshift"] for row in data["laws"]] == [6.0, 9.0]
    assert all(row["drawahead"]["p_value"] > 1e-3 > row["ode"]["p_value"] for row in data["laws"])  # the seed is fixed
    values = STUDY.values(data)
    assert values["speeds"] is not None and values["speeds"].count("| float16 |") == 2
    assert values["halves"] is not None and values["halves"].count("| float16 | ahead |") == 2
    main(["science", "--no-page", "--out", str(tmp_path), "--device", "cpu", "--parts", "laws"])
    assert not read(data_path(tmp_path, "science"))["rows"]
    pytest.importorskip("matplotlib")
    bands(data, tmp_path / "bands.png")
    assert (tmp_path / "bands.png").stat().st_size > 1000


def test_before_it_was_measured_its_section_is_empty() -> None:
    assert not any(STUDY.values(None).values())


def test_spectra_are_chosen_from_the_whole_file(tmp_path: Path) -> None:
    count = max(CHOSEN) + 1
    whole = {
        name: np.arange(count, dtype=float) for name in ("deltasq_realisations", "true_deltasq_means", "redshifts")
    }
    np.savez(tmp_path / "whole.npz", kperp_over_Mpc=np.ones(32), kpar_over_Mpc=np.ones(16), **whole)
    with pytest.raises(SystemExit, match="wrote"):
        main(["science", "--shorten", str(tmp_path / "whole.npz"), str(tmp_path / "part.npz"), "--no-page"])
    with np.load(tmp_path / "part.npz") as file:
        assert file["redshifts"].tolist() == list(CHOSEN)
