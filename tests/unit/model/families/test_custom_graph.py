"""Models that a scenario writes operator by operator."""

from __future__ import annotations

from copy import deepcopy

import pytest

from simcluster.document import validate_data
from simcluster.errors import ScenarioError
from simcluster.model import Phase
from simcluster.model.families.custom_graph import operator_kinds
from simcluster.model.spec.model_spec import ModelSpec
from simcluster.scenario import Scenario
from simcluster.work import DType
from tests.support.manual import CLASSES, HIDDEN, IN, MLP, written


def built(graph):
    return validate_data({"graph": graph}, ModelSpec).build(None)


def changed(place: int | str, **told):
    graph = deepcopy(MLP)
    (graph if place == "" else graph["operators"][place]).update(told)
    return graph


def test_its_graph():
    graph = built(MLP).graph(batch=6, seq_len=1, dtype=DType.BF16, num_tokens=24)
    (block,) = graph.blocks.values()
    assert {name: kind.shape for name, kind in graph.parameters()} == {
        "layers.0.w1": (IN, HIDDEN),
        "layers.0.w2": (HIDDEN, CLASSES),
    }
    assert graph.num_parameters == IN * HIDDEN + HIDDEN * CLASSES
    assert block.values["x"].type.shape == (6, IN)
    assert [node.operator.kind for node in block.phase(Phase.FORWARD)] == [
        "matmul",
        "gelu",
        "matmul",
        "cross_entropy",
    ]
    assert block.node("loss").operator.scale == 1 / 24


def test_a_number_of_samples_is_not_written_out():
    feeds = {**MLP["feeds"], "x": {"shape": [2, IN]}}
    with pytest.raises(ScenarioError, match="is 2 in 'fc2' and 6 in 'labels'"):
        built(changed("", feeds=feeds))


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (changed(0, op="matmull"), "model.graph.operators.0.op: .*did you mean 'matmul'"),
        (changed(0, lefft=["a"]), "model.graph.operators.0.lefft: .*it has no 'lefft'; did you mean 'left'"),
        (changed(0, inputs=["y", "w1"]), "operators.0.inputs.0: .*nothing before it is called 'y'"),
        (changed(0, inputs=["x"]), "operators.0.inputs: .*it reads 2 tensors, not 1"),
        (changed(0, inputs=["x", "w2"]), "dim in is 12 in 'x' and 8 in 'w2'"),
        (changed(0, left=["batch"]), "2 dims, not 1"),
        (changed(0, left="batch"), "operators.0.left: .*valid array"),
        (changed(3, scale="0.5"), "operators.3.scale"),
        (changed(1, name="fc1"), "operators.1.name: operator 0 is called 'fc1' already"),
        (changed("", loss="fc2"), "model.graph.loss: 'fc2' is fp32.*; what is minimised is one number"),
        (changed("", loss="lost"), "model.graph.loss: nothing is called 'lost'"),
        (changed("", operators=[{"op": "gelu"}]), "operators.0: an operator needs 'name'"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(graph, message):
    with pytest.raises(ScenarioError, match=message):
        data = written({"data": 1}, None).spec.model_dump(mode="json", exclude_unset=True)
        Scenario.of({**data, "model": {"graph": graph}})


def test_a_missing_attribute():
    graph = deepcopy(MLP)
    del graph["operators"][0]["left"]
    with pytest.raises(ScenarioError, match=r"'left' is missing"):
        built(graph)


def test_it_stands_alone():
    with pytest.raises(ScenarioError, match="a graph says all that 'layers' could"):
        validate_data({"graph": MLP, "layers": 3}, ModelSpec)


def test_only_sequences_that_it_has():
    assert built(MLP).seq_len_error(1) == ""
    assert "write seq_len: 1" in built(MLP).seq_len_error(8)
    graph = changed("", feeds={**MLP["feeds"], "ids": {"shape": ["batch", "seq"], "below": 4}})
    assert built(graph).seq_len_error(8) == ""


def test_every_operator_may_be_written():
    """Kinds are those of the registry: a new operator needs no line here."""
    assert {"matmul", "conv2d", "attention", "batch_norm", "elementwise"} <= set(operator_kinds())
