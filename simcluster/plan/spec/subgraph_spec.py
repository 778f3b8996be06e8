"""One entry of ``parallel.shard``: a function of the network that runs as a graph, and how it is sharded."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BeforeValidator, Field

from simcluster.document import Name, Section
from simcluster.plan.rules import ShardRequest
from simcluster.plan.spec.strategy_spec import OperandsField, WrittenEntry, planner_operands, read_tuple

DeviceKind = Literal["Ascend", "GPU", "CPU"]


def _parameter(written: Any) -> Any:
    """Text such as ``(1, 4)`` as a list; everything else as it is."""
    return read_tuple(written, "tuple such as (1, 4)")


ParameterField = Annotated[tuple[WrittenEntry, ...], BeforeValidator(_parameter)]


class SubgraphSpec(Section):
    """A piece of the network that runs as a graph, as with MindSpore's ``shard(fn, ...)``.

    Only what crosses its border is said; the operators inside follow by sharding propagation.
    """

    piece: Name
    """Operators or modules by name: ``layers.*.mlp``, ``layers.*.mlp.{up,activation,down}``. What fits in one
    layer is one piece."""

    inputs: OperandsField | None = Field(
        default=None, validation_alias=AliasChoices("in", "in_strategy", "inputs")
    )
    """Per input of the piece a list with, per dim, an axis, a list of them, or 1 for whole; or numbers of
    parts, ``((4, 1, 1),)``. null: nothing is said of an input."""

    outputs: OperandsField | None = Field(
        default=None, validation_alias=AliasChoices("out", "out_strategy", "outputs")
    )
    """The same for what the piece makes for others."""

    parameter_plan: dict[Name, ParameterField] = {}
    """Parameter -> how it is split, dim by dim: ``{up.weight: [1, tensor]}``. By its name in the piece, in
    the layer, or in full, with patterns."""

    device: DeviceKind | None = None
    """What the piece runs on; it must be what the cluster has. Any if absent."""

    level: Literal[0, 1, 2] = 0
    """What propagation looks for inside: 0 least communication, and then the fastest kernels; 1 the fewest
    bytes on a rank; 2 the least time of both together."""

    def build(self, place: int) -> ShardRequest:
        """The same as the planner has it; ``place`` is its number in ``parallel.shard``."""
        plan = planner_operands(tuple(self.parameter_plan.values())) or ()
        return ShardRequest(
            self.piece,
            planner_operands(self.inputs),
            planner_operands(self.outputs),
            tuple(zip(self.parameter_plan, (dims or () for dims in plan), strict=True)),
            self.device,
            self.level,
            f"parallel.shard.{place}",
        )
