"""Switches of framework profiles: what each value does, and its words; one file adds a switch."""

from simcluster.plan.switches.communication import (
    ExpertExchange,
    HostUpdates,
    LayerCollectives,
    SavedActivations,
    WeightGathers,
)
from simcluster.plan.switches.kernels import (
    AttentionKernels,
    RecomputedForward,
    SparseAttentionForm,
    UpdateKernels,
)
from simcluster.plan.switches.number_formats import LogitsFormat, WeightCopies
from simcluster.plan.switches.switch import FrameworkSwitch, Phrase
from simcluster.plan.switches.switch_words import (
    accumulation_words,
    alibi_words,
    calls_words,
    fusion_words,
    gradient_words,
    headroom_words,
    host_waits_words,
    implementation_words,
    latent_heads_words,
    limit_words,
    passes_words,
    prefetch_words,
    scratch_words,
    traffic_words,
    workspace_words,
)

__all__ = [
    "AttentionKernels",
    "ExpertExchange",
    "FrameworkSwitch",
    "HostUpdates",
    "LayerCollectives",
    "LogitsFormat",
    "Phrase",
    "RecomputedForward",
    "SavedActivations",
    "SparseAttentionForm",
    "UpdateKernels",
    "WeightCopies",
    "WeightGathers",
    "accumulation_words",
    "alibi_words",
    "calls_words",
    "fusion_words",
    "gradient_words",
    "headroom_words",
    "host_waits_words",
    "implementation_words",
    "latent_heads_words",
    "limit_words",
    "passes_words",
    "prefetch_words",
    "scratch_words",
    "traffic_words",
    "workspace_words",
]
