"""Random numbers in values: the same masks on every layout, in every order, and when recomputed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from simcluster.model import Transformer
from simcluster.model.operators.attention import Attention
from simcluster.model.operators.dropout import Dropout
from simcluster.model.operators.optimizer import Sgd
from simcluster.plan.autodiff.differentiation import differentiate
from simcluster.simulation import verify
from simcluster.values import Oracle, SeededData
from simcluster.values.replay import Replay
from simcluster.work import DType
from tests.support.scenarios import TINY_GPT, scenario

RANDOM = {**TINY_GPT, "dropout": 0.2, "attention_dropout": 0.3}
MODEL = Transformer(
    layers=2,
    hidden=8,
    heads=4,
    kv_heads=2,
    head_dim=4,
    ffn=16,
    vocab=16,
    dropout=0.2,
    attention_dropout=0.3,
    positions="alibi",
    window=5,
)


@pytest.mark.combinations
@pytest.mark.parametrize(
    ("mesh", "recipe"),
    [
        ({"data": 2}, "data"),
        ({"tensor": 2}, "megatron"),
        ({"tensor": 2}, "megatron_sp"),
        ({"pipeline": 2}, "data"),
        ({"pipeline": 2, "data": 2, "tensor": 2}, "megatron_sp"),
    ],
)
@pytest.mark.parametrize("recompute", ["none", "all"])
def test_every_layout_drops_the_same_elements(mesh, recipe, recompute):
    found = verify(scenario(mesh, model=RANDOM, recipe=recipe, recompute={"layers": recompute}))
    assert found.agrees, found.first_difference or found.fault


@pytest.mark.parametrize(
    "wrong",
    [
        {"starts": {}},
        {"instance": "everywhere"},
        {"micro_batch": 0},
        {"step": 1},
        {"seed": 9},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_a_rank_that_draws_by_something_else_is_found_out(monkeypatch, wrong):
    honest = Replay._region
    monkeypatch.setattr(
        Replay, "_region", lambda self, event, *rest: replace(honest(self, event, *rest), **wrong)
    )
    model = {**RANDOM, "positions": "none"}
    assert not verify(scenario({"data": 2}, model=model)).agrees


def test_a_recomputed_forward_that_draws_anew_is_found_out(monkeypatch):
    honest = Replay._region

    def forgetful(self, event, operator, *rest):
        region = honest(self, event, operator, *rest)
        again = event.code.phase == "backward" and isinstance(operator, Dropout)
        return replace(region, seed=region.seed + 1) if again else region

    monkeypatch.setattr(Replay, "_region", forgetful)
    assert verify(scenario({"data": 2}, model=RANDOM)).agrees
    assert not verify(scenario({"data": 2}, model=RANDOM, recompute={"layers": "all"})).agrees


def trained(model):
    graph = differentiate(model.graph(2, 8, DType.FP32, 32), DType.FP32)
    source = SeededData(3, np.dtype("float64"))
    return Oracle(graph, Sgd(learning_rate=0.1), source, 2).run(2), graph


def test_attention_in_one_kernel_or_in_several_is_the_same_mathematics():
    """Slopes, window, grouped heads and the dropout mask too: losses, gradients and weights agree."""
    one, fused = trained(MODEL)
    other, separate = trained(MODEL.computed(flash=False, logits=DType.FP32))
    kinds = [{type(node.operator) for _, node in graph.nodes()} for graph in (fused, separate)]
    assert Attention in kinds[0]
    assert Attention not in kinds[1]
    for left, right in zip(one, other, strict=True):
        assert left.loss == pytest.approx(right.loss, rel=1e-12)
        for name, gradient in left.gradients.items():
            assert np.allclose(gradient, right.gradients[name], rtol=1e-9, atol=1e-13), name


def test_dropout_changes_from_step_to_step_and_keeps_the_mean():
    (one, two), _ = trained(MODEL)
    assert one.loss != two.loss
    without, _ = trained(replace(MODEL, dropout=0.0, attention_dropout=0.0))
    assert without[0].loss != one.loss
