"""Which send belongs to which receive."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping

import numpy as np
from numpy.typing import NDArray

from simcluster.trace import Run, Table

SEND, RECEIVE = "send", "receive"
FORWARD = {SEND: "send_next", RECEIVE: "recv_prev"}
"""The streams of what goes to the next stage; gradients go the other way."""


def arrows(run: Run) -> list[tuple[int, int]]:
    """Rows of the spans: (send, receive) for every transfer between stages, by time of sending.

    A transfer is known by its classes, direction, tensor, micro-batch and step; the first sent is the first
    received.
    """
    following = {each["class"]: each["next_class"] for each in run.documents["classes"]}
    preceding = {after: before for before, after in following.items() if after is not None}
    spans = run.spans
    waiting: defaultdict[Hashable, list[int]] = defaultdict(list)
    for row in _rows(spans, RECEIVE):
        waiting[_key(spans, row, RECEIVE)].append(int(row))
    found = []
    for row in _rows(spans, SEND):
        sender, forward, *what = _key(spans, row, SEND)
        receiver = _peer(following if forward else preceding, sender)
        rows = waiting[receiver, forward, *what]
        if rows:
            found.append((int(row), rows.pop(0)))
    return found


def _rows(spans: Table, kind: str) -> NDArray[np.int64]:
    """The rows of a kind by start."""
    rows = np.flatnonzero(spans["kind"] == spans.index("kind", kind))
    return rows[np.argsort(spans["start"][rows], kind="stable")]


def _key(spans: Table, row: int, kind: str) -> tuple[int, bool, str, int, int]:
    """Class, whether it goes forward, the tensor, micro-batch and step of a transfer."""
    tensor, _, what = spans.names["operator"][spans["operator"][row]].rpartition(f".{kind} ")
    forward = spans.names["stream"][spans["stream"][row]] == FORWARD[kind]
    return (
        int(spans["class"][row]),
        forward,
        f"{tensor}.{what}",
        int(spans["micro_batch"][row]),
        int(spans["step"][row]),
    )


def _peer(peers: Mapping[int, int | None], index: int) -> int:
    peer = peers.get(index)
    return -1 if peer is None else peer
