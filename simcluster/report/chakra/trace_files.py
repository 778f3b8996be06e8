"""The files of a Chakra trace: per rank a message about the whole, then a node for each kernel and transfer.

Every message stands behind its length, as a varint. What Chakra asks for and a run does not record is
derived, and said here:

- ``ctrl_deps`` of a node is the one before on its stream.
- ``data_deps`` follow from times: a transfer depends on the last kernel that was over when the rank was ready
  for it; a kernel on the transfers that ended since the kernel before it, while it waited.
- Microseconds are rounded; the attributes ``start_ns`` and ``duration_ns`` are exact.
- ``pg_name`` is the mesh axis and the lowest rank of the group: all members give it the same name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simcluster.deferred_dataclass import dataclass
from simcluster.errors import TraceError
from simcluster.report.chakra.schema import (
    COLLECTIVES,
    COMM_COLL,
    COMM_RECV,
    COMM_SEND,
    COMP,
    MEM_LOAD,
    MEM_STORE,
    VERSION,
    chakra_messages,
)
from simcluster.trace import COMPUTE, Run, Table, write_file

MOST_RANKS = 1024
"""Files that are written if no ranks are named."""

_OPERATION = re.compile("|".join(sorted(COLLECTIVES, key=len, reverse=True)))
_TO_DEVICE = ("memory to device", "disks to memory")
_PEERS = {"send_next": "next", "recv_next": "next", "send_prev": "prev", "recv_prev": "prev"}


@dataclass(frozen=True, slots=True)
class ChakraFiles:
    """The files that were written, and how many of their collectives Chakra has no type for."""

    paths: tuple[Path, ...]
    untyped: int


def write_chakra(run: Run, folder: str | Path, ranks: Iterable[int] | None = None) -> ChakraFiles:
    """Writes ``NAME.RANK.et`` into a folder, for every rank or for those that are named.

    Raises SimclusterError where protobuf is not installed, TraceError for ranks that do not exist, for more
    than 1,024 files unasked, and if one cannot be written.
    """
    metadata, node = chakra_messages()
    if ranks is None and len(run.ranks) > MOST_RANKS:
        raise TraceError(
            f"{len(run.ranks):,} ranks would be as many files; unasked, at most {MOST_RANKS:,} are written",
            hint="name the ranks: --ranks 0,8,16-23, or ranks=[0, 8]",
        )
    chosen = run.classes_of(range(len(run.ranks)) if ranks is None else ranks)
    name = re.sub(r"[^a-z0-9]+", "-", run.documents["plan"]["name"].lower()).strip("-")
    Path(folder).mkdir(parents=True, exist_ok=True)
    paths, untyped = [], 0
    groups = _Groups.of(run)
    spans: dict[int, Table] = {}
    for rank, index in chosen.items():
        if index not in spans:
            spans[index] = run.recording.spans(index)
        about = metadata(version=VERSION)
        about.attr.add(name="simulated by", string_val="simcluster")
        about.attr.add(name="scenario", string_val=run.documents["plan"]["name"])
        about.attr.add(name="rank", int64_val=rank)
        nodes = list(_nodes(spans[index], rank, groups, node))
        untyped += sum(
            entry.type == COMM_COLL and all(attribute.name != "comm_type" for attribute in entry.attr)
            for entry in nodes
        )
        path = Path(folder, f"{name}.{rank}.et")
        write_file(path, [b"".join(_delimited(message) for message in (about, *nodes))])
        paths.append(path)
    return ChakraFiles(tuple(paths), untyped)


@dataclass(frozen=True)
class _Groups:
    """Who a rank meets: the mesh, row-major over its axes, and its neighbours along the pipeline."""

    sizes: dict[str, int]
    following: NDArray[np.int64]
    before: NDArray[np.int64]

    @classmethod
    def of(cls, run: Run) -> _Groups:
        following = run.ranks["next"].astype(np.int64)
        before = np.full(len(following), -1, dtype=np.int64)
        known = np.flatnonzero(following >= 0)
        before[following[known]] = known
        return cls(dict(run.documents["plan"]["mesh"]), following, before)

    def peer(self, rank: int, stream: str) -> int:
        """The rank at the other end of a transfer between stages."""
        return int((self.following if _PEERS[stream] == "next" else self.before)[rank])

    def name(self, rank: int, stream: str) -> str:
        """``tensor:8``: the axes of a group and its lowest rank; axes alone that are not the mesh's."""
        axes = stream.partition(" (")[0]
        lowest, stride = rank, 1
        for axis, size in reversed(self.sizes.items()):
            if axis in axes.split("+"):
                lowest -= rank // stride % size * stride
            stride *= size
        return f"{axes}:{lowest}" if set(axes.split("+")) <= set(self.sizes) else axes


