"""The checkpoint of a Program: its tensors, and which part of each every rank holds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from simcluster.errors import PlanError
from simcluster.job import CheckpointContent, SavedTensor
from simcluster.layout import Layout
from simcluster.model import MemoryPlace, TensorType
from simcluster.number_arrays import Ints
from simcluster.program import Category, PersistentBuffer, Program, StageProgram

PARAMETERS = "parameters"


def content_of(
    program: Program, vocabulary: int = 0, *, weights_only: bool = False, servers: bool = False
) -> CheckpointContent:
    """What a checkpoint of a Program's training holds.

    ``vocabulary``: its size as the plan pads it. ``weights_only``: the weights as the forward pass reads
    them, with no master copies and no optimizer states. ``servers``: also with parameter servers, each of
    which saves its own keys; PlanError for these without it.
    """
    if program.mesh.off_axes and not servers:
        raise PlanError(
            "what parameter servers hold (keys by modulo, rows of tables) has no layout over the mesh: only "
            "the servers of the same plan can load it, and it cannot be cut for another plan",
            path="parallel.parameter_server",
            hint="leave parameter_server out; what checkpoints cost is simulated with job.checkpoints",
        )
    kept = _of_servers(program)
    held: dict[tuple[str, Layout], list[int]] = {}
    buffers: dict[tuple[str, Layout], PersistentBuffer] = {}
    for number, part in enumerate(program.parts):
        for name, buffer in _saved(part, kept).items():
            if weights_only and buffer.category is not Category.PARAMETERS:
                continue
            key = name, buffer.layout.reduced
            held.setdefault(key, []).append(number)
            buffers.setdefault(key, buffer)
    ranks: dict[tuple[int, ...], Ints] = {}
    for numbers in held.values():
        parts = tuple(numbers)
        if parts not in ranks:
            ranks[parts] = np.flatnonzero(np.isin(program.part_of_rank, parts)).astype(np.int64)
    tensors = tuple(
        SavedTensor(
            name,
            buffer.whole.shape,
            buffer.whole.dtype,
            layout,
            ranks[tuple(held[name, layout])],
            buffer.place is not MemoryPlace.DEVICE,
        )
        for (name, layout), buffer in buffers.items()
    )
    return CheckpointContent(program.mesh, tensors, program.stage_axis, vocabulary)


def _of_servers(program: Program) -> frozenset[str]:
    """The tensors that servers have, or rows of them."""
    beside = np.unique(program.part_of_rank[program.mesh.num_on_axes :]).tolist()
    return frozenset(name for number in beside for name in program.parts[number].saved)


def _saved(part: StageProgram, kept: frozenset[str]) -> dict[str, PersistentBuffer]:
    """What ranks of a part save, by name; rows of a table are a tensor of their own.

    What workers have of tensors that servers have (``kept``) is a copy, but for the rows in their caches.
    """
    made = {}
    states = {name for name, buffer in part.saved.items() if buffer.category is Category.OPTIMIZER}
    cached = {name for name in part.saved if any(state.startswith(f"{name}.") for state in states)}
    for name, buffer in part.saved.items():
        on_server = buffer.place is MemoryPlace.HOST and name in kept
        if buffer.rows_of is not None:
            first, rows = buffer.rows_of[0], buffer.whole.shape[0]
            made[f"{name}[{first}:{first + rows}]"] = buffer
        elif name not in kept or on_server:
            made[name] = buffer
        elif name in cached or name in states:
            rows = buffer.num_bytes * buffer.whole.shape[0] // buffer.whole.num_bytes
            whole = TensorType((rows, *buffer.whole.shape[1:]), buffer.whole.dtype)
            made[f"{name}[cached]"] = replace(buffer, whole=whole)
    return made
