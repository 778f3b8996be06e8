"""What is asked of a part of the network that runs as one graph."""

from __future__ import annotations

from dataclasses import dataclass

from simcluster.plan.rules.strategy_rule import Entry, Operands, StrategyRule


@dataclass(frozen=True, slots=True)
class ShardRequest:
    """What is asked of a piece; ``match`` are its operators or modules, ``path`` is where it is written.

    ``inputs`` and ``outputs`` are the layouts at its border, ``parameters`` those of parameters, by name.
    ``level`` says what propagation inside looks for.
    """

    match: str
    inputs: Operands | None
    outputs: Operands | None
    parameters: tuple[tuple[str, tuple[Entry, ...]], ...]
    device: str | None
    level: int
    path: str

    @property
    def source(self) -> str:
        """What strategies that it fixes are said to come from."""
        return f"shard({self.match})"

    @property
    def rule(self) -> StrategyRule:
        """Everything that it names, as if one operator had all these operands."""
        operands = (*(self.inputs or ()), *(dims for _, dims in self.parameters))
        return StrategyRule(self.match, (), self.source, self.path, operands, self.outputs)
