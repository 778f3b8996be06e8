"""A collective's times and rates at several sizes: from the words of a command line to a table."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from rich.console import RenderableType
from rich.text import Text

from simcluster import units
from simcluster.cluster import Cluster, Ranks, load_cluster
from simcluster.collectives import AUTO, BenchmarkRow, CollectiveRequest, Operation, benchmark, refused_name
from simcluster.deferred_dataclass import dataclass
from simcluster.draw import Column, csv_text, quantities, render_text, renderables_html, text_table
from simcluster.errors import PlanError, Problem, ScenarioError, nearest
from simcluster.listings.part_sizes import RequestedParts, read_parts
from simcluster.listings.rank_lists import rank_list
from simcluster.plan import MOST_BYTES, MOST_RANKS

if TYPE_CHECKING:
    import polars

_HEAD = (
    "operation",
    "cluster",
    "num_devices",
    "num_hosts",
    "message_bytes",
    "algorithm",
    "protocol",
    "channels",
    "time_us",
    "latency_us",
    "algbw_gb_s",
    "busbw_gb_s",
)
_CARRIERS = ("links", "fabric", "island", "pod", "network", "collectives")
"""The parts of a host and a device whose figures a collective's time rests on."""

_OF_PARTS = "parts"
"""What stands for sizes where a file of parts has them."""

_LAWS = "a law, such as --parts zipf:1.2, or a file with a line of whole numbers for each sender"


@dataclass(frozen=True, slots=True, repr=False)
class CollectiveBenchmark:
    """A collective and a row of times for every size; ``parts`` where ranks send unequal ones."""

    operation: Operation
    name: str
    cluster: Cluster
    ranks: Ranks
    rows: list[BenchmarkRow]
    parts: RequestedParts | None = None

    @classmethod
    def of(
        cls,
        operation: str,
        cluster: str,
        hosts: int,
        sizes: str,
        algorithm: str,
        ranks: str | None,
        protocol: str = AUTO,
        parts: str | None = None,
        seed: int | None = None,
    ) -> CollectiveBenchmark:
        """Reads the words and prices every size; ``sizes`` of ``parts`` is the one that the file has.

        Raises ScenarioError with every wrong word, PlanError for a group that cannot do the operation.
        """
        problems: list[Problem] = []
        requested: RequestedParts | None = None
        if parts is not None and operation != Operation.ALL_TO_ALL_V:
            problems.append(Problem(f"only {Operation.ALL_TO_ALL_V} has unequal parts", where="--parts"))
        if parts is None and seed is not None:
            problems.append(Problem("a seed draws parts; there are none", where="--seed", hint=_LAWS))
        if operation not in list(Operation):
            hint = nearest(operation, list(Operation))
            problems.append(Problem(f"there is no collective '{operation}'", hint=hint))
        elif problem := refused_name(algorithm, Operation(operation)):
            problems.append(replace(problem, where=f"--algorithm {algorithm}"))
        wanted: list[float] = []
        try:
            wanted = [] if sizes == _OF_PARTS else [*_sizes(sizes)]
        except ValueError as error:
            problems.append(Problem(str(error), where=f"--sizes {sizes}"))
        try:
            built = load_cluster(cluster, hosts)
        except ScenarioError as error:
            problems += [
                Problem(
                    refusal.message,
                    hint=refusal.hint,
                    where="--hosts" if refusal.path == "hosts" else "--cluster",
                )
                for refusal in error.problems
            ]
        else:
            try:
                group = _group(ranks, built.num_devices)
            except ValueError as error:
                problems.append(Problem(str(error), where=f"--ranks {ranks}" if ranks else "--hosts"))
            else:
                try:
                    requested = read_parts(parts, seed, group.size) if parts is not None else None
                except ValueError as error:
                    problems.append(Problem(str(error), where=f"--parts {parts}", hint=_LAWS))
                except ScenarioError as error:
                    problems += error.problems
        if sizes == _OF_PARTS:
            if requested and requested.mean:
                wanted = [requested.mean]
            elif not problems:
                hint = "write sizes such as 1KiB..8GiB, or a file of bytes under --parts"
                problems.append(Problem("there is no file of parts", where="--sizes parts", hint=hint))
        if problems:
            raise ScenarioError(*problems)
        asked = Operation(operation)
        if asked is Operation.SEND_RECEIVE and group.size != 2:
            hint = f"choose them, such as --ranks 0,1 or --ranks 0,{built.num_devices - 1}"
            raise PlanError(f"send_receive has two ends, not {group.size}", hint=hint)
        rows = benchmark(
            asked,
            built.placement(group),
            wanted,
            built,
            CollectiveRequest(algorithm, protocol),
            requested.parts if requested else None,
        )
        return cls(asked, cluster, built, group, rows, requested)

    def frame(self) -> polars.DataFrame:
        """A row per size as a polars DataFrame, times in seconds and rates in bytes/s; needs ``notebook``."""
        import polars

        return polars.DataFrame(
            {
                "num_bytes": [float(row.num_bytes) for row in self.rows],
                "algorithm": [row.choice.algorithm for row in self.rows],
                "protocol": [row.choice.protocol for row in self.rows],
                "seconds": [row.seconds for row in self.rows],
                "latency_s": [row.choice.latency for row in self.rows],
                "algbw": [row.algbw for row in self.rows],
                "busbw": [row.busbw for row in self.rows],
            }
        )

    def __str__(self) -> str:
        return bench_text(self)

    def _repr_html_(self) -> str:
        return renderables_html(*_parts(self))

    def __repr__(self) -> str:
        return f"CollectiveBenchmark: {describe_group(self)}, {len(self.rows)} sizes"


