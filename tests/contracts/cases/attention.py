"""Attention, its parts, and what is done to queries, keys and scores."""

from __future__ import annotations

from simcluster.model.attributes.attention_scores import Scores
from simcluster.model.graph.zigzag_order import Zigzag
from simcluster.model.operators.attention import Attention, AttentionGrad
from simcluster.model.operators.relative_bias import RelativeBias, RelativeBiasGrad
from simcluster.model.operators.ring_attention import (
    MergePartialAttention,
    RingAttentionStep,
    RingAttentionStepGrad,
)
from simcluster.model.operators.rotary import Rotary
from simcluster.model.operators.slice_attention import SliceAttention, SliceAttentionGrad
from simcluster.model.operators.softmax import Softmax, SoftmaxGrad
from tests.contracts.operator_case import WHOLE, Case, Draw, normal

_QUERY = ("batch", "seq", "heads", "group", "head_dim")
_KEY = ("batch", "seq", "heads", "head_dim")
_QKV = normal((4, 6, 4, 4, 2), (4, 6, 4, 2), (4, 6, 4, 2))
_SCORES = (4, 4, 4, 4, 4)
_ALIBI = {"alibi": (4, 4)}
_SHARE = "a slice of causal queries computes rightly but does more or less work than another"
_KEYS = "with the statistics of whole rows keys could be split, but no forward is"
_ZIGZAG = Zigzag(4, 8)
_EIGHT = normal((4, 8, 4, 4, 4), (4, 8, 4, 4), (4, 8, 4, 4))


def _attention_grad(operator: Attention, *bias: tuple[int, ...], drawn: Draw = _QKV) -> Draw:
    def draw(rng):
        q, k, v = drawn(rng)
        added = normal(*bias)(rng)
        made = operator.evaluate((q, k, v, *added), WHOLE)
        return (q, k, v, *made, rng.standard_normal(q.shape), *added)

    return draw


def _slices(index: int, *, own: bool = False) -> Draw:
    """Queries of a slice of four tokens, with the keys and values of all slices so far."""
    keys, value = (4, 4, 4, 4), (4, 4, 4, 2 if own else 4)
    return normal((4, 4, 4, 4, 4), *(keys,) * (index + 1), *(value,) * (index + 1))


def _slices_grad(operator: SliceAttention, *, own: bool = False) -> Draw:
    def draw(rng):
        inputs = _slices(operator.index, own=own)(rng)
        made = operator.evaluate(inputs, WHOLE)
        return (*inputs, *made, rng.standard_normal(made[0].shape))

    return draw


_IN_ORDER = Attention(order=Zigzag(8, 16))
_BACK_IN_ORDER = AttentionGrad(order=Zigzag(8, 16))
_SIXTEEN = normal((4, 16, 4, 4, 4), (4, 16, 4, 4), (4, 16, 4, 4))


def _turn_grad(rng):
    q, k, v = _SIXTEEN(rng)
    made = Attention(causal=False).evaluate((q, k, v), WHOLE)
    return (q, k, v, *made, rng.standard_normal(q.shape))


def _merged(rng):
    rows, found = (4, 4, 4, 8), (4, 8, 4, 4, 4)
    return normal(found, rows, found, rows)(rng)


def _softmax_grad(rng):
    (scores, dy) = normal(_SCORES, _SCORES)(rng)
    return (*Softmax().evaluate((scores,), WHOLE), dy)


def _slice_of(index):
    return SliceAttention(Attention(), index)


