"""Which codes read and write each value of a block: how long buffers live and which code releases them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from simcluster.deferred_dataclass import dataclass
from simcluster.model import Block, Node, Phase, Role
from simcluster.program.isa import COMPUTE, OFFLOAD, Scope, charged_to
from simcluster.program.lowering.phases import MEASURE, NORM, REDUCE, UPDATE
from simcluster.program.lowering.segments import phase_of

_EACH = (
    *map(str, (Phase.FORWARD, Phase.FETCH, Phase.RECOMPUTE, Phase.BACKWARD, Phase.WEIGHTS, Phase.SCATTER)),
    *(REDUCE, NORM, MEASURE, UPDATE),
)
"""What drops what it is the last to read: what runs for every micro-batch, and the parts of a step's end, of
which one may bring from a host what the next one needs.
"""

_RESIDENT = frozenset(
    {Role.PARAMETER, Role.COPY, Role.STATE, Role.CACHE, Role.ACCUMULATOR, Role.BUFFER, Role.VIEW}
)


@dataclass(frozen=True, slots=True)
class ValueUses:
    """Which codes read and write each value of a block; ``order`` are those that drop, ``borders`` what other
    blocks see, or the gradient of it.
    """

    block: Block
    readers: Mapping[str, set[str]]
    writers: Mapping[str, set[str]]
    given: Mapping[str, Scope]
    streams: Mapping[tuple[str, str], set[str]]
    order: tuple[str, ...]
    borders: frozenset[str | None]

    @classmethod
    def of(
        cls,
        block: Block,
        phases: Mapping[str, Sequence[Node]],
        given: Mapping[str, Scope],
        stream: Callable[[str, Node], str],
    ) -> ValueUses:
        """The uses of a block's values by its codes; ``given`` are scopes that are known beforehand.

        ``stream`` tells the stream of a node in a code.
        """
        readers: dict[str, set[str]] = defaultdict(set)
        writers: dict[str, set[str]] = defaultdict(set)
        streams: dict[tuple[str, str], set[str]] = defaultdict(set)
        for name, nodes in phases.items():
            for node in nodes:
                for value in node.inputs:
                    readers[value].add(name)
                    streams[value, name].add(stream(name, node))
                for value in node.outputs:
                    writers[value].add(name)
        order = tuple(name for name in phases if phase_of(name) in _EACH)
        crossing = (*block.inputs, *block.outputs)
        borders = frozenset((*crossing, *block.feeds, *map(block.gradients.get, crossing)))
        return cls(block, readers, writers, given, streams, order, borders)

    def border(self, value: str) -> bool:
        """Whether the value, or the one it is the gradient of, is an input, output or feed of the block."""
        return value in self.borders

    def leaves(self, value: str) -> bool:
        """Whether another block reads the value, and so releases it."""
        block = self.block
        return value in block.outputs or any(block.gradients.get(name) == value for name in block.inputs)

    def scope(self, value: str) -> Scope:
        """How long the value's buffer lives."""
        if value in self.given:
            return self.given[value]
        role = self.block.values[value].role
        if role in _RESIDENT:
            return Scope.STEP
        codes = self.readers[value] | self.writers[value]
        # Other blocks make the weights that nobody here gathers, and add to the sums.
        common = role is Role.SUM or (role is Role.GATHERED and not self.writers[value])
        if not self.border(value) and not common and len(codes) < 2:
            return Scope.LOCAL
        return Scope.KEPT if role is Role.GATHERED and not self.regathers else Scope.MICRO_BATCH

    @property
    def regathers(self) -> bool:
        """Whether the weights are gathered again for the backward, not kept until then."""
        return any(self.block.phase(Phase.REGATHER))

    def drops(self, value: str, code: str) -> set[str]:
        """The streams on which the last reader of a value in this code is one of those that drop it.

        That is the last code of the block to read it. Where it does so on streams of collectives alone, these
        may run before earlier kernels have read it: then the other streams of earlier codes drop it too. So
        do always those that copy it elsewhere, for which no kernel waits.
        """
        if self.scope(value) is Scope.STEP:
            return set()
        order = [name for name in self.order if name in self.readers[value]]
        if not order or code not in order:
            return set()
        last = self.streams[value, order[-1]]
        if code == order[-1]:
            return last
        later = {stream for name in order[order.index(code) + 1 :] for stream in self.streams[value, name]}
        streams = self.streams[value, code] - later
        return (
            {stream for stream in streams if charged_to(stream, "") == (OFFLOAD,)}
            if COMPUTE in last
            else streams
        )
