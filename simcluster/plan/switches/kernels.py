"""Which kernels there are."""

from __future__ import annotations

from simcluster.plan.switches.switch import FrameworkSwitch
from simcluster.work import TRITON_RELEASE, Kernel


class UpdateKernels(FrameworkSwitch, kind="optimizer"):
    """How many kernels update the parameters of a layer."""

    TOGETHER = "together", "multi-tensor updates"
    ONE_BY_ONE = "one_by_one", "one update kernel per parameter", None, {"fuse": {"together": False}}


class RecomputedForward(FrameworkSwitch, kind="recompute"):
    """How much of a recomputed layer's forward runs again."""

    WHOLE = "whole", "recomputed layers run their whole forward again"
    NEEDED = (
        "needed",
        "of a recomputed layer only what the backward needs",
        None,
        {"recompute_layers": {"needed": True}},
    )


class AttentionKernels(FrameworkSwitch, kind="attention"):
    """In which kernels attention runs."""

    FLASH = "flash", "attention in one kernel"
    FLASH_1 = "flash_1", "attention by FlashAttention's first release", {"releases": {Kernel.ATTENTION: 1}}
    FLASH_2 = "flash_2", "attention by FlashAttention-2", {"releases": {Kernel.ATTENTION: 2}}
    FLASH_TRITON = (
        "flash_triton",
        "attention by Triton's copy of FlashAttention",
        {"releases": {Kernel.ATTENTION: TRITON_RELEASE}},
    )
    UNFUSED = "unfused", "unfused attention (separate matmuls, softmax and dropout)"


class SparseAttentionForm(FrameworkSwitch, kind="sparse_attention"):
    """Of which scores the kernel of sparse attention computes products."""

    GATHERED = "gathered", "sparse attention reads the selected tokens alone"
    MASKED = "masked", "sparse attention computes all scores and masks those of other tokens"