CASES = (
    Case("softmax", Softmax(0.5), normal(_SCORES), (0,)),
    Case("softmax both ways", Softmax(0.5, Scores(causal=False)), normal(_SCORES), (0,)),
    Case("softmax in a window with slopes", Softmax(2.0, Scores(True, 2, (4, 4))), normal(_SCORES), (0,)),
    Case("softmax in zigzag order", Softmax(rule=Scores(order=_ZIGZAG)), normal((4, 4, 4, 8, 8)), (0,)),
    Case("softmax_grad", SoftmaxGrad(), _softmax_grad),
    Case("attention", Attention(), _QKV, (0,), unsplit={"seq": _SHARE}),
    Case("attention in a window", Attention(window=3), _QKV, (0,), unsplit={"seq": _SHARE}),
    Case("attention with slopes", Attention(**_ALIBI), _QKV, (0,), unsplit={"seq": _SHARE}),
    Case(
        "attention with dropout", Attention(dropout=0.25, label="core"), _QKV, (0,), unsplit={"seq": _SHARE}
    ),
    Case(
        "attention with a bias",
        Attention(causal=False, scale=1.0, biased=True),
        lambda rng: (*_EIGHT(rng), rng.standard_normal((4, 4, 8, 8))),
        (0,),
    ),
    Case(
        "attention_grad with a bias",
        AttentionGrad(scale=1.0, biased=True),
        _attention_grad(Attention(scale=1.0, biased=True), (4, 4, 6, 6)),
        unsplit={"seq": _SHARE, "keys": _KEYS},
    ),
    Case("attention both ways", Attention(causal=False), _EIGHT, (0,)),
    Case("attention in zigzag order", Attention(order=_ZIGZAG), _EIGHT, (0,)),
    Case(
        "attention in zigzag order with slopes and dropout",
        Attention(alibi=(4, 4), dropout=0.25, label="core", order=_ZIGZAG),
        _EIGHT,
        (0,),
    ),
    Case(
        "attention_grad in zigzag order",
        AttentionGrad(order=_ZIGZAG),
        _attention_grad(Attention(order=_ZIGZAG), drawn=_EIGHT),
        unsplit={"keys": _KEYS},
    ),
    Case(
        "attention_grad",
        AttentionGrad(),
        _attention_grad(Attention()),
        unsplit={"seq": _SHARE, "keys": _KEYS},
    ),
    Case(
        "attention_grad in a window with slopes and dropout",
        AttentionGrad(True, 3, (4, 4), 0.25, "core"),
        _attention_grad(Attention(True, 3, (4, 4), 0.25, "core")),
        unsplit={"seq": _SHARE, "keys": _KEYS},
    ),
    Case(
        "attention_grad both ways",
        AttentionGrad(causal=False),
        _attention_grad(Attention(causal=False), drawn=_EIGHT),
        unsplit={"keys": _KEYS},
    ),
    Case("slice_attention of the first slice", _slice_of(0), _slices(0), (0,), unsplit={"seq": _SHARE}),
    Case("slice_attention", _slice_of(2), _slices(2), (0,)),
    Case(
        "slice_attention in a window with slopes and values of their own",
        SliceAttention(Attention(window=4, alibi=(4, 4), own_values=True), 1),
        _slices(1, own=True),
        (0,),
    ),
    Case(
        "slice_attention_grad",
        SliceAttentionGrad(Attention(), 1),
        _slices_grad(_slice_of(1)),
    ),
    Case("attention_turn", RingAttentionStep(_IN_ORDER, 0, 8, 2, True), _SIXTEEN),
    Case("attention_turn both ways", RingAttentionStep(Attention(causal=False), 1, 8, 2, False), _SIXTEEN),
    Case("attention_turn_grad", RingAttentionStepGrad(_BACK_IN_ORDER, 3, 8, 2, True), _turn_grad),
    Case("merge_turns", MergePartialAttention(), _merged),
    Case("rotary", Rotary((_QUERY, _KEY)), normal((4, 8, 4, 4, 6), (4, 8, 4, 6)), (0, 1)),
    Case(
        "rotary of a third",
        Rotary((_QUERY, _KEY), fraction=0.34),
        normal((4, 8, 4, 4, 6), (4, 8, 4, 6)),
        (0, 1),
    ),
    Case("rotary of one", Rotary((_KEY,), 100.0), normal((4, 8, 4, 6)), (0,)),
    Case("rotary in zigzag order", Rotary((_KEY,), order=_ZIGZAG), normal((4, 8, 4, 6)), (0,)),
    Case(
        "rotary turned back",
        Rotary((_QUERY, _KEY), inverse=True),
        normal((4, 8, 4, 4, 6), (4, 8, 4, 6)),
        (0, 1),
    ),
    Case("relative_bias", RelativeBias(8, 8, 8, True, 6), normal((8, 4, 4)), (0,), reads_part=frozenset({0})),
    Case("relative_bias looking back", RelativeBias(8, 4, 8, False, 6), normal((8, 4, 4)), (0,)),
    Case("relative_bias_grad", RelativeBiasGrad(8, 8, 8, True, 6), normal((4, 4, 8, 8))),
)
