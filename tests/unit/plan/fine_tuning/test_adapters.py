"""Low-rank adapters beside matmuls, and weights that are frozen."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.errors import PlanError
from simcluster.model import Phase
from simcluster.model.layers.mixture_of_experts import Experts
from simcluster.model.operators.optimizer import Sgd
from simcluster.plan.autodiff.differentiation import differentiate
from simcluster.plan.autodiff.training_flops import training_flops
from simcluster.plan.fine_tuning.adapter_targets import LowRankAdapters
from simcluster.plan.fine_tuning.frozen_weights import freeze
from simcluster.plan.fine_tuning.low_rank_adapters import add_adapters
from simcluster.values import Oracle, SeededData
from simcluster.work import DType
from tests.support.plan_graphs import GPT, LLAMA

RANK = 2


def graph_of(model=LLAMA):
    return model.graph(2, 4, DType.FP32, 1)


def adapted(*targets, graph=None, **options):
    adapters = LowRankAdapters(**{"rank": RANK, "alpha": 4.0, "dropout": 0.0, "targets": targets, **options})
    return add_adapters(graph_of() if graph is None else graph, adapters)


def new_parameters(graph):
    before = dict(graph_of().parameters())
    return {name: kind.shape for name, kind in graph.parameters() if name not in before}


def gradients_of(graph):
    source = SeededData(0, np.dtype("float64"))
    return Oracle(differentiate(graph, DType.FP32), Sgd(), source, 1).run(1)[0].gradients


def test_a_fused_adapter_has_one_a_and_a_named_weight_its_own():
    assert new_parameters(adapted("layers.1.attention.qkv")) == {
        "layers.1.attention.qkv.lora_a.weight": (8, RANK),
        "layers.1.attention.qkv.lora_b.q.weight": (RANK, 2, 2, 2),
        "layers.1.attention.qkv.lora_b.k.weight": (RANK, 2, 2),
        "layers.1.attention.qkv.lora_b.v.weight": (RANK, 2, 2),
    }
    own = new_parameters(adapted("q_proj", "v_proj"))
    assert len(own) == 2 * 2 * 2
    assert own["layers.0.attention.qkv.v.lora_a.weight"] == (8, RANK)
    assert own["layers.0.attention.qkv.v.lora_b.weight"] == (RANK, 2, 2)


@pytest.mark.parametrize(
    ("targets", "matmuls"),
    [
        (("linear_qkv",), {"attention.qkv"}),
        (("linear_proj", "linear_fc2"), {"attention.out", "mlp.down"}),
        (("gate_proj", "o_proj"), {"mlp.up.gate", "attention.out"}),
        (("all-linear",), {"attention.qkv", "attention.out", "mlp.up", "mlp.down"}),
        (("mlp.up", "mlp.up.gate"), {"mlp.up"}),
    ],
)
def test_targets_are_called_as_megatron_and_peft_call_them(targets, matmuls):
    names = {name.partition(".lora_")[0] for name in new_parameters(adapted(*targets))}
    assert names == {f"layers.{layer}.{name}" for layer in (0, 1) for name in matmuls}


def test_an_adapter_adds_its_product_to_that_of_the_weight():
    """As with ``W + alpha / rank A B`` in place of W."""
    graph, source = adapted("mlp.down"), SeededData(0, np.dtype("float64"))
    one = Oracle(differentiate(graph, DType.FP32), Sgd(), source, 1)
    merged = {}
    for layer in (0, 1):
        weight, a, b = (
            one.initial(f"layers.{layer}.mlp.down.{part}weight") for part in ("", "lora_a.", "lora_b.")
        )
        merged[f"layers.{layer}.mlp.down.weight"] = weight + 4.0 / RANK * a @ b
    other = Oracle(differentiate(graph_of(), DType.FP32), Sgd(), source, 1, start=merged)
    assert one.run(1)[0].loss == pytest.approx(other.run(1)[0].loss, rel=1e-12)


@settings(max_examples=6, deadline=None)
@given(data=st.data())
def test_what_is_trained_has_the_gradients_that_it_has_when_all_is(data):
    model = data.draw(st.sampled_from([LLAMA, GPT]))
    target = data.draw(st.sampled_from(["layers.1.attention.qkv", "mlp.down", "all-linear"]))
    names = sorted({name for name, _ in graph_of(model).parameters()})
    frozen = data.draw(st.lists(st.sampled_from(names), min_size=1, unique=True) | st.just(["*"]))
    whole = gradients_of(adapted(target, graph=graph_of(model)))
    part = gradients_of(adapted(target, graph=freeze(graph_of(model), frozen, adapted=True)))
    assert set(part) == (set(whole) - set(frozen) if frozen != ["*"] else set(whole) - set(names))
    for name, gradient in part.items():
        np.testing.assert_allclose(gradient, whole[name], rtol=1e-12, atol=1e-15)


def test_backward_ends_behind_the_first_that_is_trained():
    graph = adapted("layers.1.mlp.down", graph=freeze(graph_of(), ["*"], adapted=True))
    made = differentiate(graph, DType.FP32)
    backward = {
        instance.name: {node.name for node in made.block_of(instance).phase(Phase.BACKWARD)}
        for instance in made.instances
    }
    assert not backward["embedding"] and not backward["layers.0"]
    names = {name for name in backward["layers.1"] if "residual" not in name}
    assert names == {
        *("mlp.down.lora_a.wgrad", "mlp.down.lora_b.wgrad", "mlp.down.lora_b.dgrad"),
        "mlp.down.lora_scale.d0",
    }
    assert {name for name in backward["head"] if name.endswith("wgrad")} == set()
    assert "in" not in made.block_of(made.instances[2]).gradients


def test_flops_of_frozen_matmuls_are_two_thirds():
    graph = graph_of()
    products = 2 * sum(
        kind.num_elements for name, kind in graph.parameters() if len(kind.shape) > 1 and "tokens" not in name
    )
    dense = training_flops(graph)
    attention = dense.attention
    assert dense.square - attention == pytest.approx(3 * products * 2 * 4)
    behind = freeze(graph, ["layers.*", "head.*"], adapted=False)
    assert training_flops(behind).square - attention == pytest.approx(2 * products * 2 * 4)
    assert training_flops(behind).attention == attention
    # Of the head the norm is trained too, and so needs the gradient of what it gives.
    front = training_flops(freeze(graph, ["embedding.*", "layers.*"], adapted=False), 3)
    head = 2 * LLAMA.vocab * LLAMA.hidden * 2 * 4
    assert front.square == pytest.approx(3 * (products * 2 * 4 + attention / 3 + 2 * head))


def test_tied_parameters_are_frozen_together():
    frozen = freeze(graph_of(GPT), ["head.logits.weight"], adapted=False)
    assert "embedding.tokens.weight" not in gradients_of(frozen)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: adapted("mlp.dwn"), "'mlp.dwn' names no weight of a matrix product"),
        (lambda: adapted("attention.norm"), "names no weight"),
        (
            lambda: freeze(graph_of(), ["layers.*", "lm_head"], adapted=False),
            "'lm_head' matches no parameter",
        ),
        (lambda: freeze(graph_of(), ["*"], adapted=False), "nothing is trained"),
    ],
)
def test_what_is_refused(make, message):
    with pytest.raises(PlanError, match=message.replace("'", ".")):
        make()


def test_experts_have_adapters_of_their_own():
    model = replace(LLAMA, experts=Experts(count=4, top_k=2, ffn=6))
    graph = model.graph(2, 4, DType.FP32, 1)
    made = dict(adapted("linear_fc1", "linear_fc2", graph=graph).parameters())
    assert made["layers.0.mlp.experts.up.lora_a.weight"].shape == (4, 8, RANK)
    assert made["layers.0.mlp.experts.down.lora_b.weight"].shape == (4, RANK, 8)
