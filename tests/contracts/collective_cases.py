"""Sites on which every algorithm is tried, and what every operation must give."""

from __future__ import annotations

import numpy as np

from simcluster.collectives import GroupSite, Operation, all_algorithms

UNITS = [(n,) for n in range(2, 10)] + [
    (mates,) * hosts for hosts in range(2, 10) for mates in (1, 2, 3, 4) if hosts * mates <= 20
]
UNEVEN = [(3, 2), (2, 1, 3), (4, 1), (5, 3), (2, 2, 1), (1, 2, 2, 4)]
CUBE_MESH = np.array(  # NVLinks between the GPUs of a DGX-1V
    [
        [0, 1, 1, 2, 2, 0, 0, 0],
        [1, 0, 2, 1, 0, 2, 0, 0],
        [1, 2, 0, 2, 0, 0, 1, 0],
        [2, 1, 2, 0, 0, 0, 0, 1],
        [2, 0, 0, 0, 0, 1, 1, 2],
        [0, 2, 0, 0, 1, 0, 2, 1],
        [0, 0, 1, 0, 1, 2, 0, 2],
        [0, 0, 0, 1, 2, 1, 2, 0],
    ]
)
PAIRS = [
    (kind, operation) for kind, each in all_algorithms().items() for operation in sorted(each.operations)
]


def sites() -> list[GroupSite]:
    """Switched hosts, meshes, both with all numbers of rails, and members in any order."""
    rng = np.random.default_rng(1)
    found = []
    for units in UNITS + UNEVEN:
        for rails in sorted({1, max(1, min(units) // 2), min(units)}):
            found.append(GroupSite.of_units(units, rails, switched=True, aggregated=True))
            mesh = np.zeros(sum(units), dtype=np.int64)
            found.append(GroupSite.of_units(units, rails, mesh=mesh))
        plain = GroupSite.of_units(units)
        order = np.concatenate([[0], 1 + rng.permutation(sum(units) - 1)])
        found.append(
            GroupSite(
                order, plain.units, plain.rail_of, plain.rails, plain.host_of, plain.pod_of, switched=True
            )
        )
    islands = np.array([0, 0, 0, 0, 1, 1, 1, 1])
    found += [
        GroupSite.of_units((8,), widths=CUBE_MESH),
        GroupSite.of_units((8, 8), 4, widths=CUBE_MESH),
        GroupSite.of_units((4,), widths=CUBE_MESH[:4, :4]),
        GroupSite.of_units((8,), mesh=islands),
        GroupSite.of_units((8, 4), 4, mesh=np.concatenate([islands, islands[:4]])),
    ]
    return found


def expected(operation: Operation, arrays, reduction, counts=None):
    """The operation's definition, rank by rank; None where a rank ends with nothing of its own."""
    n = len(arrays)
    match operation:
        case Operation.ALL_REDUCE | Operation.BARRIER:
            return [reduction.reduce(np.stack(arrays))] * n
        case Operation.REDUCE:
            return [reduction.reduce(np.stack(arrays)), *[None] * (n - 1)]
        case Operation.ALL_GATHER:
            return [np.concatenate(arrays)] * n
        case Operation.GATHER:
            return [np.concatenate(arrays), *[None] * (n - 1)]
        case Operation.REDUCE_SCATTER:
            return np.split(reduction.reduce(np.stack(arrays)), n)
        case Operation.SCATTER:
            return np.split(arrays[0], n)
        case Operation.ALL_TO_ALL | Operation.ALL_TO_ALL_V:
            cuts = [np.arange(1, n) * (len(a) // n) for a in arrays]
            if counts is not None:
                cuts = [np.cumsum(row)[:-1] for row in counts]
            blocks = [np.split(array, cut) for array, cut in zip(arrays, cuts, strict=True)]
            return [np.concatenate([blocks[src][dst] for src in range(n)]) for dst in range(n)]
        case Operation.BROADCAST | Operation.SEND_RECEIVE:
            return [arrays[0]] * n
        case Operation.SHIFT:
            return [np.full_like(arrays[0], _neutral(reduction, arrays[0].dtype)), *arrays[:-1]]
        case Operation.ROTATE:
            return [arrays[-1], *arrays[:-1]]
        case Operation.NEIGHBOR_EXCHANGE:
            nothing = np.full(arrays[0].size, _neutral(reduction, arrays[0].dtype))
            halves = [np.split(array.ravel(), 2) for array in [nothing, *arrays, nothing]]
            received = [[halves[i][1], halves[i + 2][0]] for i in range(n)]
            return [np.concatenate(each).reshape(arrays[0].shape) for each in received]


def _neutral(reduction, kind) -> int:
    return 0 if reduction is np.add else np.iinfo(kind).min
