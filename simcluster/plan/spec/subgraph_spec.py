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
    """A part of the network that runs as one graph, as with MindSpore's ``shard(fn, ...)``.

    Only layouts at its boundary are given; those of operators inside follow by sharding propagation.
    """

    piece: Name
    """Names of operators or modules: ``layers.*.mlp``, ``layers.*.mlp.{up,activation,down}``. All matches
    within one layer form one graph."""

    inputs: OperandsField | None = Field(
        default=None, validation_alias=AliasChoices("in", "in_strategy", "inputs")
    )
    """For each input of the piece, a list with one entry per dim: an axis, a list of axes, or 1 for not
    split; or numbers of parts, ``((4, 1, 1),)``. null: this input is left open."""

    outputs: OperandsField | None = Field(
        default=None, validation_alias=AliasChoices("out", "out_strategy", "outputs")
    )
    """The same for the outputs of the piece."""

    parameter_plan: dict[Name, ParameterField] = {}
    """Parameter -> how each of its dims is split: ``{up.weight: [1, tensor]}``. The name may be that in the
    piece, in the layer, or the full name, with patterns."""

    device: DeviceKind | None = None
    """Kind of device on which the piece runs; it must be the cluster's. Any if absent."""

    level: Literal[0, 1, 2] = 0
    """What propagation minimises inside: 0: communication, then kernel time; 1: bytes per rank; 2: the total
    time of both."""

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
