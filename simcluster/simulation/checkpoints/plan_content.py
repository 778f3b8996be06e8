"""The checkpoint of a Program: its tensors, and which part of each every rank holds."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from simcluster.errors import PlanError
from simcluster.job import CheckpointContent, SavedTensor
from simcluster.layout import Layout
from simcluster.model import MemoryPlace
from simcluster.program import Category, PersistentBuffer, Program

Ints = NDArray[np.int64]

PARAMETERS = "parameters"


def content_of(program: Program, vocabulary: int = 0, *, weights_only: bool = False) -> CheckpointContent:
    """What a checkpoint of a Program's training holds.

    ``vocabulary``: its size as the plan pads it. ``weights_only``: the weights as the forward pass reads
    them, with no master copies and no optimizer states.
    """
    if program.mesh.off_axes:
        raise PlanError(
            "files of parameter servers, which hold rows of tables, are not supported yet",
            path="parallel.parameter_server",
            hint="say what they cost: recovery: {checkpoint: {every: 30 min, save: 20 s, load: 60 s}}",
        )
    held: dict[tuple[str, Layout], list[int]] = {}
    buffers: dict[tuple[str, Layout], PersistentBuffer] = {}
    for number, part in enumerate(program.parts):
        for name, buffer in part.saved.items():
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
