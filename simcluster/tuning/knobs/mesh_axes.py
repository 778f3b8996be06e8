"""How ranks are arranged."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any

from simcluster import units
from simcluster.scenario import Scenario
from simcluster.tuning.knobs.adapted_stages import mesh_changes
from simcluster.tuning.knobs.knob import Changes, Knob, KnobPurpose
from simcluster.tuning.knobs.present_run import PresentRun
from simcluster.tuning.knobs.schedules import bubble_reason
from simcluster.tuning.knobs.tensor_collectives import exposed_tensor

MOST_DOUBLINGS = 3
"""How often a mesh axis is doubled at most."""

EXPOSED_DATA = 0.10
"""The share of a step from which on exposed communication of gradients and weights is worth a change."""
_STATES = ("parameters", "gradients", "optimizer_states", "activations")
_MODEL_PARALLEL = (
    "MindSpore's overview of parallelism, strategy choice: {} where one device cannot run the parameters"
)


class ModelParallelismKnob(Knob):
    """More ranks on an axis that splits the model."""

    serves = frozenset({KnobPurpose.MEMORY, KnobPurpose.SPEED})
    saves = _STATES
    uneven = True

    @property
    @abstractmethod
    def axis(self) -> str:
        """The axis."""

    def turns(self, scenario: Scenario, plan: Mapping[str, Any]) -> Iterator[Changes]:
        """Twice as many, at the cost of data parallelism, and so on."""
        return doubled(scenario, plan, self.axis)

    def reason(self, present: PresentRun) -> str:
        """The states of the model are too large, or gradients travel too long."""
        return _too_large(present) or shared_gradients(present)


class TensorParallelismKnob(ModelParallelismKnob):
    """Ranks that share every layer."""

    kind = "tensor parallelism"
    source = _MODEL_PARALLEL.format("operator-level parallelism")
    axis = "tensor"


class PipelineKnob(ModelParallelismKnob):
    """Pipeline stages."""

    kind = "pipeline"
    source = _MODEL_PARALLEL.format("pipeline parallelism")
    axis = "pipeline"


class LessTensorParallelismKnob(Knob):
    """Fewer ranks that share every layer."""

    kind = "less tensor parallelism"
    serves = frozenset({KnobPurpose.SPEED})
    about = "tensor"
    source = "Narayanan et al. 2021, takeaways 1 and 2: no more model parallelism than the memory asks for"

    def turns(self, scenario: Scenario, plan: Mapping[str, Any]) -> Iterator[Changes]:
        """Half of them: with twice the data parallelism, then with twice the stages."""
        yield from halved(scenario, plan, "tensor", "data")
        if scenario.spec.training is not None:
            yield from halved(scenario, plan, "tensor", "pipeline")

    def reason(self, present: PresentRun) -> str:
        """Their communication is exposed."""
        why = exposed_tensor(present)
        return why and f"{why}; half of them send less, and run larger matmuls"


class FewerStagesKnob(Knob):
    """Fewer pipeline stages."""

    kind = "fewer stages"
    serves = frozenset({KnobPurpose.SPEED})
    about = "bubble"
    source = "bubble (P-1)/M of P stages: MindSpore's pipeline parallelism, Narayanan et al. 2021"

    def turns(self, scenario: Scenario, plan: Mapping[str, Any]) -> Iterator[Changes]:
        """Half of them: with twice the data parallelism, then with twice the tensor parallelism."""
        yield from halved(scenario, plan, "pipeline", "data")
        yield from halved(scenario, plan, "pipeline", "tensor")

    def reason(self, present: PresentRun) -> str:
        """The bubble is large."""
        why = bubble_reason(present)
        return why and f"{why}, with half the stages about half of it"


def doubled(scenario: Scenario, plan: Mapping[str, Any], axis: str) -> Iterator[Changes]:
    """Twice as many ranks on an axis, half as many on the data axis, and so on.

    A new axis stands where it belongs: the pipeline outermost, what communicates in every layer innermost.
    """
    mesh = dict(scenario.spec.parallel.sizes)
    names = [*mesh, *([axis] if axis not in ("pipeline", *mesh) else [])]
    if axis not in mesh and "tensor" in mesh:
        names.sort(key=lambda name: name == "tensor")
    order = [name for name in ("pipeline", *names) if name in mesh or name == axis]
    for _ in range(MOST_DOUBLINGS):
        if mesh.get("data", 1) % 2:
            return
        mesh["data"] //= 2
        mesh[axis] = 2 * mesh.get(axis, 1)
        yield mesh_changes(scenario, plan, {name: mesh[name] for name in order})


def halved(scenario: Scenario, plan: Mapping[str, Any], axis: str, other: str) -> Iterator[Changes]:
    """Half as many ranks on one axis, twice as many on another."""
    mesh = dict(scenario.spec.parallel.sizes)
    if mesh.get(axis, 1) % 2:
        return
    mesh[axis] //= 2
    mesh[other] = 2 * mesh.get(other, 1)
    order = list(mesh)
    if other not in scenario.spec.parallel.sizes:
        order = [name for name in dict.fromkeys(("pipeline", "data", *mesh)) if name in mesh]
        order.sort(key=lambda name: name == "tensor")  # innermost, where it may be new
    yield mesh_changes(scenario, plan, {name: mesh[name] for name in order if mesh[name] > 1 or name != axis})


def _too_large(present: PresentRun) -> str:
    lacking = present.lack_of_memory(_STATES)
    states = units.size(present.state_bytes)
    whole = f"{units.count(present.plan['parameters'])} parameters with their states take about {states}"
    return lacking and f"{lacking}; {whole}"


def shared_gradients(present: PresentRun) -> str:
    """How much communication of the data axis is exposed; empty if little, and of inference."""
    share = present.exposed("data")
    if present.plan.get("inference") or share <= EXPOSED_DATA:
        return ""
    return (
        f"{units.percent(share)} of the step is exposed communication of {present.size('data')} data ranks; "
        "ranks that share the model send a part of it each"
    )
