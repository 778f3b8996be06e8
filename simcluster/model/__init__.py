"""What is computed: operators, graphs, model families and their catalog. Knows nothing of parallelism."""

from simcluster.model.builder import BlockBuilder
from simcluster.model.graph import Block, Graph, Instance, Node, Part, Phase, Role, Value
from simcluster.model.model import Model
from simcluster.model.operator import ONE, Array, Decomposition, Gradient, Operator, Region, Tape, TensorType
from simcluster.model.place import Place, Relocation, legs
from simcluster.model.transformer import Transformer

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
