"""Mixtures of experts: what the router chooses, who is dropped, and what comes out against plain loops."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.document import validate_data
from simcluster.errors import ScenarioError
from simcluster.model import Region
from simcluster.model.graph.block_builder import BlockBuilder
from simcluster.model.graph.operator import TensorType
from simcluster.model.layers.mixture_of_experts import Experts
from simcluster.model.model_flops import forward_flops
from simcluster.model.operators.router import ExpertSlots, Route
from simcluster.model.spec.model_spec import ModelSpec
from simcluster.work import DType

WHOLE = Region({})
TINY = {"layers": 2, "hidden": 8, "heads": 2, "vocab": 32, "experts": {"count": 4, "top_k": 2, "ffn": 6}}


def softmax(x):
    raised = np.exp(x - x.max(axis=-1, keepdims=True))
    return raised / raised.sum(axis=-1, keepdims=True)


def silu(x):
    return x / (1 + np.exp(-x))


# -- choosing ----------------------------------------------------------------------------------------------


def scores(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def test_normalised_weights_are_a_softmax_over_the_chosen():
    """As Mixtral says it (arXiv 2401.04088, section 2.1)."""
    logits = scores(2, 5, 8)
    weights, ids = Route(2, normalised=True).evaluate((logits,), WHOLE)
    best = np.sort(logits, axis=-1)[..., :-3:-1]
    assert np.allclose(np.take_along_axis(logits, ids, axis=-1), best)
    assert np.allclose(weights, softmax(best))


def test_weights_that_are_not_normalised_are_those_of_all_experts_times_the_scale():
    logits = scores(2, 5, 8)
    weights, ids = Route(3, scale=16.0).evaluate((logits,), WHOLE)
    assert np.allclose(weights, 16 * np.take_along_axis(softmax(logits), ids, axis=-1))


@settings(max_examples=60)
@given(st.integers(0, 999), st.sampled_from([(1, "softmax"), (2, "sigmoid")]))
def test_experts_come_out_of_the_best_groups_only(seed, kind):
    """DeepSeek's device- and node-limited routing: no expert of a worse group, however good it is."""
    best, score = kind
    logits = scores(2, 3, 16, seed=seed)
    _, ids = Route(4, score, groups=4, kept_groups=2, group_best=best).evaluate((logits,), WHOLE)
    marks = softmax(logits) if score == "softmax" else 1 / (1 + np.exp(-logits))
    for token in np.ndindex(2, 3):
        groups = marks[token].reshape(4, 4)
        order = np.argsort(-np.sort(groups)[:, -best:].sum(axis=1))
        allowed = {4 * group + member for group in order[:2] for member in range(4)}
        assert set(ids[token]) == set(sorted(allowed, key=lambda each: -marks[token][each])[:4])


def test_a_steering_bias_decides_who_is_chosen_and_not_with_which_weight():
    logits, bias = scores(1, 6, 4), np.array([0.0, 0.0, 0.0, 9.0])
    route = Route(2, "sigmoid", steered=True)
    weights, ids = route.evaluate((logits, bias), WHOLE)
    assert (ids == 3).any(axis=-1).all()
    assert np.allclose(weights, np.take_along_axis(1 / (1 + np.exp(-logits)), ids, axis=-1))


@settings(max_examples=100)
@given(st.integers(0, 999), st.integers(1, 5), st.integers(1, 3))
def test_places_are_given_in_order_and_nobody_sits_on_another(seed, capacity, top_k):
    rng = np.random.default_rng(seed)
    ids = np.argsort(rng.random((2, 7, 4)), axis=-1)[..., :top_k]
    (slots,) = ExpertSlots(4, capacity).evaluate((ids,), WHOLE)
    for batch in range(2):
        taken: Counter[int] = Counter()
        for token, choice in np.ndindex(7, top_k):
            expert, slot = ids[batch, token, choice], slots[batch, token, choice]
            place = taken[expert]
            assert slot == (expert * capacity + place if place < capacity else -1)
            taken[expert] += 1


@pytest.mark.parametrize(
    ("count", "top_k", "factor", "seq_len", "places"),
    [
        (8, 2, 1.0, 4096, 1024),
        (256, 8, 1.0, 4096, 128),
        (8, 2, 1.25, 4096, 1280),
        (16, 8, 1.1, 1000, 550),
        (8, 2, 1.0, 1, 1),
        (3, 1, 1.0, 10, 4),
    ],
)
def test_capacity_is_rounded_up_and_not_by_rounding_errors(count, top_k, factor, seq_len, places):
    assert Experts(count, top_k, 8, capacity_factor=factor).capacity(seq_len) == places


