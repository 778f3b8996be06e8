"""In which number formats weights and logits are held."""

from __future__ import annotations

from simcluster.plan.switches.switch import FrameworkSwitch


class WeightCopies(FrameworkSwitch, kind="weights"):
    """Which copies of weights there are in mixed precision."""

    COPIED = "copied", "16-bit weights beside the master copy"
    CAST = "cast", "fp32 weights, cast per forward"
    CAST_TWICE = "cast_twice", "fp32 weights, cast per forward and per backward"


class LogitsFormat(FrameworkSwitch, kind="logits"):
    """In which number format the loss reads logits."""

    FP32 = "fp32", "fp32 logits"
    COMPUTE = "compute", "logits in the compute format"
