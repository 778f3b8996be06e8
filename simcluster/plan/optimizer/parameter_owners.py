"""Whole parameters given to ranks: which of those that hold a parameter alike updates it for all.

Megatron's layer-wise distributed optimizer (``dist_muon``; ``layer_wise_optimizer.py``, from memory): all
parameters of a rank's stage, by rising size, go to the ranks that replicate them in turns, there and back
again, so that the sums are nearly equal. Parameters that other ranks replicate, as experts do, have turns of
their own. Gradients are all-reduced; the owner alone has the states; the new weights are broadcast.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from simcluster.deferred_dataclass import dataclass
from simcluster.errors import PlanError
from simcluster.layout import Mesh
from simcluster.model import Block, Graph, Instance, OptimizerOperator, Phase

PATH = "parallel.optimizer_sharding.split"

MOST_VARIANTS = 256
"""Ranks of a stage that may differ: each has a part of the Program of its own."""


@dataclass(frozen=True, slots=True)
class ParameterOwner:
    """The rank that updates a parameter, among those that replicate it."""

    axes: tuple[str, ...]
    """The axes over which the parameter is replicated, outer first."""
    place: tuple[int, ...]
    """The owner's coordinates along them."""

    def has(self, coordinates: Mapping[str, int]) -> bool:
        """Whether a rank with these coordinates is the owner in its group."""
        return all(coordinates[axis] == at for axis, at in zip(self.axes, self.place, strict=True))


Owners = Mapping[tuple[str, str], ParameterOwner]
"""(Instance, parameter) -> its owner."""


def assign_owners(
    graph: Graph, instances: Sequence[Instance], axes: Sequence[str], mesh: Mesh
) -> dict[tuple[str, str], ParameterOwner]:
    """The owners of what the instances of one stage update; all replicas along ``axes`` share the work."""
    by_axes: defaultdict[tuple[str, ...], list[tuple[int, str, str]]] = defaultdict(list)
    for instance in instances:
        block = graph.block_of(instance)
        for name in updated_parameters(block):
            value = block.values[name]
            assert value.layout is not None
            free = tuple(axis for axis in axes if axis not in value.layout.axes and mesh.size(axis) > 1)
            size = math.prod(value.layout.local_shape(value.type.shape, mesh))
            by_axes[free].append((size, instance.name, name))
    owners: dict[tuple[str, str], ParameterOwner] = {}
    for free, parameters in by_axes.items():
        count = mesh.product(free)
        there_and_back = [*range(count), *reversed(range(count))]
        for number, (_, instance_name, name) in enumerate(sorted(parameters, key=lambda one: one[0])):
            at = there_and_back[number % len(there_and_back)]
            owners[instance_name, name] = ParameterOwner(free, _coordinates(at, free, mesh))
    return owners


def _coordinates(index: int, axes: Iterable[str], mesh: Mesh) -> tuple[int, ...]:
    """The coordinates along axes, outer first, of a place in their group."""
    sizes = [mesh.size(axis) for axis in axes]
    places = []
    for size in reversed(sizes):
        index, place = divmod(index, size)
        places.append(place)
    return tuple(reversed(places))


def updated_parameters(block: Block) -> list[str]:
    """The parameters that a block's end phase changes, in the order of their updates."""
    parameters = set(block.parameters)
    names = (
        node.origin
        for node in block.phase(Phase.END)
        if isinstance(node.operator, OptimizerOperator) and node.operator.weights_output is not None
    )
    return [name for name in dict.fromkeys(names) if name in parameters]


def check_owners(
    axes: Sequence[str], mesh: Mesh, *, uneven: bool, moved: bool, servers: bool, rows: bool
) -> None:
    """PlanError where whole parameters cannot be given to ranks."""
    hint = "write split: flat"
    for refused, why in (
        (uneven, "ranks that train unequally many samples or tokens have programs of their own already"),
        (moved, "what lies on hosts or disks, and is updated there, is of all parameters of a block"),
        (servers, "parameter servers own parameters already"),
        (rows, "tables that are updated by rows have no owner"),
    ):
        if refused:
            raise PlanError(f"whole parameters on one rank: {why}", path=PATH, hint=hint)
    if (count := mesh.product(axes)) > MOST_VARIANTS:
        raise PlanError(
            f"each of {count:,} ranks updates other parameters; up to {MOST_VARIANTS} can be told apart",
            path=PATH,
            hint=hint,
        )
