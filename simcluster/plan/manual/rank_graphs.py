"""The local graphs of all ranks, differentiated: one block for each part (ranks that run the same)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from simcluster.deferred_dataclass import dataclass
from simcluster.errors import PlanError, nearest
from simcluster.model import Graph, Instance
from simcluster.plan.manual.entries_by_rank import EntriesByRank
from simcluster.plan.manual.exchange_autodiff import ExchangeDifferentiator
from simcluster.plan.manual.exchanges import Exchanges
from simcluster.plan.manual.groups import Groups
from simcluster.plan.manual.layout_assignment import assign_layouts
from simcluster.plan.manual.local_graph_writer import LocalGraphWriter
from simcluster.plan.manual.tensor_parts import ReferenceParts
from simcluster.plan.precision import Numerics
from simcluster.plan.spec import ProgramSpec

NAME = "program"
"""The instance of the program; several are numbered."""


@dataclass(frozen=True)
class RankGraphs:
    """One block and instance for each part, on a stage of its own."""

    graph: Graph
    """The graph of all parts."""
    part_of_rank: tuple[int, ...]
    """The part of every rank."""
    paths: tuple[Mapping[str, str], ...]
    """For each part: operator -> the key path at which it was written."""

    @property
    def num_parts(self) -> int:
        """Different programs of ranks."""
        return len(self.graph.instances)

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the user."""
        count = self.num_parts
        return (f"ranks run {count} different programs",) if count > 1 else ()

    @classmethod
    def of(
        cls, program: ProgramSpec, reference_parts: ReferenceParts, groups: Groups, formats: Numerics
    ) -> RankGraphs:
        """Reads a program; PlanError, with places, where it is impossible."""
        entries = program.entries()
        scripts = EntriesByRank.of(entries, groups.mesh.num_ranks)
        exchanges = Exchanges.of(scripts, groups)
        parts = scripts.parts(exchanges.details())
        writers = [
            LocalGraphWriter(
                _name(number, len(parts)), ranks, reference_parts, groups, formats.compute, exchanges
            )
            for number, ranks in enumerate(parts)
        ]
        written = [writer.write(scripts, program.loss) for writer in writers]
        if all(block.loss is None for block in written):
            known = [entry.name for entry in entries]
            raise PlanError(
                f"nothing is called '{program.loss}'", path="loss", hint=nearest(program.loss, known)
            )
        part_of_rank = _part_of_rank(parts)
        placed_ends = [writer.placed_ends for writer in writers]
        weaver = ExchangeDifferentiator(
            written, placed_ends, exchanges.every, part_of_rank, groups, formats.gradients
        )
        origins = {
            f"{block.name}.{name}": reference_parts.parameters[name].origin
            for block in written
            for name in block.parameters
        }
        instances = tuple(
            Instance(block.name, block.name, stage=stage) for stage, block in enumerate(written)
        )
        blocks = {block.name: assign_layouts(block, reference_parts) for block in weaver.run()}
        return cls(
            Graph(blocks, instances, origins=origins),
            part_of_rank,
            tuple(writer.paths for writer in writers),
        )


def _part_of_rank(parts: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """The part of every rank."""
    part_of = {rank: number for number, ranks in enumerate(parts) for rank in ranks}
    return tuple(part_of[rank] for rank in sorted(part_of))


def _name(number: int, count: int) -> str:
    """What a part is called."""
    return f"{NAME}.{number}" if count > 1 else NAME
