"""The Program: instruction codes, executions per part, symmetry classes, and the checker."""

from simcluster.program.build import build
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
from simcluster.program.part import ONCE
from simcluster.program.program import PartProgram, Program, Resident
from simcluster.program.structure import Loads
from simcluster.program.symmetry import (
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
