"""Small scenarios for tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from simcluster.document import validate_data
from simcluster.plan.spec.framework import FrameworkSpec
from simcluster.scenario import Scenario
from simcluster.simulation.compose.build import plan_scenario
from simcluster.simulation.verification.shrink_scenario import ShrunkScenario, shrink_scenario_of

TINY = {"layers": 4, "hidden": 32, "heads": 8, "kv_heads": 4, "ffn": 64, "vocab": 128}
TINY_GPT = {"family": "gpt", "layers": 4, "hidden": 32, "heads": 4, "vocab": 100, "max_positions": 16}


def scenario(
    mesh: dict[str, int],
    *,
    devices: int = 2,
    host: str = "cpu-server",
    model: dict[str, Any] | None = None,
    micro_batches: int = 4,
    micro_batch: int = 1,
    run: dict[str, Any] | None = None,
    training: dict[str, Any] | None = None,
    changes: Sequence[dict[str, Any]] = (),
    **parallel: Any,
) -> Scenario:
    """A tiny model on hosts of ``devices`` devices; what is left over goes into the parallel section."""
    ranks = 1
    for size in mesh.values():
        ranks *= size
    ways = mesh.get("data", 1)
    data = {
        "simcluster": 1,
        "name": "test",
        "cluster": {
            "host": {"use": host, "devices": devices, "network": {"nics": devices}},
            "hosts": ranks // devices,
            "changes": list(changes),
        },
        "model": model or TINY,
        "training": {
            "global_batch": micro_batches * micro_batch * ways,
            "micro_batch": micro_batch,
            "seq_len": 8,
            **(training or {}),
        },
        "parallel": {"mesh": mesh, **parallel},
        "run": run or {},
    }
    return Scenario.of(data)


def under(which: Scenario, **switches: Any) -> Scenario:
    """The scenario under the ideal framework with some of its switches changed."""
    changed = Scenario(which.spec, which.document, which.folder)
    # A cached property of the scenario: what is written here is what it would have loaded.
    changed.__dict__["framework"] = validate_data({"use": "ideal", **switches}, FrameworkSpec)
    return changed


def shrunk(which: Scenario) -> ShrunkScenario:
    """The small form of a scenario, which is run in values."""
    return shrink_scenario_of(which, plan_scenario(which))
