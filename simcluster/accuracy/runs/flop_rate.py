"""The step that a published rate of FLOPs implies: TFLOP/s of every device, or a share of its peak."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from simcluster.accuracy.runs.rows import MeasuredRun
from simcluster.accuracy.runs.scenarios import known_words
from simcluster.work import DType

_COUNTED = {
    "model_tflops_per_gpu": "mfu",
    "hw_tflops_per_gpu": "hfu",
    "tflops_per_gpu": None,
    "aggregate_tflops": None,
    "mfu": "mfu",
    "hfu": "hfu",
    "share_of_peak": None,
}
"""What of a run's FLOPs a metric counts: those of the model, or with what is computed again; None: as its
framework's publishers do."""
_SHARES = ("mfu", "hfu", "share_of_peak")

_PEAK = re.compile(r"(?:MFU vs|peak) ([0-9.]+) TFLOP")
_CAUSAL = re.compile(r"\b(non[- ]?)?causal\b", re.IGNORECASE)
"""How names of metrics say which scores count: ``MFU (causal)``, ``TFLOPS (non-causal)``."""
_FULL = "_full_attention"


def states_flop_rate(run: MeasuredRun) -> bool:
    """Whether a row states FLOPs instead of a time."""
    return run.words["metric"] in _COUNTED


def implied_step(
    run: MeasuredRun, summary: Mapping[str, Any], peaks: Mapping[DType, float]
) -> tuple[float, str]:
    """Seconds of a step, and how its FLOPs are taken to be counted.

    ``summary`` is that of the run's simulation, whose FLOPs these are. A share is of the peak that the notes
    state, else of the device file's: of ``peaks`` (FLOP/s) in the format that the framework's publishers
    take, or in the run's own.
    """
    words = known_words().counted_flops(run.words)
    counted = _COUNTED[run.words["metric"]] or words.rate
    causal = _CAUSAL.search(run.words.get("metric_said", ""))
    full = bool(causal[1]) if causal else words.attention == "full"
    full &= counted + _FULL in summary
    peak = summary["model_flops_per_s_per_device"] / summary["mfu"]
    flops = summary[counted + _FULL if full else counted] * peak * summary["step_time_s"]
    rate = run.value * 1e12
    if run.words["metric"] == "aggregate_tflops":
        rate /= run.count("num_devices")
    how = "as the full square" if full else "as half of it where it is causal"
    if _COUNTED[run.words["metric"]] is None and counted == "hfu" and summary["hfu"] > summary["mfu"]:
        how = f"{how}, and what is computed again"
    if run.words["metric"] in _SHARES:
        stated = _PEAK.search(run.words.get("notes", ""))
        if not stated and words.peak:
            peak, how = peaks[DType.of(words.peak)], f"{how}, and a share of the peak in {words.peak}"
        rate = run.value / 100 * (float(stated[1]) * 1e12 if stated else peak)
    return flops / rate, f"the stated FLOPs count attention {how}"
