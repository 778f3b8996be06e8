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
from simcluster.program.symmetry import Classes, Group, partition

__all__ = [
    "COMPUTE",
    "ONCE",
    "Action",
    "Call",
    "Category",
    "Classes",
    "Code",
    "Execution",
    "Group",
    "Instruction",
    "Program",
    "Resident",
    "Scope",
    "Slot",
    "StageProgram",
    "build",
    "check",
    "partition",
]
