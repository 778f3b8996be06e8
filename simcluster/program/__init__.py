"""The Program: instruction codes, executions per stage, symmetry classes, and the checker."""

from simcluster.program.build import ONCE, build
from simcluster.program.check import check
from simcluster.program.instruction import (
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
from simcluster.program.program import Program, Resident, StageProgram
from simcluster.program.structure import Loads
from simcluster.program.symmetry import Classes, Flows, Group, Loading, partition, pipeline_pairs

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
    "Program",
    "Resident",
    "Scope",
    "Slot",
    "StageProgram",
    "build",
    "check",
    "partition",
    "pipeline_pairs",
]