# -- what comes out ----------------------------------------------------------------------------------------


def mixed(experts, batch=2, seq_len=6, hidden=8, activation="swiglu"):
    """What the operators of a mixture compute, its parameters, and its input."""
    build = BlockBuilder("mixture", DType.FP32)
    x = build.input("in", TensorType((batch, seq_len, hidden), DType.FP32))
    y = experts.write(build, x, hidden, activation)
    rng = np.random.default_rng(4)
    values = {name: rng.standard_normal(build.values[name].type.shape) for name in ("in", *build.parameters)}
    known = dict(values)
    for node in build.nodes:
        made = node.operator.evaluate([known[name] for name in node.inputs], WHOLE)
        known.update(zip(node.outputs, made, strict=True))
    return known[y], values


def by_loops(experts, values, gated=True):
    """Token by token and expert by expert, the first come to an expert first served."""
    x = values["in"]
    steering = [values["mlp.route.bias"]] if experts.steered else []
    scored = x @ values["mlp.router.weight"]
    weights, ids = experts.route.evaluate((scored, *steering), WHOLE)
    y = np.zeros_like(x)
    for batch in range(x.shape[0]):
        served: Counter[int] = Counter()
        for token in range(x.shape[1]):
            for weight, expert in zip(weights[batch, token], ids[batch, token], strict=True):
                served[expert] += 1
                if served[expert] > experts.capacity(x.shape[1]):
                    continue
                up = x[batch, token] @ values["mlp.experts.up.weight"][expert]
                if gated:
                    inner = silu(x[batch, token] @ values["mlp.experts.gate.weight"][expert]) * up
                else:
                    inner = np.maximum(up, 0)
                y[batch, token] += weight * (inner @ values["mlp.experts.down.weight"][expert])
    if experts.shared:
        up = x @ values["mlp.shared.up.up.weight"]
        y += (silu(x @ values["mlp.shared.up.gate.weight"]) * up) @ values["mlp.shared.down.weight"]
    return y


@pytest.mark.parametrize(
    "experts",
    [
        Experts(4, 2, 6),
        Experts(4, 2, 6, capacity_factor=0.5),
        Experts(4, 1, 6, capacity_factor=4.0),
        Experts(8, 3, 4, shared=2, normalised=False, scale=16.0, groups=4, kept_groups=2),
        Experts(8, 2, 4, 1, 0, "sigmoid", True, 2.5, 4, 2, 2, True),
    ],
    ids=str,
)
def test_a_mixture_is_the_weighted_sum_of_its_experts(experts):
    y, values = mixed(experts)
    assert np.allclose(y, by_loops(experts, values))


def test_experts_without_a_gate():
    experts = Experts(4, 2, 6)
    y, values = mixed(experts, activation="relu")
    assert np.allclose(y, by_loops(experts, values, gated=False))


# -- counting ----------------------------------------------------------------------------------------------


def built(**changes):
    return validate_data({**TINY, **changes}, ModelSpec).build(None)


def test_flops_are_those_of_the_experts_that_a_token_uses():
    """Twice the active matrix weights for every token, and attention."""
    model = built()
    seq_len = 16
    tables = model.vocab * model.hidden
    norms = (2 * model.layers + 1) * model.hidden
    weights = model.num_active_parameters - tables - norms
    attention = model.layers * 2 * model.heads * model.head_dim * 2 * seq_len**2
    found = forward_flops(model.graph(1, seq_len, DType.BF16, 1))
    assert found.square == 2 * weights * seq_len + attention


def test_places_beyond_what_tokens_choose_are_computed_and_not_counted():
    plain, roomy = built(), built(experts={**TINY["experts"], "capacity_factor": 2.0})
    assert roomy.for_flops == plain.for_flops == plain
    more = forward_flops(roomy.graph(1, 16, DType.BF16, 1)).square
    experts = 2 * 3 * plain.hidden * 6 * 2 * 16 * plain.layers
    assert more - forward_flops(plain.graph(1, 16, DType.BF16, 1)).square == experts


def test_a_small_form_has_dense_layers_and_mixtures_where_the_model_has():
    model = validate_data({"use": "deepseek-v3"}, ModelSpec).build(None)
    for layers in (1, 2, 5):
        small = model.shrunk(layers, lambda dim, times=1: 2 * times, padded=False)
        instances = small.graph(2, 8, DType.BF16, 16).instances
        kinds = [each.block for each in instances if each.is_pipeline_layer]
        assert kinds == ["layer"] * (layers > 1) + ["mixture"] * (layers - (layers > 1))
        assert small.experts.kept_groups < small.experts.groups
        assert small.latent.head_dim != small.latent.value_dim


