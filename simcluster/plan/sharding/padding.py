"""Dims that do not divide over ranks: masks where padding would change a result.

Masks are needed only where a padded dim is reduced, on operands whose padding is not known to be zero: inputs
and redistributions pad with zeros, and linear operators keep them. Gradients of parameters always have zeros
there, so that no optimizer, norm or flat buffer reads other padding.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from simcluster.deferred_dataclass import dataclass
from simcluster.errors import PlanError
from simcluster.layout import Dims, Layout, Mesh, Strategy, needed_padding, padding_refusal, zero_padding
from simcluster.model import Graph, Node, Operator, Phase, Role
from simcluster.plan.sharding.sharded_values import ShardedValues
from simcluster.plan.strategies import Strategies

ZeroDims = tuple[frozenset[int], ...]
"""For every output the indices of the dims whose padding is zero."""


def padded_dims(
    graph: Graph, strategies: Strategies, mesh: Mesh
) -> dict[tuple[str, int, tuple[str, ...]], int]:
    """(dim, size, axes) that strategies split unevenly -> number of forward operators."""
    counts: dict[tuple[str, int, tuple[str, ...]], int] = {}
    for instance in graph.instances:
        block = graph.block_of(instance)
        chosen = strategies.of(instance.name)
        for node in block.phase(Phase.FORWARD):
            assert isinstance(node.operator, Operator)
            shapes = [block.values[value].type.shape for value in (*node.inputs, *node.outputs)]
            extent = node.operator.dims().extents(shapes)
            for dim, axes in chosen[node.source].splits if node.source in chosen else ():
                if extent.get(dim, 0) % mesh.product(axes):
                    key = dim, extent[dim], axes
                    counts[key] = counts.get(key, 0) + 1
    return counts


@dataclass(frozen=True, slots=True)
class Padding:
    """Masks for the nodes of one block."""

    sharded: ShardedValues
    """The values and nodes of the sharded block."""

    def through(
        self, node: Node, dims: Dims, strategy: Strategy, inputs: tuple[str, ...]
    ) -> tuple[tuple[str, ...], ZeroDims]:
        """The inputs of a node, masked where needed, and the dims of its outputs whose padding is zero."""
        padded = self._padded(node, dims, strategy)
        if not padded:
            return inputs, (frozenset(),) * len(dims.outputs)
        floating = [self.sharded.type(value).dtype.is_float for value in node.inputs]
        fills = needed_padding(dims, padded, floating)
        if isinstance(fills, str):
            raise _refused(node, padded, fills)
        masked = tuple(
            self._filled(self.sharded.cleaned(value), names, fill)
            for value, names, fill in zip(inputs, dims.inputs, fills, strict=True)
        )
        zero = [
            [names[place] for place in self.sharded.zero.get(value, ())]
            for value, names in zip(masked, dims.inputs, strict=True)
        ]
        return masked, tuple(
            frozenset(names.index(dim) for dim in clean)
            for names, clean in zip(dims.outputs, zero_padding(dims, padded, floating, zero), strict=True)
        )

    def unknown(self, value: str, layout: Layout, clean: Collection[int]) -> tuple[int, ...]:
        """The dims of a parameter's gradient whose padding may be other than zero and must not be."""
        if not self.sharded.router.pads or self.sharded.kind(value).role is not Role.ACCUMULATOR:
            return ()
        padded = layout.padded(self.sharded.type(value).shape, self.sharded.router.mesh)
        return tuple(dim for dim in padded if dim not in clean)

    def _padded(self, node: Node, dims: Dims, strategy: Strategy) -> list[str]:
        """The dims that the node's strategy splits unevenly; PlanError if that cannot be."""
        router = self.sharded.router
        if not router.pads or not strategy.splits:
            return []
        shapes = [self.sharded.type(value).shape for value in (*node.inputs, *node.outputs)]
        extent = dims.extents(shapes)
        padded = [dim for dim, axes in strategy.splits if extent[dim] % router.mesh.product(axes)]
        reason = padding_refusal(dims, padded, shapes)
        if reason:
            raise _refused(node, padded, reason)
        return padded

    def _filled(self, value: str, names: tuple[str, ...], fills: dict[str, float]) -> str:
        """A version of an input with neutral elements in its padding; all of one input's are the same."""
        for fill in dict.fromkeys(fills.values()):
            places = [names.index(dim) for dim, wanted in fills.items() if wanted == fill]
            if fill or not self.sharded.zero.get(value, frozenset()).issuperset(places):
                value = self.sharded.masked(value, names, places, fill)
        return value


def _refused(node: Node, padded: Sequence[str], reason: str) -> PlanError:
    return PlanError(
        f"{node.name}: {' and '.join(padded)} cannot be padded: {reason}",
        path="parallel.uneven",
        hint="split it over ranks that divide it, or not at all",
    )
