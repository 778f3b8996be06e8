"""From a block of the graph to instructions: phases and streams, fused kernels, buffer sizes, lifetimes and
memory categories, transfers between stages, copies to and from hosts, operators on hosts.
"""

from simcluster.program.lowering.block_lowering import Lowering, buffer_scopes, lower_block
from simcluster.program.lowering.code_table import CodeTable
from simcluster.program.lowering.collective_copies import ORDERED
from simcluster.program.lowering.fused_kernel import fused_work
from simcluster.program.lowering.graph_launch import runs_kernels
from simcluster.program.lowering.host_device_copies import host_path_of, order_copies
from simcluster.program.lowering.host_operators import runs_on_host
from simcluster.program.lowering.memory_categories import PERSISTENT
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
    nodes_gathered_once,
    phases_of,
    reduction_nodes,
)
from simcluster.program.lowering.segments import SegmentName, phase_of
from simcluster.program.lowering.storage import local_type

__all__ = [
    "BACKWARD",
    "BEGIN",
    "FETCH",
    "FORWARD",
    "GATHER",
    "MEASURE",
    "NORM",
    "ORDERED",
    "PERSISTENT",
    "PREPARE",
    "RECOMPUTE",
    "REDUCE",
    "REGATHER",
    "SCATTER",
    "UPDATE",
    "WEIGHTS",
    "CodeTable",
    "Lowering",
    "SegmentName",
    "buffer_scopes",
    "fused_work",
    "host_path_of",
    "local_type",
    "lower_block",
    "nodes_gathered_once",
    "order_copies",
    "phase_of",
    "phases_of",
    "reduction_nodes",
    "runs_kernels",
    "runs_on_host",
]
