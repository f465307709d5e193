"""Sequences for folders of protein structures: ProteinMPNN as a tool."""

from drawahead.design.asked import Asked
from drawahead.design.folder import Part
from drawahead.design.job import Job, design, settings

__all__ = ["Asked", "Job", "Part", "design", "settings"]
