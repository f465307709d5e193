"""Sequences for folders of protein structures: ProteinMPNN as a tool."""

from drawahead.proteins.design.folder import Designed, Native, Part
from drawahead.proteins.design.job import DesignJob, run, settings
from drawahead.proteins.design.options import Options
from drawahead.proteins.design.page import page

__all__ = ["DesignJob", "Designed", "Native", "Options", "Part", "page", "run", "settings"]


def __dir__() -> list[str]:
    return __all__
