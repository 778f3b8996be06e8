"""The gradients that are registered for collectives: programs against one device that computes the same."""

from __future__ import annotations

import pytest

from simcluster.errors import PlanError
from simcluster.simulation import build_scenario, verify
from tests.support.manual import BATCH, CLASSES, HIDDEN, IN, act, loss, times, up, written

FEEDS = {"x": {"shape": ["batch", IN]}, "labels": {"shape": ["batch"], "below": CLASSES}}
SHAPES = {"w0": [IN, HIDDEN], "w1": [HIDDEN, 2 * HIDDEN], "w2": [2 * HIDDEN, CLASSES]}
DEEP = {
    "feeds": FEEDS,
    "parameters": {name: {"shape": shape} for name, shape in SHAPES.items()},
    "operators": [
        up("fc0", "x", "w0"),
        act("act0", "fc0"),
        up("fc1", "act0", "w1"),
        act("act1", "fc1"),
        up("fc2", "act1", "w2"),
        loss("loss", "fc2", "mean"),
    ],
    "loss": "loss",
}
SPLIT = {"w0": {}, "w1": {"split": {1: "tensor"}}, "w2": {"split": {0: "tensor"}}}
TP = 2


def over(op: str, name: str, x: str, **told) -> dict:
    return {"op": op, "name": name, "inputs": [x], "group": "tensor", **told}


def megatron(*, mirror: bool = True, gradient: str = "identity") -> dict:
    """Column and row parallel layers: all ranks compute the loss, which counts once."""
    return {
        "feeds": {"x": {}, "labels": {}},
        "parameters": SPLIT,
        "operators": [
            up("fc0", "x", "w0"),
            act("act0", "fc0"),
            *([over("mirror", "f", "act0")] if mirror else []),
            up("fc1", "f" if mirror else "act0", "w1"),
            act("act1", "fc1"),
            up("fc2", "act1", "w2"),
            over("all_reduce", "g", "fc2", gradient=gradient),
            loss("loss", "g", 1 / BATCH),
        ],
        "loss": "loss",
    }


def agrees(program, mesh=None, graph=DEEP) -> bool:
    found = verify(written(mesh or {"tensor": TP}, program, graph=graph))
    assert not found.fault, found.fault
    return found.agrees


def test_megatron_by_hand():
    assert agrees(megatron())


def test_what_megatron_needs():
    """Without f the gradient of what comes before is a part of it; with the registered gradient of g, where
    every rank's loss counts, all gradients before it are counted once for every rank.
    """
    assert not agrees(megatron(mirror=False))
    assert not agrees(megatron(gradient="registered"))


def test_every_ranks_loss_counts_under_the_registered_gradient():
    """MindSpore divides the loss by the ranks that repeat it (VirtualDiv) and adds it up."""
    program = megatron(gradient="registered")
    program["operators"][-1] = loss("mine", "g", 1 / BATCH / TP)
    program["operators"].append(over("all_reduce", "loss", "mine", gradient="identity"))
    assert agrees(program)


def test_reduce_and_broadcast_are_an_all_reduce():
    for root in range(TP):
        program = megatron(gradient="registered")
        program["operators"][6:] = [
            over("reduce", "sum", "fc2", root_rank=root),
            over("broadcast", "g", "sum", root_rank=root),
            loss("mine", "g", 1 / BATCH / TP),
            over("all_reduce", "loss", "mine", gradient="identity"),
        ]
        assert agrees(program)


def sequence_parallel() -> dict:
    """Samples are split outside of the layers: gathered before, reduce-scattered behind."""
    return {
        "feeds": {name: {"split": {0: "tensor"}} for name in ("x", "labels")},
        "parameters": SPLIT,
        "operators": [
            up("fc0", "x", "w0"),
            act("act0", "fc0"),
            over("all_gather", "f", "act0"),
            up("fc1", "f", "w1"),
            act("act1", "fc1"),
            up("fc2", "act1", "w2"),
            over("reduce_scatter", "g", "fc2"),
            loss("mine", "g", 1 / BATCH),
            over("all_reduce", "loss", "mine", gradient="identity"),
        ],
        "loss": "loss",
        "gradients": [{"match": "w0", "group": "tensor"}],
    }


def test_all_gather_and_reduce_scatter():
    assert agrees(sequence_parallel())


def test_all_to_all():
    """Samples for features and back, around an activation."""
    program = sequence_parallel()
    program["parameters"] = {name: {} for name in SHAPES}
    program["operators"] = [
        up("fc0", "x", "w0"),
        over("all_to_all", "there", "fc0", split_dim=1, concat_dim=0),
        act("act0", "there"),
        over("all_to_all", "back", "act0", split_dim=0, concat_dim=1),
        up("fc1", "back", "w1"),
        act("act1", "fc1"),
        up("fc2", "act1", "w2"),
        loss("mine", "fc2", 1 / BATCH),
        over("all_reduce", "loss", "mine", gradient="identity"),
    ]
    program["gradients"] = [{"group": "tensor"}]
    assert agrees(program)


