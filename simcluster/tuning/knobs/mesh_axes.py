"""How ranks are arranged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from simcluster.scenario import Scenario
from simcluster.tuning.knobs.knob import Changes, Knob

MOST_DOUBLINGS = 3
"""How often a mesh axis is doubled at most."""


class TensorParallelismKnob(Knob):
    """Ranks that share every layer."""

    kind = "tensor parallelism"
    uneven = True

    def turns(self, scenario: Scenario, plan: Mapping[str, Any]) -> Iterator[Changes]:
        """Twice as many, at the cost of data parallelism, and so on."""
        return _doubled(scenario, "tensor")


class PipelineKnob(Knob):
    """Pipeline stages."""

    kind = "pipeline"
    uneven = True

    def turns(self, scenario: Scenario, plan: Mapping[str, Any]) -> Iterator[Changes]:
        """Twice as many, at the cost of data parallelism, and so on."""
        return _doubled(scenario, "pipeline")


def _doubled(scenario: Scenario, axis: str) -> Iterator[Changes]:
    mesh = dict(scenario.spec.parallel.sizes)
    order = [name for name in ("pipeline", *mesh, "tensor") if name in mesh or name == axis]
    for _ in range(MOST_DOUBLINGS):
        if mesh.get("data", 1) % 2:
            return
        mesh["data"] //= 2
        mesh[axis] = 2 * mesh.get(axis, 1)
        sizes = ", ".join(f"{name}: {mesh[name]}" for name in dict.fromkeys(order))
        yield (("parallel.mesh", f"{{{sizes}}}"),)
