"""What is computed: operators, graphs, model families and their catalog. Knows nothing of parallelism."""

from simcluster.model.families.transformer import Transformer
from simcluster.model.graph.block_builder import BlockBuilder
from simcluster.model.graph.graph import Block, Graph, Instance, Node, Part, Phase, Role, Value
from simcluster.model.graph.memory_place import Place, Relocation, legs
from simcluster.model.graph.operator import (
    ONE,
    Array,
    Decomposition,
    Gradient,
    Operator,
    Region,
    Tape,
    TensorType,
)
from simcluster.model.model import Model

__all__ = [
    "ONE",
    "Array",
    "Block",
    "BlockBuilder",
    "Decomposition",
    "Gradient",
    "Graph",
    "Instance",
    "Model",
    "Node",
    "Operator",
    "Part",
    "Phase",
    "Place",
    "Region",
    "Relocation",
    "Role",
    "Tape",
    "TensorType",
    "Transformer",
    "Value",
    "legs",
]
