"""How often the host launches collectives: one by one, or several alike as one reusable sub-graph.

With reuse, as MindSpore's ``MS_COMM_COMPILER_OPT``, collectives of a stream that are alike - same operation,
group, number format and bytes - form calls of so many each, if there are as many; the rest are called for one
by one. That saves host time, no bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import field

from simcluster.deferred_dataclass import dataclass
from simcluster.plan import Plan
from simcluster.program.isa import Instruction, InstructionBlock, InstructionKind, Program

SubGraphKey = tuple[str, str, tuple[str, ...], str, int]
"""Stream, operation, axes, number format and bytes: what equal collectives have in common."""


@dataclass(frozen=True, slots=True)
class HostCalls:
    """What the host spends on collectives: ``seconds`` for each call, a floor under what it starts, and how
    many collectives that are alike are one call (``reuse``; None: each is one).
    """

    seconds: float = 0.0
    reuse: int | None = None

    @classmethod
    def of(cls, plan: Plan) -> HostCalls:
        """The host's cost of collectives under a plan."""
        return cls(plan.execution.collective_call, plan.execution.call_reuse)

    def count(self, collectives: int) -> int:
        """The number of calls for so many collectives that are alike."""
        if self.reuse is None or collectives < self.reuse:
            return collectives
        whole, rest = divmod(collectives, self.reuse)
        return whole + rest


FREE_CALLS = HostCalls()


@dataclass(frozen=True)
class CollectiveCalls:
    """The collectives of a Program and what calling for them costs.

    ``collectives`` has for every part those of one step by what they have in common, ``inside`` how many more
    the graphs of pieces contain: no host calls for these.
    """

    host: HostCalls
    collectives: tuple[Mapping[SubGraphKey, int], ...]
    inside: tuple[int, ...]
    _shares: dict[SubGraphKey, float] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def of(cls, program: Program, host: HostCalls) -> CollectiveCalls:
        """The collectives of all parts of a Program."""
        by_code: list[list[SubGraphKey]] = []
        inside = []
        for code in program.codes:
            collectives = [
                instruction
                for instruction in code.instructions
                if instruction.action is InstructionKind.COLLECTIVE
            ]
            by_code.append(
                [sub_graph_key(code, collective) for collective in collectives if not collective.piece]
            )
            inside.append(sum(bool(collective.piece) for collective in collectives))
        every: list[Counter[SubGraphKey]] = []
        inside_graphs = []
        for part in program.parts:
            times = part.columns.times()
            every.append(Counter())
            for number, count in times.items():
                for kind in by_code[number]:
                    every[-1][kind] += count
            inside_graphs.append(sum(inside[number] * count for number, count in times.items()))
        return cls(host, tuple(every), tuple(inside_graphs))

    def number(self, part: int) -> tuple[int, int]:
        """Collectives that a rank of a part takes part in per step, and calls for them."""
        counts = self.collectives[part].values()
        return sum(counts) + self.inside[part], sum(map(self.host.count, counts))

    def seconds(self, code: InstructionBlock, instruction: Instruction) -> float:
        """Host seconds of one collective: its share of its call, on the part where that is largest.

        One figure for all parts, since those of several meet in a collective that all of them must end.
        """
        if not self.host.seconds or instruction.piece:
            return 0.0
        kind = sub_graph_key(code, instruction)
        if kind not in self._shares:
            counts = [part[kind] for part in self.collectives if part[kind]]
            self._shares[kind] = max((self.host.count(count) / count for count in counts), default=1.0)
        return self.host.seconds * self._shares[kind]


def sub_graph_key(code: InstructionBlock, instruction: Instruction) -> SubGraphKey:
    """The key that collectives of one sub-graph share."""
    dtype = next((str(code.slots[slot].type.dtype) for slot in (*instruction.reads, *instruction.writes)), "")
    return instruction.stream, instruction.operation, instruction.group, dtype, instruction.num_bytes
