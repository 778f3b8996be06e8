"""Sends, receives and exchanges with neighbours: a pipeline, a chain and halos written by hand."""

from __future__ import annotations

import numpy as np
import pytest

from simcluster.cluster import placements_of
from simcluster.collectives import Operation, collective_time
from simcluster.errors import PlanError
from simcluster.scenario import Scenario
from simcluster.simulation import build_scenario, simulate, verify
from tests.support.manual import BATCH, CLASSES, HIDDEN, IN, act, arrays, data_parallel, loss, up, written


def pipeline(micro: int = BATCH) -> dict:
    """The two layers of the perceptron on two ranks."""
    return {
        "feeds": {"x": {}, "labels": {}},
        "parameters": {"w1": {}, "w2": {}},
        "operators": [
            {**up("fc1", "x", "w1"), "ranks": 0},
            {**act("act", "fc1"), "ranks": 0},
            {"op": "send", "name": "up", "inputs": ["act"], "to": 1, "ranks": 0},
            {"op": "receive", "name": "down", "from": 0, "shape": [micro, HIDDEN], "ranks": 1},
            {**up("fc2", "down", "w2"), "ranks": 1},
            {**loss("loss", "fc2", 1 / BATCH), "ranks": 1},
        ],
        "loss": "loss",
    }


