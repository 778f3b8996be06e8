"""Published measurements of collectives, one per line of a CSV file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from simcluster.accuracy.table import parse_count, parse_figure, parse_size, read_table
from simcluster.deferred_dataclass import dataclass
from simcluster.errors import Problem

COLUMNS = (
    "id",
    "source",
    "op",
    "hardware",
    "num_devices",
    "num_hosts",
    "message_bytes",
    "time_us",
    "algbw_gb_s",
    "busbw_gb_s",
    "notes",
)
"""The columns of the file, in any order; further ones are kept out of it."""

_REQUIRED = tuple(column for column in COLUMNS if column not in ("source", "notes"))

_OPERATIONS = {
    "all_reduce": ("allreduce",),
    "all_gather": ("allgather", "allgatherbase"),
    "reduce_scatter": ("reducescatter", "reducescatterbase"),
    "alltoall": ("alltoall", "alltoallv", "alltoallsingle"),
    "broadcast": ("broadcast", "bcast"),
    "sendrecv": ("sendrecv", "p2p", "pointtopoint"),
    "h2d": ("h2d", "hosttodevice"),
}
"""Operations of these files by how publishers and libraries call them, in letters alone."""
_OPERATION_OF = {spelt: name for name, spellings in _OPERATIONS.items() for spelt in spellings}

SUSTAINED_BYTES = 1 << 30
"""Where a rate was published without a size: 1 GiB, where curves have become flat."""


@dataclass(frozen=True, slots=True)
class MeasuredRow:
    """One published measurement, in SI units.

    At least one of ``seconds``, ``algbw`` and ``busbw`` is there.
    """

    line: int
    """Where the file has it."""
    name: str
    """Its id in the file."""
    source: str
    """Who published it, and where."""
    operation: str
    """The collective, as the publisher calls it."""
    hardware: str
    """The hardware, as the publisher calls it."""
    num_devices: int
    """Ranks that took part."""
    num_hosts: int
    """Hosts that they were on."""
    num_bytes: int | None
    """Bytes as nccl-tests counts them; None where only a sustained rate was published."""
    seconds: float | None
    """The time of one collective."""
    algbw: float | None
    """Bytes by time, in bytes/s."""
    busbw: float | None
    """The bus bandwidth of nccl-tests, in bytes/s."""
    notes: str
    """What else the publisher says."""

    @property
    def size(self) -> int:
        """The message size that is predicted, in bytes, as nccl-tests counts it."""
        return SUSTAINED_BYTES if self.num_bytes is None else self.num_bytes


def read_rows(path: str | Path, refused: list[Problem] | None = None) -> list[MeasuredRow]:
    """The rows of a file, in its order.

    Raises ScenarioError, with every problem and its ``file:line:column``: columns that are missing, numbers
    that are none, counts below one, rows without any figure. What is wrong with single rows goes into
    ``refused``, if that is given.
    """
    return read_table(path, COLUMNS, _REQUIRED, _row, refused)


def operation_named(words: str) -> str:
    """The name in these files of what a publisher calls ``AllReduce`` or ``send-recv``; else the words."""
    return _OPERATION_OF.get(re.sub(r"[^a-z0-9]", "", words.lower()), words)


def _row(line: int, written: Mapping[str, str]) -> MeasuredRow:
    figures = [parse_figure(written, name) for name in ("time_us", "algbw_gb_s", "busbw_gb_s")]
    if all(figure is None for figure in figures):
        raise ValueError("none of time_us, algbw_gb_s and busbw_gb_s is given")
    seconds, algbw, busbw = figures
    devices, hosts = parse_count(written, "num_devices"), parse_count(written, "num_hosts")
    if devices is None or hosts is None:
        raise ValueError("num_devices and num_hosts are needed")
    if hosts > devices:
        raise ValueError(f"num_hosts {hosts} is more than num_devices {devices}")
    return MeasuredRow(
        line=line,
        name=written["id"],
        source=written.get("source", ""),
        operation=operation_named(written["op"]),
        hardware=written["hardware"],
        num_devices=devices,
        num_hosts=hosts,
        num_bytes=parse_size(written, "message_bytes"),
        seconds=None if seconds is None else seconds * 1e-6,
        algbw=None if algbw is None else algbw * 1e9,
        busbw=None if busbw is None else busbw * 1e9,
        notes=written.get("notes", ""),
    )