@pytest.mark.parametrize(("reduction", "function"), [("max", "maximum"), ("min", "minimum")])
def test_an_extreme_over_ranks(reduction, function):
    """The gradient goes to whom the extreme came from."""
    labels = ["batch", "out"]
    cut = {"op": "slice", "inputs": ["fc0"], "labels": labels, "shape": [BATCH, HIDDEN]}
    half = HIDDEN // 2
    told = {"function": function, "operands": [labels, labels], "result": labels}
    graph = {
        "feeds": FEEDS,
        "parameters": {"w0": {"shape": [IN, HIDDEN]}, "w2": {"shape": [half, CLASSES]}},
        "operators": [
            up("fc0", "x", "w0"),
            {**cut, "name": "a", "cuts": [[1, 0, 1, half]]},
            {**cut, "name": "b", "cuts": [[1, half, 1, half]]},
            {"op": "elementwise", "name": "most", "inputs": ["a", "b"], **told},
            up("fc2", "most", "w2"),
            loss("loss", "fc2", "mean"),
        ],
        "loss": "loss",
    }
    program = {
        "feeds": {"x": {}, "labels": {}},
        "parameters": {"w0": {"split": {1: "tensor"}}, "w2": {}},
        "operators": [
            up("fc0", "x", "w0"),
            over("all_reduce", "most", "fc0", reduction=reduction),
            up("fc2", "most", "w2"),
            loss("mine", "fc2", 1 / BATCH / TP),
            over("all_reduce", "loss", "mine", gradient="identity"),
        ],
        "loss": "loss",
        "gradients": [{"match": "w2", "group": "tensor"}],
    }
    assert agrees(program, graph=graph)


def test_a_product_has_no_gradient():
    program = megatron()
    program["operators"][6] = over("all_reduce", "g", "fc2", reduction="prod")
    with pytest.raises(PlanError, match="no gradient is registered for all_reduce \\(prod\\)"):
        build_scenario(written({"tensor": TP}, program, graph=DEEP))


def test_a_loss_that_is_divided():
    """Behind cross entropy the gradient is a number, through sums over ranks and products."""
    program = megatron()
    program["operators"][-1:] = [
        loss("a", "g", 1 / BATCH),
        over("all_reduce", "b", "a"),
        times("c", "b", 3.0),
        times("loss", "c", 1 / 3 / TP),
    ]
    program["operators"][6] = over("all_reduce", "g", "fc2", gradient="identity")
    assert agrees(program)


def test_a_loss_behind_which_something_else_stands():
    program = megatron()
    program["operators"][-1:] = [
        loss("a", "g", 1 / BATCH),
        {"op": "gelu", "name": "loss", "inputs": ["a"], "labels": []},
    ]
    with pytest.raises(PlanError, match=r"^parallel.program.loss: 'loss' .gelu. cannot follow the loss"):
        build_scenario(written({"tensor": TP}, program, graph=DEEP))


def test_rows_of_a_table_by_hand():
    """``part`` tells a lookup which rows a rank has: it answers for these only."""
    graph = {
        "feeds": {"ids": {"shape": ["batch"], "below": 8}, "labels": FEEDS["labels"]},
        "parameters": {"table": {"shape": [8, HIDDEN]}, "w2": {"shape": [HIDDEN, CLASSES]}},
        "operators": [
            {"op": "embedding", "name": "rows", "inputs": ["ids", "table"], "ids": ["batch"]},
            up("fc2", "rows", "w2"),
            loss("loss", "fc2", "mean"),
        ],
        "loss": "loss",
    }
    rows = {"op": "embedding", "name": "some", "inputs": ["ids", "table"], "ids": ["batch"]}
    program = {
        "feeds": {"ids": {}, "labels": {}},
        "parameters": {"table": {"split": {0: "tensor"}}, "w2": {}},
        "operators": [
            {**rows, "part": {"vocab": "tensor"}},
            over("all_reduce", "rows", "some", gradient="identity"),
            up("fc2", "rows", "w2"),
            loss("loss", "fc2", 1 / BATCH),
        ],
        "loss": "loss",
    }
    assert agrees(program, graph=graph)
    del program["operators"][0]["part"]
    assert not agrees_or_fails(program, graph)


def agrees_or_fails(program, graph) -> bool:
    try:
        return verify(written({"tensor": TP}, program, graph=graph)).agrees
    except IndexError:
        return False
