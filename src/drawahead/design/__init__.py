"""Sequences for folders of protein structures: ProteinMPNN as a tool."""

from drawahead.design.fasta import Designed, Native
from drawahead.design.folder import Part
from drawahead.design.job import Job, run, settings
from drawahead.design.options import Options
from drawahead.design.page import page

__all__ = ["Designed", "Job", "Native", "Options", "Part", "page", "run", "settings"]


def __dir__() -> list[str]:
    return __all__
