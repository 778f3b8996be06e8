"""The streams of workers and servers."""

from __future__ import annotations

from simcluster.program.isa import HOST, StreamId

PUSH, PULL, GATE = "push", "pull", "gate"
"""What waits for what goes to servers, for what comes from them, and at their gates is charged to."""


def push_stream(server: int) -> StreamId:
    """Pushes to a server, one after another."""
    return StreamId(f"push to server {server}", (PUSH,))


def pull_stream(server: int) -> StreamId:
    """Pulls from a server, one after another."""
    return StreamId(f"pull from server {server}", (PULL,))


def gate_stream(what: str) -> StreamId:
    """Waiting at the gates of one other."""
    return StreamId(f"gates of {what}", (GATE,))


def update_stream(worker: int) -> StreamId:
    """Updates of a server with the gradients of one worker."""
    return StreamId(f"updates for worker {worker}", (HOST,))
