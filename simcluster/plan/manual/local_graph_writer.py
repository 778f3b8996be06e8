"""The local graph of ranks that run the same entries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from simcluster.deferred_dataclass import dataclass
from simcluster.document import Refused
from simcluster.errors import PlanError, nearest
from simcluster.layout import Strategy
from simcluster.model import (
    Block,
    BlockBuilder,
    Entry,
    GraphWriter,
    Operator,
    check_scalar_loss,
    operator_kinds,
    written_operator,
)
from simcluster.plan.manual.collective_calls import CALLS, collective_operator_of
from simcluster.plan.manual.entries_by_rank import EntriesByRank
from simcluster.plan.manual.exchange_calls import EXCHANGES, PAIRS
from simcluster.plan.manual.exchange_ends import EndWriter, PlacedEnd
from simcluster.plan.manual.exchanges import Exchanges
from simcluster.plan.manual.groups import Groups
from simcluster.plan.manual.tensor_parts import ReferenceParts, TensorPart
from simcluster.work import DType

PART = "part"
"""The key with the part of a dim that a rank has, for operators that read it."""


@dataclass
class LocalGraphWriter:
    """Writes the local graph of one part: ranks that run the same entries."""

    name: str
    """The name of its block."""
    ranks: Sequence[int]
    """The ranks."""
    reference_parts: ReferenceParts
    """The feeds and parameters, as parts of those of the reference model."""
    groups: Groups
    """The groups of ranks."""
    dtype: DType
    """The format of activations."""
    exchanges: Exchanges
    """The exchanges of all ranks."""
    strategies: dict[str, Strategy] = field(default_factory=dict)
    """Operator -> its strategy, where it reads its part of a dim."""
    placed_ends: list[PlacedEnd] = field(default_factory=list)
    """The rank's side of each exchange, in order."""
    paths: dict[str, str] = field(default_factory=dict)
    """Operator -> the key path at which it was written."""

    def write(self, scripts: EntriesByRank, loss: str) -> Block:
        """The block; PlanError, with the place, for entries that do not fit."""
        places = scripts.of_rank[self.ranks[0]]
        entries = [scripts.entries[place] for place in places]
        self.build = BlockBuilder(self.name, self.dtype)
        read = {name for entry in entries for name in entry.inputs}
        mesh = self.groups.whole
        for name, held in self.reference_parts.feeds.items():
            if name in read:
                self._belong(held, f"feeds.{name}")
                self.build.feed(name, held.local(mesh), held.below)
        for name, held in self.reference_parts.parameters.items():
            if name in read:
                self._belong(held, f"parameters.{name}")
                self.build.parameter(name, held.local(mesh).shape)
        self.writer = GraphWriter.of(self.build)
        self.ends = EndWriter(self.writer, self.dtype, set())
        try:
            for place, entry in zip(places, entries, strict=True):
                self._entry(place, entry)
            has_loss = loss in self.writer.known
            loss_value = check_scalar_loss(self.writer, loss) if has_loss else None
        except Refused as error:
            raise PlanError(*error.problems) from None
        block = self.build.block(outputs={}, loss=loss_value)
        nodes = tuple(
            replace(node, strategy=self.strategies.get(node.name, node.strategy)) for node in block.nodes
        )
        return replace(block, nodes=nodes)

    def _belong(self, held: TensorPart, path: str) -> None:
        """PlanError if one of the ranks is in none of the groups that split a tensor it reads."""
        for dim in held.layout.dims:
            for axis in dim:
                for rank in self.ranks:
                    if self.groups.row((axis,), rank) is None:
                        raise PlanError(
                            f"rank {rank} reads it, but is in no group '{axis}', which splits it", path=path
                        )

    def _entry(self, place: int, entry: Entry) -> None:
        if (self.ranks[0], place) in self.exchanges.at:
            number = self.exchanges.at[self.ranks[0], place]
            ends = self.exchanges.every[number].ends[self.ranks[0]]
            self.placed_ends.append(self.ends.write(entry, number, ends))
            self.paths[self.placed_ends[-1].name] = entry.path
            return
        self.paths[entry.name] = entry.path
        if entry.op in CALLS:
            self.writer.write(entry, collective_operator_of(entry, self.groups, self.writer.kinds(entry)))
            return
        if entry.op not in operator_kinds():
            known = [*CALLS, *EXCHANGES, *PAIRS, *operator_kinds()]
            raise entry.refused("there is no such operator or collective", "op", nearest(entry.op, known))
        own = {key: value for key, value in entry.attributes.items() if key != PART}
        operator = written_operator(replace(entry, attributes=own))
        self.writer.write(entry, operator)
        if PART in entry.attributes:
            self.strategies[entry.name] = self._strategy(entry, operator, entry.attributes[PART])

    def _strategy(self, entry: Entry, operator: Operator, written: Any) -> Strategy:
        """Where the part of a dim begins that an operator has: by the rank's place in a group."""
        dims = operator.dims().names
        if not isinstance(written, Mapping):
            raise entry.refused("it is {dim: group}", PART)
        splits: dict[str, tuple[str, ...]] = {}
        for dim, group in written.items():
            if dim not in dims:
                raise entry.refused(f"it has no dim '{dim}'", f"{PART}.{dim}", nearest(str(dim), dims))
            splits[dim] = self.groups.axes(group, f"{entry.path}.{PART}.{dim}")
        return Strategy.of(splits)
