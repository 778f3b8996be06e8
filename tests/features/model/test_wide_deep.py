from __future__ import annotations

import pytest

from simcluster.document import validate_data
from simcluster.errors import PlanError
from simcluster.layout import Movement
from simcluster.model import TensorType
from simcluster.model.families.wide_deep import WideDeep
from simcluster.model.model_flops import forward_flops
from simcluster.model.spec.model_spec import ModelSpec
from simcluster.simulation import verify
from simcluster.simulation.compose.build import build_scenario
from simcluster.work import DType
from tests.support.scenarios import scenario

SMALL = WideDeep(fields=6, vocab=32, embedding=4, mlp=(16, 8))
WRITTEN = {"family": "wide_deep", "fields": 8, "vocab": 32, "embedding": 4, "mlp": [16, 8]}
ROWS = {"match": "embedding.{wide,deep}.tokens", "split": {"vocab": "data"}}
COLUMNS = {"match": "embedding.deep.{tokens,values}", "split": {"columns": "tensor"}}
FIELDS = {"match": "embedding.deep.{tokens,values,join}", "split": {"fields": "tensor"}}
TENSOR = [
    {"match": "embedding.{wide,deep}.tokens", "split": {"vocab": "tensor"}},
    {"match": "layers.0.dense*", "split": {"out": "tensor"}},
    {"match": "layers.0.activation", "split": {"out": "tensor"}},
    {"match": "layers.1.dense", "split": {"in": "tensor"}},
]


def plan(mesh, strategies, **more):
    training = {"seq_len": 1, "optimizer": "adam"} | more
    parallel = {"recipe": "data", "strategies": strategies}
    return scenario(mesh, model=WRITTEN, micro_batch=2, training=training, **parallel)


def test_the_catalog_has_the_published_parameters():
    model = validate_data({"use": "wide-deep"}, ModelSpec).build(None)
    assert model.num_parameters == 16_000_000 + 200_001 + 3_885_057


def test_forward_flops_are_those_of_the_mlp():
    """2 x 3,883,136 per sample: the weights of 3120 - 1024 - 512 - 256 - 128 - 1 without biases."""
    model = validate_data({"use": "wide-deep"}, ModelSpec).build(None)
    assert forward_flops(model.graph(1, 1, DType.FP32, 1)).counted == 2 * 3_883_136


def test_both_tables_are_read_by_one_feed_of_ids():
    graph = SMALL.graph(batch=2, seq_len=1, dtype=DType.FP32, num_tokens=8)
    embedding = graph.blocks["embedding"]
    assert embedding.values["ids"].type == TensorType((2, 6), DType.INT64)
    assert embedding.values["ids"].num_ids == 32
    assert embedding.values["wide"].type == TensorType((2, 1), DType.FP32)
    assert embedding.values["deep"].type == TensorType((2, 24), DType.FP32)
    assert [each.name for each in graph.instances] == ["embedding", "layers.0", "layers.1", "head"]
    assert graph.blocks["head"].values["targets"].num_ids == 2


@pytest.mark.parametrize(
    ("mesh", "strategies"),
    [
        ({"data": 8}, []),
        ({"data": 8}, [ROWS]),
        ({"data": 2, "tensor": 4}, [COLUMNS]),
        ({"data": 2, "tensor": 2}, [FIELDS]),
        ({"data": 2, "tensor": 4}, TENSOR),
        ({"pipeline": 2, "data": 2}, []),
        ({"pipeline": 2, "data": 4}, [ROWS]),
    ],
    ids=str,
)
def test_it_computes_what_one_device_computes(mesh, strategies):
    result = verify(plan(mesh, strategies))
    assert result.agrees, result.fault or result.first_difference


def moved(mesh, strategies):
    """(value, collective) of every movement of the embedding."""
    graph = build_scenario(plan(mesh, strategies)).plan.graph
    return [
        (node.inputs[0], str(node.operator.kind))
        for node in graph.blocks["embedding"].nodes
        if isinstance(node.operator, Movement)
    ]


def test_rows_split_over_data_ranks_are_masked_lookups_whose_sum_is_scattered():
    """Zeros where another rank has the row; of the sum over all ranks each gets its part of the batch."""
    found = moved({"data": 8}, [ROWS])
    assert ("deep.tokens.out", "reduce_scatter") in found
    assert ("wide.tokens.out", "reduce_scatter") in found
    assert not any(value.endswith("weight.grad") for value, _ in found), "a table's rows have one owner"


def test_rows_split_over_tensor_ranks_are_summed_by_an_all_reduce():
    """The batch lies over other ranks, so that every rank needs the whole sum."""
    found = moved({"data": 2, "tensor": 4}, TENSOR)
    assert ("deep.tokens.out", "all_reduce") in found
    assert ("wide.tokens.out", "all_reduce") in found


def test_a_split_of_columns_moves_nothing_before_the_join():
    found = moved({"data": 2, "tensor": 4}, [COLUMNS])
    assert ("deep.values.out", "all_gather") in found
    assert not any(value == "deep.tokens.out" for value, _ in found)


def test_a_sample_is_one_token():
    with pytest.raises(PlanError, match="a sample counts as one token: write seq_len: 1, not 4"):
        build_scenario(plan({"data": 8}, [], seq_len=4))