@pytest.mark.parametrize("schedule", ["1f1b", "gpipe"])
@pytest.mark.parametrize("micro_batches", [1, 4])
def test_a_pipeline_of_two(micro_batches, schedule):
    program = pipeline(BATCH // micro_batches)
    which = written({"stage": 2}, program, micro_batches=micro_batches, schedule=schedule)
    found = verify(which)
    assert found.agrees, found.first_difference or found.fault
    assert {each.name for each in found.comparisons if each.what == "gradient"} == {
        "layers.0.w1",
        "layers.0.w2",
    }


def test_what_a_transfer_carries():
    built = build_scenario(written({"stage": 2}, pipeline()))
    moved = [each for code in built.program.codes for each in code.instructions if each.group]
    assert {each.operation for each in moved} == {"send_receive"}
    assert {each.num_bytes for each in moved} == {BATCH * HIDDEN * 4}
    assert len(moved) == 4  # there and back, at both ends
    simulate(written({"stage": 2}, pipeline()))


def side_by_side(ways: int):
    """As many pipelines of two stages, ranks 0, 1, ... sending to the ranks behind them."""
    program = pipeline(BATCH // ways)
    program["feeds"] = {name: {"split": {0: "data"}} for name in ("x", "labels")}
    first, second = list(range(ways)), list(range(ways, 2 * ways))
    for each in program["operators"]:
        each["ranks"] = first if each["ranks"] == 0 else second
    program["operators"][2]["to"] = {rank: rank + ways for rank in first}
    program["operators"][3]["from"] = {rank: rank - ways for rank in second}
    total = {"op": "all_reduce", "name": "total", "inputs": ["loss"], "group": "data"}
    program["operators"].append({**total, "gradient": "identity", "ranks": second})
    program["loss"] = "total"
    program["gradients"] = [{"group": "data"}]
    return written({"stage": 2, "data": ways}, program)


def test_two_pipelines_side_by_side():
    """Two pairs of one name, and two programs in all."""
    which = side_by_side(2)
    found = verify(which)
    assert found.agrees, found.first_difference or found.fault
    built = build_scenario(which)
    assert len(built.program.parts) == 2
    assert len(built.classes) == 2
    assert simulate(which).documents["summary"]["num_ranks"] == 4


def test_buckets_are_not_searched_for_several_programs():
    """Members of a group would reduce other gradients together."""
    search = {"all_reduce": {"mode": "search"}}
    which = side_by_side(2).spec.model_dump(mode="json", exclude_unset=True)
    which["parallel"]["fusion"] = search
    with pytest.raises(PlanError, match="ranks run 2 programs"):
        build_scenario(Scenario.of(which))
    assert (
        build_scenario(written({"data": 2}, data_parallel(2), fusion=search)).plan.execution.buckets is None
    )


def test_pipelines_take_as_long_simulated_once_or_each():
    """Sixteen ranks, every one by itself, are timed beside each other."""
    folded, unfolded = (simulate(side_by_side(8), unfold=each).documents["summary"] for each in (False, True))
    assert folded["num_classes"] == 2
    assert unfolded["num_classes"] == 16
    assert folded["communication_bytes"] == unfolded["communication_bytes"]
    assert folded["step_time_s"] == unfolded["step_time_s"]
    assert folded["compute_s"] == pytest.approx(unfolded["compute_s"])


def test_a_chain_of_three():
    """What a rank gets it gives on; what it gives twice comes back twice."""
    program = {
        "feeds": {"x": {}, "labels": {}},
        "parameters": {"w1": {}, "w2": {}},
        "operators": [
            {**up("fc1", "x", "w1"), "ranks": 0},
            {"op": "send", "name": "a", "inputs": ["fc1"], "to": 1, "ranks": 0},
            {"op": "send", "name": "b", "inputs": ["fc1"], "to": 2, "ranks": 0},
            {"op": "receive", "name": "c", "from": 0, "shape": [BATCH, HIDDEN], "ranks": 1},
            {**act("act", "c"), "ranks": 1},
            {"op": "send", "name": "d", "inputs": ["act"], "to": 2, "ranks": 1},
            {"op": "receive", "name": "e", "from": 0, "shape": [BATCH, HIDDEN], "ranks": 2},
            {"op": "receive", "name": "f", "from": 1, "shape": [BATCH, HIDDEN], "ranks": 2},
            {"op": "add", "name": "sum", "inputs": ["e", "f"], "labels": ["batch", "out"], "ranks": 2},
            {**up("fc2", "sum", "w2"), "ranks": 2},
            {**loss("loss", "fc2", 1 / BATCH), "ranks": 2},
        ],
        "loss": "loss",
    }
    graph = {
        "feeds": {"x": {"shape": ["batch", IN]}, "labels": {"shape": ["batch"], "below": CLASSES}},
        "parameters": {"w1": {"shape": [IN, HIDDEN]}, "w2": {"shape": [HIDDEN, CLASSES]}},
        "operators": [
            up("fc1", "x", "w1"),
            act("act", "fc1"),
            {"op": "add", "name": "sum", "inputs": ["fc1", "act"], "labels": ["batch", "out"]},
            up("fc2", "sum", "w2"),
            loss("loss", "fc2", "mean"),
        ],
        "loss": "loss",
    }
    found = verify(written({"rank": 3}, program, graph=graph))
    assert found.agrees, found.first_difference or found.fault


LOSS = {
    "feeds": {"x": {"shape": ["batch", IN]}, "labels": {"shape": ["batch"], "below": CLASSES}},
    "parameters": {"w": {"shape": [IN, CLASSES]}},
    "operators": [up("fc", "x", "w"), loss("loss", "fc", "mean")],
    "loss": "loss",
}


def beside(ranks: int, shape: list[int], split: dict, *entries: dict):
    """A program that does ``entries`` to the tensor t beside what trains something."""
    graph = {**LOSS, "feeds": {**LOSS["feeds"], "t": {"shape": shape}}}
    program = {
        "feeds": {"x": {}, "labels": {}, "t": {"split": split}},
        "parameters": {"w": {}},
        "operators": [*entries, up("fc", "x", "w"), loss("loss", "fc", 1 / 16)],
        "loss": "loss",
    }
    return written(ranks if isinstance(ranks, dict) else {"ranks": ranks}, program, graph=graph)


def made(which, tensor, value="out.out"):
    feeds = {"t": tensor, "x": np.zeros((16, IN)), "labels": np.zeros(16, dtype=np.int64)}
    return arrays(which, feeds)[value]


def test_neighbor_exchange():
    """Every rank gives its own to the next one: an arbitrary set of transfers."""
    ids = {
        "send_rank_ids": {0: [1], 1: [2], 2: [0]},
        "recv_rank_ids": {0: [2], 1: [0], 2: [1]},
        "recv_shapes": [[1, 2]],
    }
    which = beside(
        3, [3, 2], {0: "world"}, {"op": "neighbor_exchange", "name": "out", "inputs": ["t"], **ids}
    )
    found = made(which, np.arange(6.0).reshape(3, 2))
    assert [found[rank].tolist() for rank in range(3)] == [[[4, 5]], [[0, 1]], [[2, 3]]]


def alone(which, name: str) -> tuple[list[int], int]:
    """How long an exchange takes in a run, on each class, and what it costs alone (ns)."""
    built = build_scenario(which)
    found = next(each for code in built.program.codes for each in code.instructions if each.name == name)
    operation = Operation(found.operation)
    (where,) = placements_of(built.cluster, built.plan.mesh, found.group)[0]
    parts = found.parts and found.parts.of_number(0)
    cost = collective_time(operation, where, found.num_bytes, built.cluster, "auto", parts)
    spans = simulate(which).spans
    names = [spans.names["operator"][number] for number in spans["operator"]]
    mine = [place for place, full in enumerate(names) if full.endswith(f".{name}")]
    return (spans["end"] - spans["start"])[mine].tolist(), cost.duration_ns


def test_a_transfer_costs_what_it_costs_alone():
    took, cost = alone(written({"stage": 2}, pipeline()), "up")
    assert took == [cost]
    assert alone(written({"stage": 2}, pipeline()), "down")[0] == [cost]


def test_an_exchange_costs_what_its_parts_cost():
    """Rank 0 has three quarters of all for rank 1: that, and not the mean, is what its link carries."""
    counts = {0: [0, 3 << 20], 1: [1 << 20, 0]}
    numbers = {"send_numel_list": counts, "recv_numel_list": {0: [0, 1 << 20], 1: [3 << 20, 0]}}
    entry = {"op": "all_to_all_v", "name": "v", "inputs": ["out"], **numbers}
    cuts = {"op": "slice", "name": "out", "inputs": ["t"], "labels": ["n"], "shape": [3 << 20]}
    first = {**cuts, "cuts": [[0, 0, 1, 3 << 20]], "ranks": 0}
    second = {**cuts, "cuts": [[0, 0, 1, 1 << 20]], "ranks": 1}
    took, cost = alone(beside(2, [6 << 20], {0: "world"}, first, second, entry), "v.exchange")
    assert took == [cost, cost]
    even = {**counts, 0: [0, 2 << 20], 1: [2 << 20, 0]}
    numbers = {"send_numel_list": even, "recv_numel_list": even}
    entry = {**entry, **numbers}
    first = {**cuts, "cuts": [[0, 0, 1, 2 << 20]]}
    fair, _ = alone(beside(2, [6 << 20], {0: "world"}, first, entry), "v.exchange")
    assert min(took) > 1.3 * max(fair)


NOBODY = [-1] * 8


def test_neighbor_exchange_v2_of_two():
    """The case of MindSpore's documentation: rank 0 lies above rank 1, each with one row of the other's."""
    below, above = [*NOBODY], [*NOBODY]
    below[4], above[0] = 1, 0
    entry = {
        "op": "neighbor_exchange_v2",
        "name": "out",
        "inputs": ["t"],
        "send_rank_ids": {0: below, 1: above},
        "recv_rank_ids": {0: below, 1: above},
        "send_lens": {0: [0, 1, 0, 0], 1: [1, 0, 0, 0]},
        "recv_lens": {0: [0, 1, 0, 0], 1: [1, 0, 0, 0]},
    }
    which = beside(2, [1, 1, 4, 2], {2: "world"}, entry)
    found = made(which, np.array([[1, 1], [1, 1], [2, 2], [2, 2]], dtype=float).reshape(1, 1, 4, 2))
    assert found[0].tolist() == [[[[1, 1], [1, 1], [2, 2]]]]
    assert found[1].tolist() == [[[[1, 1], [2, 2], [2, 2]]]]


def around(rows: int, columns: int) -> dict[int, list[int]]:
    """The eight neighbours of every rank of a grid, clockwise from the one above."""
    steps = [(-1, 0), (-1, 1), (0, 1), (1, 1), (1, 0), (1, -1), (0, -1), (-1, -1)]
    found = {}
    for rank in range(rows * columns):
        row, column = divmod(rank, columns)
        places = [(row + down, column + right) for down, right in steps]
        found[rank] = [r * columns + c if 0 <= r < rows and 0 <= c < columns else -1 for r, c in places]
    return found


def halo(rows: int, columns: int, reach: int) -> dict:
    ids = around(rows, columns)
    lens = {rank: [reach * (each[way] >= 0) for way in (0, 4, 6, 2)] for rank, each in ids.items()}
    return {
        "op": "neighbor_exchange_v2",
        "send_rank_ids": ids,
        "recv_rank_ids": ids,
        "send_lens": lens,
        "recv_lens": lens,
    }


@pytest.mark.parametrize(("rows", "columns"), [(2, 2), (3, 3), (4, 1), (1, 3)])
def test_every_part_has_its_halo(rows, columns):
    reach, height, width = 2, 3 * rows, 4 * columns
    entry = {**halo(rows, columns, reach), "name": "out", "inputs": ["t"]}
    which = beside({"h": rows, "w": columns}, [1, 2, height, width], {2: "h", 3: "w"}, entry)
    picture = np.arange(2.0 * height * width).reshape(1, 2, height, width)
    found = made(which, picture)
    for rank in range(rows * columns):
        row, column = divmod(rank, columns)
        top, left = max(3 * row - reach, 0), max(4 * column - reach, 0)
        wanted = picture[:, :, top : 3 * (row + 1) + reach, left : 4 * (column + 1) + reach]
        assert np.array_equal(found[rank], wanted)


def test_all_to_all_v():
    entry = {
        "op": "all_to_all_v",
        "name": "out",
        "inputs": ["t"],
        "send_numel_list": {0: [1, 2], 1: [3, 0]},
        "recv_numel_list": {0: [1, 3], 1: [2, 0]},
    }
    which = beside(2, [6], {0: "world"}, entry)
    found = made(which, np.arange(6.0))
    assert found[0].tolist() == [0, 3, 4, 5]
    assert found[1].tolist() == [1, 2]
