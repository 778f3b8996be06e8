"""The primitives' golden cases (MindSpore's communicate_ops), in values, in time and in gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from simcluster.cluster import placements_of
from simcluster.collectives import Operation, collective_time
from simcluster.program.communication.collective_overrides import CollectiveRequests
from simcluster.simulation import build_scenario, simulate
from tests.support.manual import CLASSES, IN, arrays, loss, up, written

LOSS: dict[str, Any] = {
    "feeds": {"x": {"shape": ["batch", IN]}, "labels": {"shape": ["batch"], "below": CLASSES}},
    "parameters": {"w": {"shape": [IN, CLASSES]}},
    "operators": [up("fc", "x", "w"), loss("loss", "fc", "mean")],
    "loss": "loss",
}


def golden(ranks: int, shape: list[int], split: int, *entries: dict[str, Any]):
    """A program that does ``entries`` to the tensor t beside what trains something."""
    graph = {**LOSS, "feeds": {**LOSS["feeds"], "t": {"shape": shape}}}
    program = {
        "feeds": {"x": {}, "labels": {}, "t": {"split": {split: "world"}}},
        "parameters": {"w": {}},
        "operators": [*entries, up("fc", "x", "w"), loss("loss", "fc", 1 / 16)],
        "loss": "loss",
    }
    return written({"ranks": ranks}, program, graph=graph)


def made(which, tensor: np.ndarray, value: str = "out.out") -> list[np.ndarray]:
    """What every rank has in the end, by rank."""
    feeds = {"t": tensor, "x": np.zeros((16, IN)), "labels": np.zeros(16, dtype=np.int64)}
    found = arrays(which, feeds)[value]
    return [found[rank] for rank in sorted(found)]


def test_all_reduce():
    """Four ranks that hold their rank id have 6 everywhere."""
    which = golden(4, [4, 1], 0, {"op": "all_reduce", "name": "out", "inputs": ["t"]})
    assert [each.tolist() for each in made(which, np.arange(4.0).reshape(4, 1))] == [[[6.0]]] * 4


@pytest.mark.parametrize(("reduction", "wanted"), [("sum", 10), ("max", 4), ("min", 1), ("prod", 24)])
def test_all_reduce_reduces_as_it_is_told(reduction, wanted):
    entry = {"op": "all_reduce", "name": "out", "inputs": ["t"], "reduction": reduction}
    which = golden(4, [4, 1], 0, entry)
    assert [float(each[0, 0]) for each in made(which, np.arange(1.0, 5.0).reshape(4, 1))] == [wanted] * 4


def test_all_gather():
    which = golden(4, [4, 1], 0, {"op": "all_gather", "name": "out", "inputs": ["t"]})
    assert [each.tolist() for each in made(which, np.arange(4.0).reshape(4, 1))] == [[[0], [1], [2], [3]]] * 4


def test_reduce_scatter():
    """Every rank has [[0], [1], [2], [3]]: the sum is [0, 4, 8, 12], and rank r has row r."""
    which = golden(4, [16, 1], 0, {"op": "reduce_scatter", "name": "out", "inputs": ["t"]})
    found = made(which, np.tile(np.arange(4.0).reshape(4, 1), (4, 1)))
    assert [each.tolist() for each in found] == [[[0]], [[4]], [[8]], [[12]]]


@pytest.mark.parametrize("root", [0, 2])
def test_broadcast(root):
    which = golden(4, [4, 2], 0, {"op": "broadcast", "name": "out", "inputs": ["t"], "root_rank": root})
    found = made(which, np.arange(8.0).reshape(4, 2))
    assert [each.tolist() for each in found] == [[[2 * root, 2 * root + 1]]] * 4


@pytest.mark.parametrize("root", [0, 3])
def test_reduce(root):
    """The others hold zeros, so that whoever reads them computes nothing by chance."""
    which = golden(4, [4, 1], 0, {"op": "reduce", "name": "out", "inputs": ["t"], "root_rank": root})
    found = made(which, np.arange(4.0).reshape(4, 1))
    assert [float(each[0, 0]) for each in found] == [6.0 * (rank == root) for rank in range(4)]


def test_all_to_all():
    """Eight ranks with ones([1, 1, 8, 1]) x r, split along -2 and joined along -1, all have [[[[0..7]]]]."""
    entry = {"op": "all_to_all", "name": "out", "inputs": ["t"], "split_count": 8}
    which = golden(8, [1, 1, 64, 1], 2, {**entry, "split_dim": -2, "concat_dim": -1})
    tensor = np.repeat(np.arange(8.0), 8).reshape(1, 1, 64, 1)
    assert [each.tolist() for each in made(which, tensor)] == [[[[list(range(8))]]]] * 8


def test_explicit_groups():
    """``create_group``: the order of the ranks in the list is the order in which they are joined."""
    graph = {**LOSS, "feeds": {**LOSS["feeds"], "t": {"shape": [4, 1]}}}
    program = {
        "groups": {"pair": [[2, 0], [1, 3]]},
        "feeds": {"x": {}, "labels": {}, "t": {"split": {0: "world"}}},
        "parameters": {"w": {}},
        "operators": [
            {"op": "all_gather", "name": "out", "inputs": ["t"], "group": "pair"},
            up("fc", "x", "w"),
            loss("loss", "fc", 1 / 16),
        ],
        "loss": "loss",
    }
    found = made(written({"ranks": 4}, program, graph=graph), np.arange(4.0).reshape(4, 1))
    assert [each.ravel().tolist() for each in found] == [[2, 0], [1, 3], [2, 0], [1, 3]]


@pytest.mark.parametrize(
    ("entry", "operation"),
    [
        ({"op": "all_reduce"}, Operation.ALL_REDUCE),
        ({"op": "all_gather"}, Operation.ALL_GATHER),
        ({"op": "reduce_scatter"}, Operation.REDUCE_SCATTER),
        ({"op": "all_to_all", "split_dim": 0, "concat_dim": 1}, Operation.ALL_TO_ALL),
        ({"op": "broadcast"}, Operation.BROADCAST),
        ({"op": "reduce"}, Operation.REDUCE),
    ],
    ids=lambda value: str(value),
)
def test_a_collective_alone_costs_what_it_costs_alone(entry, operation):
    which = golden(8, [512, 256], 0, {"name": "out", "inputs": ["t"], **entry})
    built = build_scenario(which)
    (found,) = (each for code in built.program.codes for each in code.instructions if each.name == "out")
    assert found.operation == operation
    local = 512 * 256 // 8 * 4
    assert found.num_bytes == (8 * local if operation is Operation.ALL_GATHER else local)
    spans = simulate(which).spans
    here = spans.where(spans["operator"] == spans.index("operator", "program.out"))
    (where,) = placements_of(built.cluster, built.plan.mesh, ("ranks",))[0]
    wanted = CollectiveRequests(built.program, built.plan.execution.algorithms).of(found)
    alone = collective_time(operation, where, found.num_bytes, built.cluster, wanted)
    assert (here["end"] - here["start"]).tolist() == [alone.duration_ns]
