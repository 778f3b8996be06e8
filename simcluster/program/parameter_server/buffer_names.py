"""What buffers of servers are called."""

from __future__ import annotations

from simcluster.plan import ServedParameter, ServerShard
from simcluster.program.isa import OWN


def weights_buffer(parameter: ServedParameter, shard: ServerShard) -> str:
    """The weights that workers pull."""
    return _name(parameter, shard)


def gradient_buffer(parameter: ServedParameter, shard: ServerShard, worker: int | None) -> str:
    """The gradients that were pushed: of all workers, of one, or (``OWN``) of the one that pushes."""
    whose = "" if worker is None else " of {}" if worker == OWN else f" of {worker}"
    return f"{_name(parameter, shard)}.grad{whose}"


def ids_buffer(parameter: ServedParameter, shard: ServerShard, worker: int | None) -> str:
    """The ids of the rows of gradients that were pushed."""
    return f"{gradient_buffer(parameter, shard, worker)}.ids"


def state_buffer(parameter: ServedParameter, shard: ServerShard, state: str) -> str:
    """A state of the optimizer, or the master copy."""
    return f"{_name(parameter, shard)}.{state}"


def _name(parameter: ServedParameter, shard: ServerShard) -> str:
    if not parameter.is_table:
        return parameter.name
    return f"{parameter.name}[{shard.first}:{shard.first + shard.rows}]"
