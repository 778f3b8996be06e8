"""Sizes of the small model that divide, or do not, as those of the plan."""

from __future__ import annotations

import math
from collections.abc import Iterator

from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Mesh
from simcluster.model import Operator
from simcluster.plan import BATCH, Plan, given_feed_layouts, padded_dims


@dataclass(frozen=True)
class SmallDims:
    """Into how many parts the plan splits a dim, over all operators and results, on the small mesh."""

    plan: Plan
    mesh: Mesh
    padded: frozenset[str]

    @classmethod
    def of(cls, plan: Plan, mesh: Mesh) -> SmallDims:
        """Those of a plan on the small mesh; ``padded`` are the dims that some operator pads."""
        dims = padded_dims(plan.logical, plan.strategies, plan.mesh)
        return cls(plan, mesh, frozenset(dim for dim, _, _ in dims))

    def __call__(self, dim: str, times: int = 1) -> int:
        """So many times the parts, or one less for a dim that the plan pads."""
        parts = math.lcm(1, *(self.mesh.product(axes) for name, axes in _splits(self.plan) if name == dim))
        return times * parts - (parts > 1 and dim in self.padded)

    def micro_batch(self) -> int:
        """At most two samples, or as many as let the batch divide where it is split over other axes too; or
        not divide, where the plan pads it.
        """
        given = self.plan.pipeline.micro_batch
        ways, uneven = self.mesh.product(self.plan.placement.batch_axes), BATCH in self.padded
        split = self(BATCH) + uneven
        fitting = (size for size in range(min(given, 2), split + 2) if (size * ways % split != 0) == uneven)
        return next(fitting, given)


def _splits(plan: Plan) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Every dim with axes that split it, in an operator, in a result behind it, or in an input."""
    seen: set[int] = set()
    for name, layout in given_feed_layouts(plan.graph).items():
        for node in (node for block in plan.logical.blocks.values() for node in block.nodes):
            if isinstance(node.operator, Operator) and name in node.inputs:
                names = node.operator.dims().inputs[node.inputs.index(name)]
                yield from zip(names, layout.dims, strict=True)
    for instance in plan.logical.instances:
        chosen = plan.strategies.of(instance.name)
        if id(chosen) in seen:
            continue
        seen.add(id(chosen))
        for name, strategy in chosen.items():
            yield from strategy.splits
            for index, layout in strategy.outputs:
                operator = plan.logical.block_of(instance).node(name).operator
                assert isinstance(operator, Operator)
                yield from zip(operator.dims().outputs[index], layout.dims, strict=True)
