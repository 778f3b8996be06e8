"""Data parallelism alone, where the memory of devices suffices for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from simcluster import units
from simcluster.scenario import Scenario
from simcluster.tuning.knobs.adapted_stages import mesh_changes
from simcluster.tuning.knobs.knob import Changes, Knob, KnobPurpose
from simcluster.tuning.knobs.present_run import PresentRun
from simcluster.tuning.knobs.schedules import LARGE_BUBBLE
from simcluster.tuning.knobs.tensor_collectives import EXPOSED_TENSOR

_MOST_OF_MEMORY = 0.5
"""The share of a device that states may take, so that activations have room beside them."""


class DataParallelismKnob(Knob):
    """No model parallelism."""

    kind = "data parallelism alone"
    serves = frozenset({KnobPurpose.SPEED})
    about = "tensor"
    source = (
        "MindSpore's overview of parallelism, strategy choice: data parallelism where one device can run the "
        "parameters"
    )
    of_training = True

    def turns(self, scenario: Scenario, plan: Mapping[str, Any]) -> Iterator[Changes]:
        """All ranks on the data axis: states sharded, then everything, as PyTorch's FSDP does it.

        None where the batch has fewer samples than there are devices.
        """
        mesh, devices = scenario.spec.parallel.sizes, scenario.cluster.num_devices
        batch = int(plan["global_batch"])
        shared = [axis for axis, ranks in mesh.items() if ranks > 1 and axis != "data"]
        if not shared or not set(shared) <= {"tensor", "pipeline"} or batch % devices:
            return
        changes = list(mesh_changes(scenario, plan, {"data": devices}))
        if scenario.spec.parallel.overlap:
            changes.append(("parallel.overlap", "{}"))  # of axes that the mesh then does not have
        for sharding in ("{zero: 1}", "fsdp"):
            yield (*changes, ("parallel.optimizer_sharding", sharding))

    def reason(self, present: PresentRun) -> str:
        """States are small enough, sharded, and model parallelism costs time."""
        devices = present.scenario.cluster.num_devices
        part, costs = present.state_bytes / devices, present.exposed("tensor") + present.bubble
        worth = costs > min(EXPOSED_TENSOR, LARGE_BUBBLE)
        if not worth or part > _MOST_OF_MEMORY * present.use.capacity:
            return ""
        return (
            f"tensor communication and the bubble are {units.percent(costs)} of the step, and weights, "
            f"gradients and states are about {units.size(part)} a device if {devices} share them"
        )
