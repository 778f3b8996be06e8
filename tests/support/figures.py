"""The recorded figures of a run, and where two of them differ."""

from __future__ import annotations

import pytest

from simcluster.analysis.metrics.inference_metrics import INFERENCE_METRICS
from simcluster.analysis.metrics.summary import METRICS
from simcluster.scenario import Scenario
from simcluster.simulation import build_scenario
from simcluster.simulation.run_scenario import run_built

JOB = ("wall_s", "goodput", "interruptions", "num_checkpoints", "time_s")


def figures(path):
    built = build_scenario(Scenario.load(path))
    return {"passes": dict(built.plan.passes.digests()), **figures_of(run_built(built))}


def figures_of(run):
    summary = run.documents["summary"]
    return {
        "program": run.documents["provenance"]["program"],
        **{name: summary[name] for name in (*METRICS, *INFERENCE_METRICS) if name in summary},
        "fits": summary["fits"],
        "exposed_communication_s": summary["exposed_communication_s"],
        "communication_bytes": summary["communication_bytes"],
        "peaks": {str(each["stage"]): each["breakdown"] for each in summary["peak_memory_bytes"]},
        "spans": len(run.recording),
        **({"job": {name: run.documents["job"][name] for name in JOB}} if "job" in run.documents else {}),
    }


def differences(before, after, where=""):
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted(before.keys() | after.keys()):
            yield from differences(before.get(key), after.get(key), f"{where}.{key}" if where else key)
    elif isinstance(before, float) and isinstance(after, (int, float)):
        if after != pytest.approx(before, rel=1e-9, abs=1e-15):
            yield f"{where}: {before!r} -> {after!r}"
    elif before != after:
        yield f"{where}: {before!r} -> {after!r}"
