"""Kernels: how the state at the end of a segment is drawn, given the one at its start. One algorithm a file."""

from drawahead.rtk.kernels.base import Info, Kernel, MarkovKernel, State
from drawahead.rtk.kernels.hmc import HMC
from drawahead.rtk.kernels.mala import MALA, ProjectedMALA
from drawahead.rtk.kernels.noise import Noise
from drawahead.rtk.kernels.starts import CentredStart, GaussianStart, Start
from drawahead.rtk.kernels.ula import ULA
from drawahead.rtk.kernels.uld import ULD, ULDStep

__all__ = [
    "HMC",
    "MALA",
    "ULA",
    "ULD",
    "CentredStart",
    "GaussianStart",
    "Info",
    "Kernel",
    "MarkovKernel",
    "Noise",
    "ProjectedMALA",
    "Start",
    "State",
    "ULDStep",
]
