"""The kernels of a block in program order, with who makes and who reads each value."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from simcluster.model import Block, Node
from simcluster.plan.execution.kernel_fusion import kernel_nodes


@dataclass(frozen=True)
class KernelOrder:
    """Kernels of a fused block by their position."""

    block: Block
    """The block."""
    kernels: Sequence[tuple[Node, ...]]
    """The nodes of each kernel."""
    readers: Mapping[str, Sequence[int]]
    """Value -> positions of the kernels that read it."""
    makers: Mapping[str, int]
    """Value -> position of the kernel that makes it."""

    @classmethod
    def of(cls, block: Block) -> KernelOrder:
        """The order of a block's kernels."""
        kernels = kernel_nodes(block.nodes)
        readers: defaultdict[str, list[int]] = defaultdict(list)
        makers: dict[str, int] = {}
        for place, kernel in enumerate(kernels):
            for node in kernel:
                for value in node.inputs:
                    readers[value].append(place)
                makers |= dict.fromkeys(node.outputs, place)
        return cls(block, kernels, readers, makers)

    def users(self, value: str, behind: int) -> Iterator[int]:
        """Positions of the later kernels of the same phase that read a value."""
        phase = self.kernels[behind][0].phase
        return (
            place
            for place in self.readers.get(value, ())
            if place > behind and self.kernels[place][0].phase is phase
        )

    def leaves(self, value: str) -> bool:
        """Whether a value is read outside the block's own nodes."""
        border = (*self.block.inputs, *self.block.outputs)
        return value in border or any(self.block.gradients.get(name) == value for name in border)

    def read(self, place: int) -> Iterator[str]:
        """Values that a kernel reads and does not make itself, each once."""
        own = {value for node in self.kernels[place] for value in node.outputs}
        read = dict.fromkeys(value for node in self.kernels[place] for value in node.inputs)
        return (value for value in read if value not in own)

    def made(self, place: int) -> Iterator[str]:
        """Values that a kernel makes, each once."""
        return iter(dict.fromkeys(value for node in self.kernels[place] for value in node.outputs))