@pytest.mark.parametrize("ways", [2, 4, 8])
@pytest.mark.parametrize(
    "experts", [Experts(160, 6, 8, groups=8, kept_groups=3), Experts(8, 2, 8), Experts(60, 1, 8)]
)
def test_places_that_are_split_are_so_in_the_small_form_too(experts, ways):
    small = experts.shrunk(2, lambda dim, times=1: times * (ways if dim == "capacity" else 1))
    assert [small.capacity(seq_len) % ways for seq_len in (4, 8, 16)] == [0, 0, 0]


# -- the section -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "path", "message"),
    [
        ({"experts": {"count": 4}}, "experts", "'top_k', 'ffn' are missing"),
        ({"experts": {"count": 4, "ffn": 6}}, "experts", "'top_k' is missing"),
        (
            {"experts": {"count": 4, "top_k": 5, "ffn": 6}},
            "experts.top_k",
            "top_k 5 of 1 groups x 4 = 4 experts",
        ),
        (
            {"experts": {"count": 6, "top_k": 1, "ffn": 6, "groups": 4}},
            "experts.groups",
            "6 experts do not divide into 4 groups",
        ),
        (
            {"experts": {"count": 8, "top_k": 1, "ffn": 6, "groups": 4, "kept_groups": 5}},
            "experts.kept_groups",
            "of 4 groups 5 cannot be kept",
        ),
        (
            {"experts": {"count": 8, "top_k": 1, "ffn": 6, "groups": 4, "group_best": 3}},
            "experts.group_best",
            "a group has 2 experts, not 3",
        ),
        (
            {"experts": {**TINY["experts"], "group_best": 2}},
            "experts.group_best",
            "one group is not compared with others",
        ),
        (
            {"experts": {**TINY["experts"], "dense_layers": 2}, "ffn": 8},
            "experts.dense_layers",
            "2 of 2 layers are dense: none has experts",
        ),
        ({"experts": {**TINY["experts"], "dense_layers": 1}}, "", "'ffn' is missing"),
        ({"window_every": 2}, "window_every", "'window_every' needs a window"),
        (
            {"window": 4, "window_every": 2, "full_attention_every": 2},
            "full_attention_every",
            "'full_attention_every' and 'window_every' both say which layers have the window",
        ),
        ({"experts": {**TINY["experts"], "scores": "tanh"}}, "experts.scores", "unknown key"),
        ({"latent": {"kv_rank": 4}}, "latent", "'nope_dim', 'rope_dim', 'value_dim' are missing"),
        (
            {"latent": {"kv_rank": 4, "nope_dim": 4, "rope_dim": 3, "value_dim": 4}},
            "latent.rope_dim",
            "3 elements do not turn in pairs",
        ),
        (
            {"latent": {"kv_rank": 4, "nope_dim": 4, "rope_dim": 2, "value_dim": 4}, "qk_norm": True},
            "qk_norm",
            "'qk_norm' does not go with latent",
        ),
        (
            {"latent": {"kv_rank": 4, "nope_dim": 4, "rope_dim": 2, "value_dim": 4}, "positions": "none"},
            "latent",
            "'latent' needs positions: rotary, not none",
        ),
    ],
)
def test_what_cannot_be_is_refused_with_its_place(changes, path, message):
    with pytest.raises(ScenarioError) as caught:
        built(**changes)
    (problem,) = caught.value.problems
    assert message in problem.message
    assert problem.path == path


def test_an_entry_may_be_given_other_places(tmp_path):
    model = validate_data({"use": "mixtral-8x7b", "experts": {"capacity_factor": 1.5}}, ModelSpec).build(None)
    whole = validate_data({"use": "mixtral-8x7b"}, ModelSpec).build(None)
    assert model == replace(whole, experts=replace(whole.experts, capacity_factor=1.5))


@pytest.mark.parametrize(
    ("dense", "every", "mixed_layers"), [(0, 1, [0, 1, 2, 3]), (1, 1, [1, 2, 3]), (0, 2, [1, 3]), (2, 2, [3])]
)
def test_layers_that_have_experts(dense, every, mixed_layers):
    experts = Experts(4, 2, 6, dense_layers=dense, every=every)
    assert [layer for layer in range(4) if experts.in_layer(layer)] == mixed_layers


def test_experts_in_no_layer_are_refused():
    spec = TINY | {"ffn": 8, "experts": TINY["experts"] | {"every": 3}}
    with pytest.raises(ScenarioError, match="none of 2 layers has experts"):
        validate_data(spec, ModelSpec).build(Path())
