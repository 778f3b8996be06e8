"""Cases of the operators of mixtures of experts and of latent attention."""

from __future__ import annotations

import numpy as np

from simcluster.model.operators.activation import Relu, Swiglu
from simcluster.model.operators.attention import Attention, AttentionGrad
from simcluster.model.operators.join_heads import JoinHeads, JoinHeadsGrad
from simcluster.model.operators.router import ExpertSlots, Route, RouteGrad
from simcluster.model.operators.router_weighted import (
    RouterWeighted,
    RouterWeightedGrad,
    WeighedBias,
    WeighedBiasGrad,
)
from simcluster.model.operators.token_dispatch import Combine, Dispatch, SlotWeights, SlotWeightsGrad
from tests.contracts.operator_case import WHOLE, Case, Draw, normal

EXPERTS, CAPACITY, CHOICES = 8, 8, 8
_TOKENS = (8, 8)
_SLOT_ROWS = (EXPERTS, 8, CAPACITY, 8)
_ROWS = (*_TOKENS, 8)
_INNER = ("experts", "batch", "capacity", "ffn")
_SLOTTED = (*_INNER[:3], "hidden")


def _ids(rng: np.random.Generator, choices: int, experts: int = EXPERTS) -> np.ndarray:
    """Different experts for every token, the first ones more often than the others."""
    liking = rng.standard_normal((*_TOKENS, experts)) - np.arange(experts) / 2
    return np.argsort(-liking, axis=-1)[..., :choices]


def _slots(rng: np.random.Generator) -> np.ndarray:
    """Slots of an uneven routing in which some choices are dropped."""
    ids = np.where(rng.random((*_TOKENS, 1)) < 0.8, _ids(rng, CHOICES), 0)
    (slots,) = ExpertSlots(EXPERTS, CAPACITY).evaluate((ids,), WHOLE)
    assert (slots < 0).any()
    assert (slots >= 0).any()
    return slots


def _weights(rng: np.random.Generator) -> np.ndarray:
    return rng.random((*_TOKENS, CHOICES))


def _route_grad(choices: int) -> Draw:
    def draw(rng):
        grad = rng.standard_normal((*_TOKENS, choices))
        return rng.standard_normal((*_TOKENS, EXPERTS)), _ids(rng, choices), grad

    return draw


_QUERY = ("batch", "seq", "heads", "group")
_KEY = ("batch", "seq", "heads")
_LATENT = Attention(own_values=True)
_QKV = ((8, 6, 8, 8, 4), (8, 6, 8, 4), (8, 6, 8, 2))


def _attention_grad(rng):
    q, k, v = normal(*_QKV)(rng)
    made = _LATENT.evaluate((q, k, v), WHOLE)
    return (q, k, v, *made, rng.standard_normal(made[0].shape))


_SHARE = {"seq": "a slice of causal queries computes rightly but does more or less work than another"}
_APART = _SHARE | {
    "value_dim": "each part of the values would compute all scores again",
    "keys": "with the statistics of whole rows keys could be split, but no forward is",
}

_SCORES = normal((*_TOKENS, EXPERTS))
_SLICED = normal((*_TOKENS, 4, EXPERTS))


def _sliced_slots(rng: np.random.Generator) -> np.ndarray:
    """Slots of sequences in eight slices of four tokens each."""
    liking = rng.standard_normal((*_TOKENS, 4, EXPERTS)) - np.arange(EXPERTS) / 2
    ids = np.where(rng.random((*_TOKENS, 4, 1)) < 0.8, np.argsort(-liking, axis=-1)[..., :CHOICES], 0)
    (slots,) = ExpertSlots(EXPERTS, CAPACITY, in_slices=True).evaluate((ids,), WHOLE)
    assert (slots < 0).any()
    return slots


_SLICED_ROWS = (EXPERTS, *_TOKENS, CAPACITY, 8)
_AS_FORWARD = "each choice adds its part, but the forward makes them together"
_UNNORMALISED = {"choices": _AS_FORWARD}

