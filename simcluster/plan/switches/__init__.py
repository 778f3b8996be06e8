"""Switches of framework profiles: what each value does, and its words; one file adds a switch."""

from simcluster.plan.switches.communication import HostUpdates, LayerCollectives, WeightGathers
from simcluster.plan.switches.kernels import AttentionKernels, RecomputedForward, UpdateKernels
from simcluster.plan.switches.number_formats import LogitsFormat, WeightCopies
from simcluster.plan.switches.switch import FrameworkSwitch, Phrase

__all__ = [
    "AttentionKernels",
    "FrameworkSwitch",
    "HostUpdates",
    "LayerCollectives",
    "LogitsFormat",
    "Phrase",
    "RecomputedForward",
    "UpdateKernels",
    "WeightCopies",
    "WeightGathers",
]
