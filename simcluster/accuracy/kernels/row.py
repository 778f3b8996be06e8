"""Measured kernels, one per line of a CSV file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from simcluster.accuracy.table import CellError, parse_figure, parse_whole, read_table
from simcluster.deferred_dataclass import dataclass
from simcluster.errors import Problem

COUNTS = ("batch", "m", "n", "k", "heads", "kv_heads", "head_dim", "seq_q", "seq_kv", "elements")
COLUMNS = (
    "id",
    "source",
    "device",
    "kernel",
    "op",
    "dtype",
    "layout",
    *COUNTS[:9],
    "causal",
    "elements",
    "direction",
    "time_us",
    "software",
    "notes",
)
"""The columns of the file, in any order; further ones are kept out of it."""

_REQUIRED = tuple(column for column in COLUMNS if column not in ("source", "software", "notes"))


@dataclass(frozen=True, slots=True)
class MeasuredKernel:
    """One measured kernel: ``line`` is where the file has it, ``words`` and ``counts`` its cells by column.

    A count that is not stated, or is 0, is absent.
    """

    line: int
    words: Mapping[str, str]
    counts: Mapping[str, int]
    seconds: float

    @property
    def name(self) -> str:
        """Its id."""
        return self.words["id"]

    @property
    def hardware(self) -> str:
        """The publisher's words for the device."""
        return self.words["device"]

    @property
    def operation(self) -> str:
        """The class of kernel: gemm, attention_fwd, norm."""
        return self.words["kernel"]

    @property
    def group(self) -> str:
        """The publisher: the id without its number."""
        return self.name.rpartition("-")[0]

    @property
    def source(self) -> str:
        """Where it was published, without revision and path."""
        return self.words.get("source", "").partition("@")[0] or self.group

    @property
    def notes(self) -> str:
        """What else the publisher says."""
        return self.words.get("notes", "")

    def count(self, column: str, otherwise: int = 1) -> int:
        """The count in a column; ``otherwise`` where the row does not state it."""
        return self.counts.get(column, otherwise)


def read_kernels(path: str | Path, refused: list[Problem] | None = None) -> list[MeasuredKernel]:
    """The rows of a file, in its order.

    Raises ScenarioError, with every problem and its ``file:line:column``: columns that are missing, numbers
    that are none. What is wrong with single rows goes into ``refused``, if that is given.
    """
    return read_table(path, COLUMNS, _REQUIRED, _kernel, refused)


def _kernel(line: int, written: Mapping[str, str]) -> MeasuredKernel:
    counts: dict[str, int] = {}
    for title in COUNTS:
        if not (text := written[title]):
            continue
        number = parse_whole(text)
        if number is None:
            raise CellError(title, f"'{text}' is not a whole number")
        if number:
            counts[title] = number
    time = parse_figure(written, "time_us")
    if time is None:
        raise CellError("time_us", "is missing")
    return MeasuredKernel(line, written, counts, time * 1e-6)
