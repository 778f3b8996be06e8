"""Every shipped scenario against its recorded figures.

``--update-baselines`` rewrites them, and the commit says why. Times are integer nanoseconds inside, so the
figures are the same on every machine; the tolerance is for the last bit of the prices behind them.
``passes`` are digests of the graph behind every pass: a plan changes in the first pass whose digest does.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from simcluster.analysis.metrics.inference_metrics import INFERENCE_METRICS
from simcluster.analysis.metrics.summary import METRICS
from simcluster.scenario import Scenario
from simcluster.simulation import build_scenario
from simcluster.simulation.run_scenario import run_built

FOLDER = Path(__file__).parent
SHIPPED = sorted(Path("scenarios").glob("*.yaml"))


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


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_golden(path, request):
    golden = FOLDER / f"{path.stem}.json"
    found = figures(path)
    if request.config.getoption("--update-baselines"):
        golden.write_text(json.dumps(found, indent=2) + "\n")
        return
    assert golden.exists(), f"no golden for {path}: run pytest tests/golden --update-baselines"
    drift = list(differences(json.loads(golden.read_text()), found))
    assert not drift, "\n".join(drift)


def test_every_golden_has_its_scenario():
    assert {each.stem for each in FOLDER.glob("*.json")} == {each.stem for each in SHIPPED}
