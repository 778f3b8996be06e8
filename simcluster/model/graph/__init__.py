"""The graph of a model: operators, values, blocks and their instances, before any parallelism."""

from simcluster.model.graph.block_builder import BlockBuilder
from simcluster.model.graph.graph import LAYERS, Block, Graph, Instance, Node, Part, Phase, Role, Value
from simcluster.model.graph.memory_place import ANY_TIME, Place, Relocation, legs
from simcluster.model.graph.operand_check import misfit
from simcluster.model.graph.operator import (
    ONE,
    UNIT,
    Array,
    Decomposition,
    Gradient,
    Operator,
    Ragged,
    Region,
    Tape,
    TensorType,
    memory_bound,
    unit_dims,
)
from simcluster.model.graph.zigzag_order import Zigzag, positions

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
    "Instance",
    "Node",
    "Operator",
    "Part",
    "Phase",
    "Place",
    "Ragged",
    "Region",
    "Relocation",
    "Role",
    "Tape",
    "TensorType",
    "Value",
    "Zigzag",
    "legs",
    "memory_bound",
    "misfit",
    "positions",
    "unit_dims",
]
