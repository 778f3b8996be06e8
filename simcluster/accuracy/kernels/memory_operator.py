"""What publishers call memory-bound kernels, and what these are: the table ``operators.yaml``."""

from __future__ import annotations

from functools import cache
from typing import Literal

from simcluster.cluster import StreamingKernel
from simcluster.document import Document, Name, PositiveFloat, Section, matches, validate
from simcluster.registry import data_files


class MemoryOperator(Section):
    """One entry: an operator as an implementation computes it."""

    op: Name
    """A pattern over the publisher's name of it."""

    rows: Name = "*"
    """A pattern over the group of the row, where others use the same name for something else."""

    operator: Name
    """What it computes: ``rms_norm``."""

    implementation: Name
    """Whose code computes it: ``eager``, ``megatron``."""

    kernel: StreamingKernel
    """How it goes through memory."""

    forward: PositiveFloat
    """Tensors of the main one's size that are at least read or written, forward."""

    backward: PositiveFloat
    """The same, backward."""

    dtype: Literal["fp32", "bf16"] | None = None
    """The type of rows that state none."""


class OperatorTable(Section):
    """The whole table; of several entries that match a row the first one counts."""

    operators: tuple[MemoryOperator, ...]
    """The entries."""


@cache
def known_operators() -> tuple[MemoryOperator, ...]:
    """The entries of the shipped table, in order."""
    text = data_files("simcluster.accuracy.kernels")["operators"].read_text(encoding="utf-8")
    return validate(Document.parse(text, "operators.yaml"), OperatorTable).operators


@cache
def operator_of(op: str, group: str) -> MemoryOperator | None:
    """What rows of a group call ``op``, in its case or in lower case, or None."""
    for entry in known_operators():
        if matches(entry.rows, group) and (matches(entry.op, op) or matches(entry.op, op.lower())):
            return entry
    return None
