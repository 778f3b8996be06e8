"""The Program: instruction codes, executions per part, symmetry classes, and the checker."""

from simcluster.program.assembly.build_program import build
from simcluster.program.checker import check
from simcluster.program.isa.instruction import (
    COMPUTE,
    Action,
    Call,
    Category,
    Code,
    Execution,
    Instruction,
    Scope,
    Slot,
)
from simcluster.program.isa.program import PartProgram, Program, Resident
from simcluster.program.stages.stage_context import ONCE
from simcluster.program.symmetry.coloured_graph import Loads
from simcluster.program.symmetry.rank_classes import (
    Classes,
    Flows,
    Group,
    Loading,
    partition,
    partitions,
    pipeline_pairs,
)

__all__ = [
    "COMPUTE",
    "ONCE",
    "Action",
    "Call",
    "Category",
    "Classes",
    "Code",
    "Execution",
    "Flows",
    "Group",
    "Instruction",
    "Loading",
    "Loads",
    "PartProgram",
    "Program",
    "Resident",
    "Scope",
    "Slot",
    "build",
    "check",
    "partition",
    "partitions",
    "pipeline_pairs",
]
