"""What a scenario asks of a subgraph that runs as one graph launch."""

from __future__ import annotations

from simcluster.deferred_dataclass import dataclass
from simcluster.plan.rules.strategy_rule import Entry, Operands, StrategyRule


@dataclass(frozen=True, slots=True)
class ShardRequest:
    """One entry of ``parallel.shard``."""

    match: str
    """Operators or modules of the subgraph, as a pattern."""
    inputs: Operands | None
    """Layouts of its inputs."""
    outputs: Operands | None
    """Layouts of its outputs."""
    parameters: tuple[tuple[str, tuple[Entry, ...]], ...]
    """Layouts of parameters, by name."""
    device: str | None
    """The kind of device that it has to run on."""
    level: int
    """What sharding propagation inside minimises: 0 communication, 1 memory, 2 time."""
    path: str
    """The key path at which it was written."""

    @property
    def source(self) -> str:
        """The source of strategies that it fixes, in words."""
        return f"shard({self.match})"

    @property
    def rule(self) -> StrategyRule:
        """All its layouts, as the rule of one operator with these operands."""
        operands = (*(self.inputs or ()), *(dims for _, dims in self.parameters))
        return StrategyRule(self.match, (), self.source, self.path, operands, self.outputs)
