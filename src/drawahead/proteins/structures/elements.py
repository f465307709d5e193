"""The periodic table: the number, group and period of every element."""

from __future__ import annotations

import re

SYMBOLS = re.findall(
    "[A-Z][a-z]?",
    "HHeLiBeBCNOFNeNaMgAlSiPSClArKCaScTiVCrMnFeCoNiCuZnGaGeAsSeBrKrRbSrYZrNbMoTcRuRhPdAgCdInSnSbTeIXeCsBa"
    "LaCePrNdPmSmEuGdTbDyHoErTmYbLuHfTaWReOsIrPtAuHgTlPbBiPoAtRnFrRaAcThPaUNpPuAmCmBkCfEsFmMdNoLrRfDbSgBhHsMtDsRgCnNhFlMcLvTsOg",
)
NUMBERS = {symbol.upper(): i for i, symbol in enumerate(SYMBOLS, 1)}
_PERIODS = (2, 8, 8, 18, 18, 32, 32)  # how many elements each has
# The lanthanides and actinides all count as of group 3.
_GROUPS = {
    2: [1, 18],
    8: [1, 2, *range(13, 19)],
    18: list(range(1, 19)),
    32: [1, 2, *[3] * 15, *range(4, 19)],
}
PERIOD = [0, *(period for period, size in enumerate(_PERIODS, 1) for _ in range(size))]
"""Of the element with each number; of number 0, which is none, 0."""
GROUP = [0, *(group for size in _PERIODS for group in _GROUPS[size])]
