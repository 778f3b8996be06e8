"""Random networks of random operators under random legal strategies compute what one device computes."""

from __future__ import annotations

import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from simcluster.model import TensorType
from simcluster.model.graph.block_builder import BlockBuilder
from simcluster.model.operators.cross_entropy import CrossEntropy
from simcluster.model.operators.elementwise import Elementwise
from simcluster.model.operators.matmul import Matmul
from simcluster.model.operators.norm import LayerNorm
from simcluster.model.operators.reshape import Reshape
from simcluster.work import DType
from tests.support.random_graphs import BATCH, UNEVEN, Network, networks
from tests.support.random_plans import CASES, assert_right


def test_a_small_update_is_compared_by_the_last_place_of_its_weight():
    """Factors of rows before a norm have almost no gradient: an update of few last places of the weight."""
    build = BlockBuilder("net", DType.FP32)
    x = build.feed("x", TensorType((BATCH, 4, 8), DType.FP32))
    rows = ("batch", "seq", "d1")
    made = build.add(
        "n0", Matmul(("batch", "seq", "width"), (("width", "d1"),), (rows,)), x, build.parameter("w0", (8, 8))
    )
    made = build.add(
        "n2", Elementwise("mul", (rows, ("batch",)), rows), made, build.parameter("w2", (BATCH,))
    )
    made = build.add("n6", Reshape.of(rows, (BATCH, 4, 8), (BATCH, 32)), made)
    weights = [build.parameter(name, (32,)) for name in ("w4", "w5")]
    made = build.add("n8", LayerNorm(("batch", "seq"), 1e-5), made, *weights)
    product = Matmul(("batch", "seq"), (("seq", "classes"),), (("batch", "classes"),))
    made = build.add("n9", product, made, build.parameter("w6", (32, 8)))
    targets = build.feed("targets", TensorType((BATCH,), DType.INT64), 8)
    loss, _ = build.adds("loss", CrossEntropy(1 / 64, ("batch", "classes")), made, targets)
    network = Network(build.block(outputs={}, loss=loss))
    splits = [
        {"match": f"layers.0.{node.name}", "split": {"batch": []}}
        for node in build.nodes
        if node.name != "n2"
    ]
    drawn = network, [*splits, {"match": "layers.0.n2", "split": {"batch": [], "d1": "a"}}]
    assert_right(drawn, {"kind": "adamw", "eps": 1e-3}, None, 2)


@pytest.mark.parametrize("sharding", [None, {"zero": 2}, {"zero": 3}])
def test_a_norm_whose_scale_is_its_bias_adds_both_terms_of_its_gradient(sharding):
    """Each by a kernel of its own, where norms do not add to gradient buffers; before a scatter."""
    build = BlockBuilder("net", DType.FP32)
    x = build.feed("x", TensorType((BATCH, 4, 8), DType.FP32))
    rows, logits = ("batch", "seq", "d1"), ("batch", "seq", "classes")
    product = Matmul(("batch", "seq", "width"), (("width", "d1"),), (rows,))
    made = build.add("n0", product, x, build.parameter("w0", (8, 4)))
    both = build.parameter("w1", (4,))
    made = build.add("n1", LayerNorm(rows, 1e-5), made, both, both)
    made = build.add("n2", Matmul(rows, (("d1", "classes"),), (logits,)), made, build.parameter("w2", (4, 8)))
    targets = build.feed("targets", TensorType((BATCH, 4), DType.INT64), 8)
    loss, _ = build.adds("loss", CrossEntropy(1 / 64, logits), made, targets)
    network = Network(build.block(outputs={}, loss=loss))
    splits = [{"match": f"layers.0.{node.name}", "split": {"batch": []}} for node in build.nodes]
    assert_right((network, splits), "sgd", sharding, 1, precision="bf16", accumulate=[])


ODD = {**CASES, "drawn": networks(sizes=UNEVEN)}


@pytest.mark.thorough
@settings(max_examples=100)
@given(**CASES)
def test_random_networks(drawn, optimizer, sharding, micro_batches):
    assert_right(drawn, optimizer, sharding, micro_batches)


@settings(max_examples=8)
@given(**ODD)
def test_random_networks_of_sizes_that_do_not_divide(drawn, optimizer, sharding, micro_batches):
    assert_right(drawn, optimizer, sharding, micro_batches, UNEVEN)


@pytest.mark.thorough
@settings(max_examples=50)
@given(**ODD)
def test_more_random_networks_of_sizes_that_do_not_divide(drawn, optimizer, sharding, micro_batches):
    assert_right(drawn, optimizer, sharding, micro_batches, UNEVEN)


SHARED = {**CASES, "drawn": networks(4, shared=True)}
FAMILIES = [[], ["matmul"], ["norm"], ["pointwise"]]


@settings(max_examples=8)
@given(**SHARED, families=st.sampled_from(FAMILIES))
def test_random_networks_whose_kernels_do_not_all_add_to_gradient_buffers(families, **case):
    """16-bit gradients are added to buffers of 32 bits by kernels of their own; what moves keeps its format.

    Several operators read one parameter under different strategies, so that parts of its gradient move.
    """
    assert_right(**case, precision="bf16", accumulate=families)


@pytest.mark.exhaustive
@pytest.mark.parametrize("part", range(16))
def test_ten_thousand_random_networks(part):
    """In sixteen parts that can run beside each other, each drawn from a seed of its own."""

    @seed(part)
    @settings(max_examples=625, database=None)
    @given(**CASES)
    def proof(drawn, optimizer, sharding, micro_batches):
        assert_right(drawn, optimizer, sharding, micro_batches)

    proof()
