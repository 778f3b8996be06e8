"""The phases of a block as codes, in order, and the stream of each of their nodes."""

from __future__ import annotations

from simcluster.layout import Movement
from simcluster.model import Block, MemoryPlace, Node, OptimizerOperator, Phase, Relocation
from simcluster.program.isa import COMPUTE, HOST, Purpose, collective_stream
from simcluster.program.lowering.host_device_copies import STREAMS, host_path_of

BEGIN, PREPARE, FORWARD, BACKWARD, WEIGHTS = "begin", "prepare", "forward", "backward", "weights"
RECOMPUTE = "recompute"
PER_MICRO_BATCH = (FORWARD, RECOMPUTE, BACKWARD, WEIGHTS)
"""What is done for every micro-batch, in order of the kernels."""

REDUCE, NORM, MEASURE, UPDATE = "reduce", "norm", "measure", "update"
GATHER, REGATHER, SCATTER, FETCH = "gather", "regather", "scatter", "fetch"

_PURPOSES = {
    BEGIN: Purpose.ONCE,
    REDUCE: Purpose.ONCE,
    NORM: Purpose.ONCE,
    MEASURE: Purpose.ONCE,
    UPDATE: Purpose.ONCE,
    GATHER: Purpose.WEIGHTS,
    REGATHER: Purpose.WEIGHTS,
    SCATTER: Purpose.GRADIENTS,
}


def nodes_gathered_once(block: Block) -> list[Node]:
    """The nodes that gather weights once per step: the begin phase up to its last collective."""
    begin = list(block.phase(Phase.BEGIN))
    return begin[: max((index + 1 for index, node in enumerate(begin) if _is_collective(node)), default=0)]


def reduction_nodes(block: Block) -> list[Node]:
    """The nodes that reduce gradients: the end phase up to the last collective before anything is updated."""
    end = list(block.phase(Phase.END))
    shared = set(block.shared)
    first = next((index for index, node in enumerate(end) if _updates(node, shared)), len(end))
    return end[
        : max((index + 1 for index, node in enumerate(end[:first]) if _is_collective(node)), default=0)
    ]


def _updates(node: Node, shared: set[str]) -> bool:
    """Whether a node of the end phase does more than to reduce the block's own gradients."""
    return isinstance(node.operator, OptimizerOperator) or not shared.isdisjoint(node.inputs)


def phases_of(block: Block) -> dict[str, list[Node]]:
    """Nodes per code.

    Of what happens once before a step, the movements are started for all blocks at once (``begin``); what
    follows them waits until the block is first used (``prepare``).

    The end phase has up to four parts, each run for all blocks before the next begins. Gradients are reduced
    behind the last backward (``reduce``). Then comes what makes values that blocks share (``norm``), what is
    computed up to the last collective of a number (``measure``), and the rest (``update``). Matrices that an
    update gathers are so block by block: those of all blocks at once would need memory for all.
    """
    begin = list(block.phase(Phase.BEGIN))
    gathered = len(nodes_gathered_once(block))
    end = list(block.phase(Phase.END))
    reduced = len(reduction_nodes(block))
    sharing = [index + 1 for index, node in enumerate(end) if not set(block.shared).isdisjoint(node.outputs)]
    normed = max(sharing, default=reduced)
    measured = max([normed, *(index + 1 for index, node in enumerate(end) if _sums_number(block, node))])
    return {
        BEGIN: begin[:gathered],
        PREPARE: begin[gathered:],
        GATHER: list(block.phase(Phase.GATHER)),
        FORWARD: list(block.phase(Phase.FORWARD)),
        REGATHER: list(block.phase(Phase.REGATHER)),
        FETCH: list(block.phase(Phase.FETCH)),
        RECOMPUTE: list(block.phase(Phase.RECOMPUTE)),
        BACKWARD: list(block.phase(Phase.BACKWARD)),
        WEIGHTS: list(block.phase(Phase.WEIGHTS)),
        SCATTER: list(block.phase(Phase.SCATTER)),
        REDUCE: end[:reduced],
        NORM: end[reduced:normed],
        MEASURE: end[normed:measured],
        UPDATE: end[measured:],
    }


def _is_collective(node: Node) -> bool:
    return isinstance(node.operator, Movement) and node.operator.is_collective


def _sums_number(block: Block, node: Node) -> bool:
    return _is_collective(node) and not block.values[node.outputs[0]].type.shape


def stream_of(code: str, node: Node) -> str:
    """The stream on which a node runs in a code."""
    if isinstance(node.operator, Movement) and node.operator.is_collective:
        return collective_stream(node.operator.axes, _PURPOSES.get(code, Purpose.ACTIVATIONS))
    if isinstance(node.operator, Relocation):
        return STREAMS[host_path_of(node.operator)]
    return HOST if node.place is MemoryPlace.HOST else COMPUTE
