"""Switches of framework profiles: what each value does, and its words; one file adds a switch."""

from simcluster.plan.switches.communication import HostUpdates, LayerCollectives, WeightGathers
from simcluster.plan.switches.kernels import AttentionKernels, RecomputedForward, UpdateKernels
from simcluster.plan.switches.number_formats import LogitsFormat, WeightCopies
from simcluster.plan.switches.switch import FrameworkSwitch, Phrase
from simcluster.plan.switches.switch_words import (
    accumulation_words,
    fusion_words,
    gradient_words,
    headroom_words,
    limit_words,
    passes_words,
    prefetch_words,
    scratch_words,
)

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
    "accumulation_words",
    "fusion_words",
    "gradient_words",
    "headroom_words",
    "limit_words",
    "passes_words",
    "prefetch_words",
    "scratch_words",
]