CASES = (
    Case("route", Route(2), _SCORES, (0,)),
    Case("route, weights normalised", Route(4, normalised=True), _SCORES, (0,)),
    Case("route in the best groups", Route(2, "softmax", False, 16.0, 4, 2), _SCORES, (0,)),
    Case("route by sigmoid", Route(4, "sigmoid", True, 2.5, 4, 2, 2), _SCORES, (0,)),
    Case(
        "route by sigmoid, steered",
        Route(4, "sigmoid", True, 2.5, 4, 2, 2, True),
        normal((*_TOKENS, EXPERTS), (EXPERTS,)),
        (0,),
        untrained=frozenset({1}),
    ),
    Case("route by sigmoid alone", Route(2, "sigmoid"), _SCORES, (0,)),
    Case("route_grad", RouteGrad(2, scale=16.0), _route_grad(2), unsplit=_UNNORMALISED),
    Case("route_grad, weights normalised", RouteGrad(4, normalised=True), _route_grad(4)),
    Case("route_grad by sigmoid", RouteGrad(4, "sigmoid", True, 2.5), _route_grad(4)),
    Case("route_grad by sigmoid alone", RouteGrad(2, "sigmoid"), _route_grad(2), unsplit=_UNNORMALISED),
    Case("expert_slots", ExpertSlots(EXPERTS, 3), lambda rng: (_ids(rng, 2),)),
    Case(
        "dispatch",
        Dispatch(EXPERTS, CAPACITY),
        lambda rng: (rng.standard_normal(_ROWS), _slots(rng)),
        (0,),
        reads_part=frozenset({0}),
    ),
    Case(
        "combine",
        Combine(EXPERTS, CAPACITY),
        lambda rng: (rng.standard_normal(_SLOT_ROWS), _slots(rng)),
        (0,),
    ),
    Case("slot_weights", SlotWeights(EXPERTS, CAPACITY), lambda rng: (_weights(rng), _slots(rng)), (0,)),
    Case(
        "slot_weights_grad",
        SlotWeightsGrad(EXPERTS, CAPACITY),
        lambda rng: (rng.standard_normal(_SLOT_ROWS[:3]), _slots(rng)),
    ),
    Case("route in slices", Route(2, in_slices=True), _SLICED, (0,)),
    Case(
        "dispatch in slices",
        Dispatch(EXPERTS, CAPACITY, in_slices=True),
        lambda rng: (rng.standard_normal((*_TOKENS, 4, 8)), _sliced_slots(rng)),
        (0,),
        reads_part=frozenset({0}),
    ),
    Case(
        "combine in slices",
        Combine(EXPERTS, CAPACITY, in_slices=True),
        lambda rng: (rng.standard_normal(_SLICED_ROWS), _sliced_slots(rng)),
        (0,),
    ),
    Case(
        "slot_weights in slices",
        SlotWeights(EXPERTS, CAPACITY, in_slices=True),
        lambda rng: (rng.random((*_TOKENS, 4, CHOICES)), _sliced_slots(rng)),
        (0,),
    ),
    Case(
        "expert_slots in slices",
        ExpertSlots(EXPERTS, 3, in_slices=True),
        lambda rng: (np.argsort(rng.random((*_TOKENS, 4, EXPERTS)), axis=-1)[..., :2],),
    ),
    Case(
        "weighed gate",
        RouterWeighted(Swiglu(_INNER), _INNER[:3]),
        normal(_SLOT_ROWS, _SLOT_ROWS, _SLOT_ROWS[:3]),
        (0,),
    ),
    Case(
        "weighed activation",
        RouterWeighted(Relu(_INNER), _INNER[:3]),
        normal(_SLOT_ROWS, _SLOT_ROWS[:3]),
        (0,),
    ),
    Case(
        "weighed_grad of a gate",
        RouterWeightedGrad(Swiglu(_INNER), _INNER[:3]),
        normal(_SLOT_ROWS, _SLOT_ROWS, _SLOT_ROWS[:3], _SLOT_ROWS),
    ),
    Case(
        "weighed_grad of an activation",
        RouterWeightedGrad(Relu(_INNER), _INNER[:3]),
        normal(_SLOT_ROWS, _SLOT_ROWS[:3], _SLOT_ROWS),
    ),
    Case(
        "weighed_bias",
        WeighedBias(_SLOTTED, ("experts", "hidden"), _SLOTTED[:3]),
        normal(_SLOT_ROWS, (_SLOT_ROWS[0], _SLOT_ROWS[3]), _SLOT_ROWS[:3]),
        (0,),
    ),
    Case(
        "weighed_bias_grad",
        WeighedBiasGrad(_SLOTTED, ("experts", "hidden"), _SLOTTED[:3]),
        normal((_SLOT_ROWS[0], _SLOT_ROWS[3]), _SLOT_ROWS[:3], _SLOT_ROWS),
    ),
    Case("attention with values of their own size", _LATENT, normal(*_QKV), (0,), unsplit=_SHARE),
    Case(
        "attention_grad with values of their own size",
        AttentionGrad(own_values=True),
        _attention_grad,
        unsplit=_APART,
    ),
    Case("join_heads", JoinHeads(_QUERY, 4), normal((8, 8, 8, 8, 4), (8, 8, 8, 8, 2)), (0,)),
    Case(
        "join_heads, one part shared", JoinHeads(_KEY, 4, ("heads",)), normal((8, 8, 8, 4), (8, 8, 2)), (0,)
    ),
    Case("join_heads_grad", JoinHeadsGrad(_KEY, 4, ("heads",)), normal((8, 8, 8, 6))),
)
