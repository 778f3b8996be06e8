"""Which send belongs to which receive."""

from __future__ import annotations

import re

import numpy as np

from simcluster.number_arrays import Ints
from simcluster.report.content import distinct_rows
from simcluster.trace import Table

SEND, RECEIVE = "send", "receive"
FORWARD = (("send_next", "recv_prev"), ("send_next (gradients)", "recv_prev (gradients)"))
BACKWARD = (("send_prev", "recv_next"), ("send_prev (activations)", "recv_next (activations)"))
"""The streams of what goes to the next stage and to the one before: activations and gradients, or the other
way round where a pipeline is folded."""

_COPY = re.compile(r" \(chunk \d+\)(?=\.|$)")
"""What tells the copies of a tensor on one stage apart."""


def ends(spans: Table) -> Table:
    """The spans of a class that are sends and receives between stages, by start."""
    kinds = [spans.index("kind", kind) for kind in (SEND, RECEIVE)]
    return spans.where(np.isin(spans["kind"], kinds))


def match_transfers(senders: Table, receivers: Table, streams: tuple[str, str]) -> tuple[Ints, Ints]:
    """Rows of the ends of two neighbouring classes: the sends over a stream, and the receive of each.

    A transfer is known by its tensor, micro-batch and step; the first sent is the first received.
    """
    nothing = np.zeros(0, dtype=np.int64)
    if senders.index("stream", streams[0]) < 0 or receivers.index("stream", streams[1]) < 0:
        return nothing, nothing
    tensors: dict[str, int] = {}
    sends, sent = _keys(senders, streams[0], SEND, tensors)
    receives, received = _keys(receivers, streams[1], RECEIVE, tensors)
    _, keys = distinct_rows(*np.concatenate([sent, received], axis=1))
    first, second = _numbered(keys[: len(sends)], len(keys)), _numbered(keys[len(sends) :], len(keys))
    _, ours, theirs = np.intersect1d(first, second, assume_unique=True, return_indices=True)
    return sends[ours], receives[theirs]


def _keys(ends: Table, stream: str, kind: str, tensors: dict[str, int]) -> tuple[Ints, Ints]:
    """The rows of a stream, and for each what its transfer is known by: [tensor; micro-batch; step]."""
    rows = np.flatnonzero(
        (ends["stream"] == ends.index("stream", stream)) & (ends["kind"] == ends.index("kind", kind))
    )
    operators = ends["operator"][rows]
    examples, which = distinct_rows(operators)
    names = [_tensor(ends.names["operator"][number], kind) for number in operators[examples].tolist()]
    numbers = np.array([tensors.setdefault(name, len(tensors)) for name in names], dtype=np.int64)
    return rows, np.stack([numbers[which], ends["micro_batch"][rows] + 1, ends["step"][rows]])


def _tensor(operator: str, kind: str) -> str:
    tensor, _, what = operator.rpartition(f".{kind} ")
    return f"{_COPY.sub('', tensor)}.{what}"


def _numbered(keys: Ints, apart: int) -> Ints:
    """Numbers that tell equal keys apart by how many came before; ``apart`` exceeds every key."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    earlier = np.empty_like(keys)
    earlier[order] = np.arange(len(keys)) - np.searchsorted(ordered, ordered)
    return earlier * apart + keys
