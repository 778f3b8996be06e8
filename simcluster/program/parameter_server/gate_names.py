"""The gates between workers and servers, as MindSpore's servers count (r1.0, ``ps/parameter_server.h``).

A push of a key is allowed when every worker has pulled it behind the update before; an update when all keys
of a server have been pushed by all workers; a pull when that update is over. So a step is a barrier. Where a
server updates for each worker by itself, the gates are those of that worker.
"""

from __future__ import annotations

from simcluster.program.isa import StepGate


def pushed(key: str, server: int, worker: int | None = None) -> StepGate:
    """Counts the pushes of a key to a server: of all workers, or of one."""
    return StepGate(f"{key} pushed to server {server}", worker)


def pulled(key: str, server: int) -> StepGate:
    """Counts the pulls of a key from a server."""
    return StepGate(f"{key} pulled from server {server}")


def updated(server: int, worker: int | None = None) -> StepGate:
    """Counts the updates of a server: with all gradients, or with those of one worker."""
    return StepGate(f"updates of server {server}", worker)


STEP_OVER = StepGate("steps that are over")
"""Counts workers that have pulled everything."""
