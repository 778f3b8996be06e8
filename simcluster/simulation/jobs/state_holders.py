"""Which ranks hold the same slices, as MindSpore's ``restore_group_info_list`` tells it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from simcluster.layout import base_axis
from simcluster.program import Category, Program, StageProgram

STATE = (Category.PARAMETERS, Category.OPTIMIZER)
"""What has to be there for training to go on."""


def state_buffers(part: StageProgram) -> frozenset[str]:
    """The names of the buffers that hold weights and optimizer states in a part of a Program."""
    return frozenset(resident.name for resident in part.residents if resident.category in STATE)


def replica_groups(program: Program) -> NDArray[np.int64]:
    """The group of every rank, shape [ranks]: ranks of a group hold the same weights and optimizer states.

    Two ranks do if they run one part of the Program and have the same place along every axis that splits
    anything of its state. Groups are numbered in the order of their first ranks.
    """
    mesh = program.mesh
    keys = np.zeros((mesh.num_ranks, 1 + len(mesh.names)), dtype=np.int64)
    keys[:, 0] = program.part_of_rank
    for number, part in enumerate(program.parts):
        own = program.part_of_rank == number
        used = {
            base_axis(axis)
            for resident in part.residents
            if resident.category in STATE
            for axis in resident.layout.reduced.axes
        }
        for position, axis in enumerate(mesh.names):
            if axis in used:
                keys[own, 1 + position] = mesh.coordinates[own, position]
    _, first, groups = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(np.argsort(first))
    return np.asarray(order[groups.reshape(-1)], dtype=np.int64)