def bench_rows(bench: CollectiveBenchmark) -> tuple[list[Column], list[list[str]]]:
    """The columns of the table, and its rows as text."""
    columns = [
        Column("bytes", quantity=True),
        Column("size", quantity=True),
        Column("algorithm"),
        Column("protocol"),
        Column("ch.", quantity=True),
        *quantities("time us", "latency us", "algbw GB/s", "busbw GB/s"),
    ]
    rows = [
        [
            f"{row.num_bytes:,.0f}",
            units.size(row.num_bytes),
            row.choice.algorithm,
            row.choice.protocol,
            "" if row.choice.channels is None else str(row.choice.channels),
            f"{row.seconds * 1e6:,.2f}",
            f"{row.choice.latency * 1e6:,.2f}",
            f"{row.algbw * 1e-9:,.2f}",
            f"{row.busbw * 1e-9:,.2f}",
        ]
        for row in bench.rows
    ]
    return columns, rows


def bench_text(bench: CollectiveBenchmark, *, colour: bool = False) -> str:
    """The table to read, below a line about the group and above the assumed figures."""
    return render_text(*_parts(bench), colour=colour)


def _parts(bench: CollectiveBenchmark) -> list[RenderableType]:
    columns, rows = bench_rows(bench)
    lines: list[RenderableType] = [Text(describe_group(bench), "bold"), "", text_table(columns, rows)]
    if bench.parts:
        lines.insert(1, Text(str(bench.parts)))
    if assumed := _assumed(bench.cluster):
        more = (
            f"Based on assumed figures: {', '.join(assumed)}. Their reasons: simcluster catalog {bench.name}"
        )
        lines += ["", Text(more, "dim")]
    return lines


def bench_csv(bench: CollectiveBenchmark) -> str:
    """Comma-separated values, a row per size; times in microseconds, rates in 10^9 bytes/s."""
    group = (bench.operation, bench.name, bench.ranks.size)
    num_hosts = np.unique(bench.cluster.hosts_of(bench.ranks)).size
    rows = [
        [
            *(*group, num_hosts, f"{row.num_bytes:.10g}"),
            *(row.choice.algorithm, row.choice.protocol, row.choice.channels),
            *(f"{time * 1e6:.10g}" for time in (row.seconds, row.choice.latency)),
            *(f"{rate * 1e-9:.10g}" for rate in (row.algbw, row.busbw)),
        ]
        for row in bench.rows
    ]
    return csv_text(_HEAD, *rows)


def describe_group(bench: CollectiveBenchmark) -> str:
    """``all_reduce of 128 ranks on 16 x dgx-h100, 8 on each``."""
    counts = np.unique(bench.cluster.hosts_of(bench.ranks), return_counts=True)[1]
    most, fewest = counts.max(), counts.min()
    per_host = f"{most}" if most == fewest else f"{fewest} to {most}"
    where = (
        f"on {counts.size} x {bench.name}, {per_host} on each" if counts.size > 1 else f"on one {bench.name}"
    )
    return f"{bench.operation} of {bench.ranks.size} ranks {where}"


def _assumed(cluster: Cluster) -> list[str]:
    """The names of the assumed figures of links and protocols."""
    return [figure.name for figure in cluster.assumptions if figure.name.split(".")[1] in _CARRIERS]


_LETTER = re.compile(r"([\d.]+)\s*([kKmMgGtT])")
"""A size whose unit is a letter alone, which counts by 1,024 here."""


def _sizes(text: str) -> list[int]:
    """Bytes from ``1KiB..8GiB`` (doubled), ``1KiB,3MiB`` or ``1K..8G``; ValueError says what is wrong."""
    if ".." in text:
        first, last = map(_bytes, text.split("..", 1))
        if first > last:
            raise ValueError("the first size is larger than the last")
        return [first << doublings for doublings in range((last // first).bit_length())]
    return [_bytes(word) for word in text.split(",")]


def _bytes(text: str) -> int:
    letter = _LETTER.fullmatch(text.strip())
    written = f"{letter[1]}{letter[2].upper()}iB" if letter else text
    num_bytes = units.parse(written, units.Dimension.BYTES)
    if num_bytes < 1 or num_bytes % 1:
        raise ValueError(f"'{text.strip()}' is not a whole number of bytes, at least one")
    if num_bytes > MOST_BYTES:
        raise ValueError(f"'{text.strip()}' is larger than {units.size(MOST_BYTES)}")
    return int(num_bytes)


def _group(text: str | None, num_devices: int) -> Ranks:
    """The ranks ``0,8,16-23``, or all of them; ValueError says what is wrong."""
    if text is None:
        if num_devices > MOST_RANKS:
            raise ValueError(f"{num_devices:,} ranks; at most {MOST_RANKS:,} are simulated")
        return np.arange(num_devices, dtype=np.int64)
    return rank_list(text, num_devices)
