"""From a block of the graph to instructions: phases and streams, fused kernels, buffer sizes, lifetimes and
memory categories, transfers between stages, copies to and from hosts, operators on hosts.
"""

from simcluster.program.lowering.block_lowering import Lowering, scopes
from simcluster.program.lowering.code_table import CodeTable
from simcluster.program.lowering.fused_kernel import joined
from simcluster.program.lowering.graph_launch import dispatched
from simcluster.program.lowering.host_device_copies import in_turn, way_of
from simcluster.program.lowering.host_operators import runs_on_host
from simcluster.program.lowering.memory_categories import RESIDENT
from simcluster.program.lowering.phases import (
    BACKWARD,
    BEGIN,
    FETCH,
    FORWARD,
    GATHER,
    MEASURE,
    NORM,
    PREPARE,
    RECOMPUTE,
    REDUCE,
    REGATHER,
    SCATTER,
    UPDATE,
    WEIGHTS,
    gathered_once,
    reduction,
)
from simcluster.program.lowering.segments import phase_of
from simcluster.program.lowering.storage import local_type

__all__ = [
    "BACKWARD",
    "BEGIN",
    "FETCH",
    "FORWARD",
    "GATHER",
    "MEASURE",
    "NORM",
    "PREPARE",
    "RECOMPUTE",
    "REDUCE",
    "REGATHER",
    "RESIDENT",
    "SCATTER",
    "UPDATE",
    "WEIGHTS",
    "CodeTable",
    "Lowering",
    "dispatched",
    "gathered_once",
    "in_turn",
    "joined",
    "local_type",
    "phase_of",
    "reduction",
    "runs_on_host",
    "scopes",
    "way_of",
]