def _nodes(spans: Table, rank: int, groups: _Groups, node: type[Any]) -> Iterator[Any]:
    starts, ends, arrivals = (spans[name].tolist() for name in ("start", "end", "arrival"))
    streams, operators, sizes, flops = (
        spans.text("stream").tolist(),
        spans.text("operator").tolist(),
        spans["bytes"].tolist(),
        spans["flops"].tolist(),
    )
    kinds = spans.text("kind").tolist()
    kernels = [row for row, stream in enumerate(streams) if stream == COMPUTE]
    kernel_ends = np.array([ends[row] for row in kernels], dtype=np.int64)
    moved = np.array(sorted(set(range(len(starts))) - set(kernels), key=ends.__getitem__), dtype=np.int64)
    moved_ends = np.array([ends[row] for row in moved.tolist()], dtype=np.int64)
    last: dict[str, int] = {}
    for row, (stream, start) in enumerate(zip(streams, starts, strict=True)):
        made = node(id=row, name=operators[row], start_time_micros=round(start / 1000))
        made.duration_micros = round((ends[row] - start) / 1000)
        if stream in last:
            made.ctrl_deps.append(last[stream])
        if stream == COMPUTE:
            since = ends[last[stream]] if stream in last else -1
            first = int(np.searchsorted(moved_ends, since, side="right"))
            stop = int(np.searchsorted(moved_ends, start, side="right"))
            made.data_deps.extend(moved[first:stop].tolist())
        elif ready := int(np.searchsorted(kernel_ends, arrivals[row], side="right")):
            made.data_deps.append(kernels[ready - 1])
        last[stream] = row
        _describe(made, kinds[row], stream, operators[row], groups, rank)
        made.attr.add(name="start_ns", int64_val=start)
        made.attr.add(name="duration_ns", int64_val=ends[row] - start)
        if kinds[row] == COMPUTE:
            made.attr.add(name="num_ops", int64_val=round(flops[row]))
            made.attr.add(name="tensor_size", uint64_val=sizes[row])
        else:
            made.attr.add(
                name="comm_size" if "comm" in _KINDS[made.type] else "tensor_size", int64_val=sizes[row]
            )
        yield made


_KINDS = {
    COMP: "compute",
    MEM_LOAD: "memory",
    MEM_STORE: "memory",
    COMM_SEND: "comm",
    COMM_RECV: "comm",
    COMM_COLL: "comm",
}


def _describe(made: Any, kind: str, stream: str, operator: str, groups: _Groups, rank: int) -> None:
    """The type of a node, and the attributes that go with it."""
    on_host = stream == "host_work"
    if kind == COMPUTE or on_host:
        made.type = COMP
    elif kind in ("send", "receive"):
        made.type = COMM_SEND if kind == "send" else COMM_RECV
        peer = groups.peer(rank, stream)
        source, target = (rank, peer) if kind == "send" else (peer, rank)
        made.attr.add(name="comm_src", int64_val=source)
        made.attr.add(name="comm_dst", int64_val=target)
    elif kind == "collective":
        made.type = COMM_COLL
        made.attr.add(name="pg_name", string_val=groups.name(rank, stream))
        operations = _OPERATION.findall(operator)
        if operations:
            made.attr.add(name="comm_type", int64_val=COLLECTIVES[operations[-1]])
    else:
        made.type = MEM_LOAD if any(words in stream for words in _TO_DEVICE) else MEM_STORE
    made.attr.add(name="is_cpu_op", bool_val=on_host)


def _delimited(message: Any) -> bytes:
    """A message behind its length in groups of seven bits, the lowest first."""
    content: bytes = message.SerializeToString(deterministic=True)
    length, size = bytearray(), len(content)
    while size > 127:
        length.append(size & 127 | 128)
        size >>= 7
    length.append(size)
    return bytes(length) + content
