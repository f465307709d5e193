"""Data are cut into parts, and come back."""

from __future__ import annotations

import pytest
import torch

import drawahead as da
from drawahead import ardiffusion as ar


@pytest.mark.parametrize(
    "parts",
    [
        ar.Parts((12,), (3,)),
        ar.Parts((6, 8), (3, 2)),
        ar.Parts((3, 4, 6), (1, 2, 3)),
        ar.Parts.rows(5, 4),
        ar.Parts.undivided((2, 3)),
    ],
    ids=str,
)
def test_what_is_split_comes_back(parts: ar.Parts) -> None:
    data = torch.randn(7, *parts.shape, generator=torch.Generator().manual_seed(0))
    cut = parts.split(data)
    assert cut.shape == (7, parts.number, parts.size)
    assert torch.equal(parts.join(cut), data)


def test_the_parts_of_an_image_are_its_patches_in_reading_order() -> None:
    image = torch.arange(32).view(1, 4, 8)
    cut = ar.Parts((4, 8), (2, 2)).split(image)
    assert torch.equal(cut[0, 1].view(2, 4), image[0, :2, 4:])
    assert torch.equal(cut[0, 2].view(2, 4), image[0, 2:, :4])
    assert torch.equal(ar.Parts.rows(4, 8).split(image)[0], image[0])


@pytest.mark.parametrize(("shape", "grid"), [((5,), (2,)), ((4, 4), (2,)), ((), ()), ((4,), (0,)), ((4,), (2.0,))])
def test_grids_that_do_not_fit_are_refused(shape: tuple[int, ...], grid: tuple[int, ...]) -> None:
    with pytest.raises(da.InputError):
        ar.Parts(shape, grid)


def test_data_that_do_not_fit_are_refused() -> None:
    parts = ar.Parts((4, 4), (2, 2))
    with pytest.raises(da.InputError, match="data must have shape"):
        parts.split(torch.zeros(3, 4, 5))
    with pytest.raises(da.InputError, match="parts must have shape"):
        parts.join(torch.zeros(3, 4, 5))
