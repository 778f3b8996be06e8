"""What the host does in a step: operators and graphs that it dispatches, collectives that it calls."""

from __future__ import annotations

import numpy as np

from simcluster.cluster import DispatchTime
from simcluster.program.communication import CollectiveCalls, HostCalls
from simcluster.program.lowering import runs_kernels
from simcluster.program.placed.placed_program import PlacedProgram


def dispatch_counts(placed: PlacedProgram, dispatch: DispatchTime) -> dict[str, float]:
    """Where some subgraphs run as one graph: operators ``alone`` and ``in_graphs``, ``launches`` of graphs,
    ``busy_s``: per step, means over ranks.

    The last is the time which the host spends on operators and launches, calls of collectives aside; what
    kernels wait for it is part of ``host_s``, with what launching kernels costs the device.
    """
    by_code = []
    for code in placed.program.codes:
        launched = [instruction for instruction in code.instructions if runs_kernels(instruction)]
        inside = [instruction for instruction in launched if instruction.piece]
        spent = sum(instruction.dispatch_cost for instruction in launched)
        launches = sum(instruction.dispatch_cost > 0 for instruction in inside)
        by_code.append((len(launched) - len(inside), len(inside), launches, spent))
    table = np.array(by_code, dtype=np.float64)
    by_part = [
        sum(table[code] * times for code, times in part.columns.times().items())
        for part in placed.program.parts
    ]
    total = np.zeros(table.shape[1])
    for part, device, size in zip(placed.parts, placed.devices, placed.classes.sizes, strict=True):
        counts = np.array(by_part[part])
        counts[-1] *= dispatch.of(device)
        total += size * counts
    names = ("alone", "in_graphs", "launches", "busy_s")
    return dict(zip(names, (total / placed.num_ranks).tolist(), strict=True))


def call_counts(placed: PlacedProgram, host: HostCalls) -> dict[str, float]:
    """Collectives that a rank takes part in per step, and the host's calls for them: means over ranks."""
    sizes = np.array(placed.classes.sizes, dtype=np.float64)
    calls = CollectiveCalls.of(placed.program, host)
    counts = np.array([calls.number(part) for part in placed.parts], dtype=np.float64)
    mean = (counts * sizes[:, None]).sum(axis=0) / sizes.sum()
    return {"collectives": float(mean[0]), "collective_calls": float(mean[1])}
