"""Kernels of a class joined into slices: per layer, and per action of the schedule.

Kernels run in program order, so neighbours that belong together are one slice, and slices nest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simcluster.deferred_dataclass import dataclass
from simcluster.number_arrays import Ints
from simcluster.trace import COMPUTE, Run, Table


@dataclass(frozen=True)
class Slices:
    """Columns [slices]: start and end in nanoseconds, and a row of the spans that belongs to each."""

    starts: Ints
    ends: Ints
    rows: Ints

    def __len__(self) -> int:
        return len(self.rows)


def kernel_slices(spans: Table, index: int) -> Table:
    """The kernels of a class in the order in which they ran."""
    return spans.where((spans["class"] == index) & (spans["stream"] == spans.index("stream", COMPUTE)))


def action_slices(kernels: Table) -> Slices:
    """One slice per action of the schedule, from its first kernel to its last."""
    return _joined(kernels, _action_key(kernels))


def instance_slices(kernels: Table, owners: Ints) -> Slices:
    """One slice per instance (a layer, say) in an action; ``owners`` [operators] has its number or -1."""
    owner = owners[kernels["operator"]]
    count = int(owners.max(initial=0)) + 2
    slices = _joined(kernels, _action_key(kernels) * count + owner + 1)
    known = owner[slices.rows] >= 0
    return Slices(slices.starts[known], slices.ends[known], slices.rows[known])


def instance_owners(run: Run) -> tuple[Sequence[str], Ints]:
    """The instances by name, and for each operator in the spans the number of its instance or -1."""
    names = [name for block in run.documents["layouts"] for name in block["names"]]
    number = {name: index for index, name in enumerate(names)}
    owners = [_owner(operator, number) for operator in run.recording.operators]
    return names, np.array(owners, dtype=np.int64)


def _owner(operator: str, number: Mapping[str, int]) -> int:
    """The instance whose name, followed by a dot, the operator's name starts with."""
    at = operator.rfind(".")
    while at > 0:
        if operator[:at] in number:
            return number[operator[:at]]
        at = operator.rfind(".", 0, at)
    return -1


def _action_key(kernels: Table) -> Ints:
    count = len(kernels.names["action"])
    return kernels["step"].astype(np.int64) * count + kernels["action"]


def _joined(kernels: Table, key: NDArray[Any]) -> Slices:
    if not len(key):
        nothing = np.zeros(0, dtype=np.int64)
        return Slices(nothing, nothing, nothing)
    first = np.flatnonzero(np.append(True, key[1:] != key[:-1]))
    last = np.append(first[1:], len(key)) - 1
    return Slices(kernels["start"][first], kernels["end"][last], first)
