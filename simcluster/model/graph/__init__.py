"""The graph of a model: operators, values, blocks and their instances, before any parallelism."""

from simcluster.model.graph.block_builder import BlockBuilder
from simcluster.model.graph.graph import LAYERS, Block, Graph, Instance, Node, Phase, Role, TensorSlice, Value
from simcluster.model.graph.graph_digest import graph_digests
from simcluster.model.graph.memory_place import ANY_TIME, MemoryPlace, Relocation, relocations_between
from simcluster.model.graph.operand_check import operand_problem
from simcluster.model.graph.operator import (
    ONE,
    UNIT,
    Array,
    Decomposition,
    Gradient,
    Labels,
    MemoryBound,
    MemoryPass,
    Operator,
    Ragged,
    Region,
    Tape,
    TensorType,
    memory_bound,
    unit_dims,
)
from simcluster.model.graph.rewrite import (
    GroupBatch,
    Narrow,
    OneBarrier,
    Reorder,
    Rewrite,
    RingTurns,
    SequenceSlice,
    SparseRows,
)
from simcluster.model.graph.zigzag_order import Zigzag, token_positions

__all__ = [
    "ANY_TIME",
    "LAYERS",
    "ONE",
    "UNIT",
    "Array",
    "Block",
    "BlockBuilder",
    "Decomposition",
    "Gradient",
    "Graph",
    "GroupBatch",
    "Instance",
    "Labels",
    "MemoryBound",
    "MemoryPass",
    "MemoryPlace",
    "Narrow",
    "Node",
    "OneBarrier",
    "Operator",
    "Phase",
    "Ragged",
    "Region",
    "Relocation",
    "Reorder",
    "Rewrite",
    "RingTurns",
    "Role",
    "SequenceSlice",
    "SparseRows",
    "Tape",
    "TensorSlice",
    "TensorType",
    "Value",
    "Zigzag",
    "graph_digests",
    "memory_bound",
    "operand_problem",
    "relocations_between",
    "token_positions",
    "unit_dims",
]
