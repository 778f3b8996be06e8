"""One or more cases for every registered operator kind.

Every dim that may be split has a size that divides by 4, so that both axes of a 2 x 2 mesh fit on it. What
is declared unsplittable has an even size, so that a split that would have been right can be found.
"""

from __future__ import annotations

import numpy as np

from simcluster.model import Operator
from simcluster.model.operators.activation import (
    Geglu,
    GegluGrad,
    Gelu,
    GeluGrad,
    Relu,
    ReluGrad,
    SquaredRelu,
    SquaredReluGrad,
    Swiglu,
    SwigluGrad,
    Tanh,
    TanhGrad,
)
from simcluster.model.operators.attention import Attention, AttentionGrad
from simcluster.model.operators.cast import Cast
from simcluster.model.operators.clip import ClipFactor, ScaleGradient, SumOfSquares
from simcluster.model.operators.cross_entropy import (
    CrossEntropy,
    CrossEntropyGrad,
    JoinLoss,
    LogitsExpSum,
    LogitsMax,
    TargetLogit,
)
from simcluster.model.operators.dropout import Dropout, DropoutGrad
from simcluster.model.operators.embedding import (
    Embedding,
    EmbeddingGrad,
    PositionRows,
    Positions,
    PositionsGrad,
)
from simcluster.model.operators.fp8 import E5M2, Fp8Cast
from simcluster.model.operators.gather import First, FirstGrad, Gather, GatherGrad
from simcluster.model.operators.lamb import Lamb, LambDirection, LambStep
from simcluster.model.operators.matmul import Matmul, MatmulSum
from simcluster.model.operators.norm import LayerNorm, LayerNormGrad, RmsNorm, RmsNormGrad
from simcluster.model.operators.optimizer import Adam, AdamW, Momentum, Sgd
from simcluster.model.operators.pointwise import Accumulate, Add, Bias, SumTo
from simcluster.model.operators.prepend import Prepend, PrependGrad
from simcluster.model.operators.relative_bias import RelativeBias, RelativeBiasGrad
from simcluster.model.operators.rotary import Rotary
from simcluster.model.operators.softmax import Softmax, SoftmaxGrad
from simcluster.model.scores import LABELS as SCORES
from simcluster.model.scores import Scores
from simcluster.registry import kinds
from simcluster.work import DType
from tests.contracts import moe_cases
from tests.contracts.operator_case import WHOLE, Case, Draw


def normal(*shapes: tuple[int, ...]) -> Draw:
    """Standard normal arrays of these shapes."""
    return lambda rng: tuple(np.asarray(rng.standard_normal(shape)) for shape in shapes)


def ids_and(shape: tuple[int, ...], below: int, *shapes: tuple[int, ...]) -> Draw:
    """Token ids first, then normal arrays."""
    return lambda rng: (rng.integers(0, below, shape), *(rng.standard_normal(each) for each in shapes))


def optimizer_state(count: int) -> Draw:
    """Weights, gradient and ``count`` states; the second state is a mean of squares and so not negative."""

    def draw(rng):
        arrays = rng.standard_normal((2 + count, 16))
        arrays[3:] **= 2
        return tuple(arrays)

    return draw


def _squares(rng):
    return (np.asarray(np.square(rng.standard_normal(()))),)


def _lamb_step(rng):
    weights, direction = rng.standard_normal((2, 16))
    return weights, direction, np.asarray((weights**2).sum()), np.asarray((direction**2).sum())


def _attention_grad(operator: Attention, *bias: tuple[int, ...]) -> Draw:
    def draw(rng):
        q, k, v = _QKV(rng)
        added = normal(*bias)(rng)
        made = operator.evaluate((q, k, v, *added), WHOLE)
        return (q, k, v, *made, rng.standard_normal(q.shape), *added)

    return draw


def _masked(*shape: int) -> Draw:
    return lambda rng: (rng.standard_normal(shape), rng.integers(0, 2, shape).astype(np.uint8))


def _softmax_grad(rng):
    (scores, dy) = normal(_SCORES, _SCORES)(rng)
    return (*Softmax().evaluate((scores,), WHOLE), dy)


def _norm_grad(operator: RmsNorm | LayerNorm, num_weights: int) -> Draw:
    def draw(rng):
        x, *weights = normal((4, 8, 6), *((6,),) * num_weights)(rng)
        statistics = operator.evaluate((x, *weights), WHOLE)[1:]
        return (x, *statistics, weights[0], rng.standard_normal(x.shape))

    return draw


def _targets_last(rng):
    ids, logits = ids_and((4, 4), 8, (4, 4, 8))(rng)
    return logits, ids


def _cross_entropy_grad(rng):
    logits, ids = _targets_last(rng)
    return logits, ids, np.log(np.exp(logits).sum(axis=-1))


def _exp_sum(rng):
    (logits,) = normal((4, 4, 8))(rng)
    return logits, logits.max(axis=-1)


def _join(rng):
    peak, total, target = normal((4, 4), (4, 4), (4, 4))(rng)
    return peak, np.exp(total), target


_HIDDEN = ("batch", "seq", "hidden")
_QUERY = ("batch", "seq", "heads", "group", "head_dim")
_KEY = ("batch", "seq", "heads", "head_dim")
_WQ = ("hidden", "heads", "group", "head_dim")
_WK = ("hidden", "heads", "head_dim")
_QKV = normal((4, 6, 4, 4, 2), (4, 6, 4, 2), (4, 6, 4, 2))
_SCORES = (4, 4, 4, 4, 4)
_ALIBI = {"alibi": (4, 4)}
_X, _Q, _K = (4, 4, 8), (4, 4, 4, 4, 4), (4, 4, 4, 4)
_W1, _W2 = (8, 4, 4, 4), (8, 4, 4)

_SHARE = "a slice of causal queries computes rightly but does more or less work than another"
_NO_CONTEXT = "splitting it where attention looks both ways waits for context parallelism"
_ONCE = "a bias is added once, after the reduction (DESIGN 4.2)"
_TERMWISE = "one operand of each term: no gradient is partial that way"
_NEVER = "what is updated is reduced before: an update reads every element once, nothing gets smaller"

_CASES = (
    Case("add", Add(_HIDDEN), normal((4, 8, 4), (4, 8, 4)), (0,)),
    Case("add of three", Add(("x",), 3), normal((8,), (8,), (8,)), (0,)),
    Case("accumulate", Accumulate(_HIDDEN), normal((4, 8, 4))),
    Case(
        "bias",
        Bias(_HIDDEN, ("hidden",)),
        normal((4, 4, 8), (8,)),
        (0,),
        nonlinear={frozenset({0, 1}): _ONCE},
    ),
    Case(
        "bias over heads",
        Bias(_KEY, ("heads", "head_dim")),
        normal((4, 8, 4, 8), (4, 8)),
        (0,),
        nonlinear={frozenset({0, 1}): _ONCE},
    ),
    Case("sum_to", SumTo(_HIDDEN, ("hidden",)), normal((4, 8, 4))),
    Case("sum_to of two dims", SumTo(_KEY, ("heads", "head_dim")), normal((4, 8, 4, 8))),
    Case("gelu", Gelu(_HIDDEN), normal((4, 8, 4)), (0,)),
    Case("gelu_grad", GeluGrad(_HIDDEN), normal((4, 8, 4), (4, 8, 4))),
    Case("swiglu", Swiglu(_HIDDEN), normal((4, 8, 4), (4, 8, 4)), (0,)),
    Case("swiglu_grad", SwigluGrad(_HIDDEN), normal((4, 8, 4), (4, 8, 4), (4, 8, 4))),
    Case("geglu", Geglu(_HIDDEN), normal((4, 8, 4), (4, 8, 4)), (0,)),
    Case("geglu_grad", GegluGrad(_HIDDEN), normal((4, 8, 4), (4, 8, 4), (4, 8, 4))),
    Case("relu", Relu(_HIDDEN), normal((4, 8, 4)), (0,)),
    Case("relu_grad", ReluGrad(_HIDDEN), normal((4, 8, 4), (4, 8, 4))),
    Case("squared_relu", SquaredRelu(_HIDDEN), normal((4, 8, 4)), (0,)),
    Case("squared_relu_grad", SquaredReluGrad(_HIDDEN), normal((4, 8, 4), (4, 8, 4))),
    Case("cast", Cast(_HIDDEN, DType.FP32, DType.BF16), normal((4, 8, 4)), (0,)),
    Case("dropout", Dropout(_HIDDEN, 0.25, "here"), normal((4, 8, 4)), (0,)),
    Case("dropout of scores", Dropout(SCORES, 0.5, "there"), normal(_SCORES), (0,)),
    Case("dropout_grad", DropoutGrad(_HIDDEN, 0.25), _masked(4, 8, 4)),
    Case("softmax", Softmax(0.5), normal(_SCORES), (0,)),
    Case("softmax both ways", Softmax(0.5, Scores(causal=False)), normal(_SCORES), (0,)),
    Case("softmax in a window with slopes", Softmax(2.0, Scores(True, 2, (4, 4))), normal(_SCORES), (0,)),
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
        lambda rng: (*_QKV(rng), rng.standard_normal((4, 4, 6, 6))),
        (0,),
        unsplit={"seq": _NO_CONTEXT},
    ),
    Case(
        "attention_grad with a bias",
        AttentionGrad(scale=1.0, biased=True),
        _attention_grad(Attention(scale=1.0, biased=True), (4, 4, 6, 6)),
        unsplit={"seq": _SHARE},
    ),
    Case("attention both ways", Attention(causal=False), _QKV, (0,), unsplit={"seq": _NO_CONTEXT}),
    Case("attention_grad", AttentionGrad(), _attention_grad(Attention()), unsplit={"seq": _SHARE}),
    Case(
        "attention_grad in a window with slopes and dropout",
        AttentionGrad(True, 3, (4, 4), 0.25, "core"),
        _attention_grad(Attention(True, 3, (4, 4), 0.25, "core")),
        unsplit={"seq": _SHARE},
    ),
    Case(
        "attention_grad both ways",
        AttentionGrad(causal=False),
        _attention_grad(Attention(causal=False)),
        unsplit={"seq": _NO_CONTEXT, "keys": _NO_CONTEXT},
    ),
    Case(
        "matmul", Matmul(_HIDDEN, (("hidden", "ffn"),), (("batch", "seq", "ffn"),)), normal(_X, (8, 4)), (0,)
    ),
    Case(
        "matmul by a transposed weight",
        Matmul(_HIDDEN, (("vocab", "hidden"),), (("batch", "seq", "vocab"),)),
        normal(_X, (12, 8)),
        (0,),
    ),
    Case(
        "matmul over heads", Matmul(_QUERY, (_WQ[1:] + _WQ[:1],), (_HIDDEN,)), normal(_Q, (4, 4, 4, 8)), (0,)
    ),
    Case(
        "matmul of every head",
        Matmul(_KEY, (("heads", "head_dim", "rank"),), (("batch", "seq", "heads", "rank"),)),
        normal(_K, (4, 4, 8)),
        (0,),
    ),
    Case(
        "matmul to queries, keys and values",
        Matmul(_HIDDEN, (_WQ, _WK, _WK), (_QUERY, _KEY, _KEY)),
        normal(_X, _W1, _W2, _W2),
        (0, 1, 2),
    ),
    Case(
        "matmul to the gradients of three weights",
        Matmul(_HIDDEN, (_QUERY, _KEY, _KEY), (_WQ, _WK, _WK)),
        normal(_X, _Q, _K, _K),
        (0, 1, 2),
    ),
    Case(
        "matmul_sum of one",
        MatmulSum((_HIDDEN,), (("ffn", "hidden"),), ("batch", "seq", "ffn")),
        normal(_X, (4, 8)),
    ),
    Case(
        "matmul_sum of two",
        MatmulSum((_HIDDEN, _HIDDEN), (("ffn", "hidden"),) * 2, ("batch", "seq", "ffn")),
        normal(_X, _X, (4, 8), (4, 8)),
        nonlinear={frozenset({0, 3}): _TERMWISE, frozenset({1, 2}): _TERMWISE},
    ),
    Case(
        "matmul_sum of queries, keys and values",
        MatmulSum((_QUERY, _KEY, _KEY), (_WQ, _WK, _WK), _HIDDEN),
        normal(_Q, _K, _K, _W1, _W2, _W2),
        nonlinear={
            frozenset(chosen): _TERMWISE
            for chosen in ((0, 1, 5), (0, 4, 2), (0, 4, 5), (3, 1, 2), (3, 1, 5), (3, 4, 2))
        },
    ),
    Case("rotary", Rotary((_QUERY, _KEY)), normal((4, 8, 4, 4, 6), (4, 8, 4, 6)), (0, 1)),
    Case(
        "rotary of a third",
        Rotary((_QUERY, _KEY), fraction=0.34),
        normal((4, 8, 4, 4, 6), (4, 8, 4, 6)),
        (0, 1),
    ),
    Case("rotary of one", Rotary((_KEY,), 100.0), normal((4, 8, 4, 6)), (0,)),
    Case(
        "rotary turned back",
        Rotary((_QUERY, _KEY), inverse=True),
        normal((4, 8, 4, 4, 6), (4, 8, 4, 6)),
        (0, 1),
    ),
    Case("embedding", Embedding(), ids_and((4, 8), 12, (12, 4)), (0,), reads_part=frozenset({1})),
    Case(
        "embedding_grad",
        EmbeddingGrad(),
        ids_and((4, 8), 12, (4, 8, 4), (12, 4)),
        reads_part=frozenset({2}),
        writes_part=frozenset({0}),
    ),
    Case(
        "positions",
        Positions(),
        normal((4, 8, 4), (10, 4)),
        (0,),
        nonlinear={frozenset({0, 1}): _ONCE},
        reads_part=frozenset({1}),
    ),
    Case(
        "positions from the third row",
        Positions(2),
        normal((4, 8, 4), (10, 4)),
        (0,),
        nonlinear={frozenset({0, 1}): _ONCE},
        reads_part=frozenset({1}),
    ),
    Case("position_rows", PositionRows(), ids_and((4, 8), 12, (10, 4)), (0,), reads_part=frozenset({1})),
    Case("positions_grad", PositionsGrad(), normal((4, 8, 4), (10, 4)), reads_part=frozenset({1})),
    Case("gather", Gather(8), ids_and((4, 4), 8, (4, 8, 4)), (0,), reads_part=frozenset({1})),
    Case("gather_grad", GatherGrad(8), ids_and((4, 4), 8, (4, 4, 4))),
    Case("first", First(8), normal((4, 8, 4)), (0,), reads_part=frozenset({0})),
    Case("first_grad", FirstGrad(8), normal((4, 4))),
    Case("relative_bias", RelativeBias(8, 8, 8, True, 6), normal((8, 4, 4)), (0,), reads_part=frozenset({0})),
    Case("relative_bias looking back", RelativeBias(8, 4, 8, False, 6), normal((8, 4, 4)), (0,)),
    Case("relative_bias_grad", RelativeBiasGrad(8, 8, 8, True, 6), normal((4, 4, 8, 8))),
    Case("prepend", Prepend(), normal((4, 7, 4), (4,)), (0,), odd=frozenset({"patches"})),
    Case("prepend_grad", PrependGrad(), normal((4, 8, 4)), odd=frozenset({"patches"})),
    Case("tanh", Tanh(_HIDDEN), normal((4, 8, 4)), (0,)),
    Case("tanh_grad", TanhGrad(_HIDDEN), normal((4, 8, 4), (4, 8, 4))),
    Case(
        "cross_entropy of samples",
        CrossEntropy(1 / 16, ("batch", "classes")),
        lambda rng: ids_and((16,), 8, (16, 8))(rng)[::-1],
        (0,),
        loss=True,
    ),
    Case("cross_entropy", CrossEntropy(1 / 16), _targets_last, (0,), loss=True),
    Case("cross_entropy_grad", CrossEntropyGrad(1 / 16), _cross_entropy_grad),
    Case("logits_max", LogitsMax(), normal((4, 4, 8))),
    Case("logits_exp_sum", LogitsExpSum(), _exp_sum),
    Case("target_logit", TargetLogit(), _targets_last, reads_part=frozenset({0})),
    Case("join_loss", JoinLoss(1 / 16), _join),
    Case("rms_norm", RmsNorm(_HIDDEN), normal((4, 8, 6), (6,)), (0,)),
    Case("rms_norm_grad", RmsNormGrad(_HIDDEN), _norm_grad(RmsNorm(_HIDDEN), 1)),
    Case("layer_norm", LayerNorm(_HIDDEN), normal((4, 8, 6), (6,), (6,)), (0,)),
    Case("layer_norm_grad", LayerNormGrad(_HIDDEN), _norm_grad(LayerNorm(_HIDDEN), 2)),
    Case("layer_norm without bias", LayerNorm(_HIDDEN, bias=False), normal((4, 8, 6), (6,)), (0,)),
    Case(
        "layer_norm_grad without bias",
        LayerNormGrad(_HIDDEN, bias=False),
        _norm_grad(LayerNorm(_HIDDEN, bias=False), 1),
    ),
    Case("rms_norm of heads", RmsNorm(_QUERY), normal((4, 4, 4, 4, 6), (6,)), (0,)),
    Case("sgd", Sgd(weight_decay=0.1), optimizer_state(0), nonlinear={frozenset({0, 1}): _NEVER}),
    Case(
        "momentum", Momentum(weight_decay=0.1), optimizer_state(1), nonlinear={frozenset({0, 1, 2}): _NEVER}
    ),
    Case("adam", Adam(weight_decay=0.1), optimizer_state(2)),
    Case("adamw", AdamW(weight_decay=0.1), optimizer_state(2)),
    Case("adamw with a master copy", AdamW(weight_decay=0.1, cast=DType.BF16), optimizer_state(2)),
    Case("lamb", Lamb(weight_decay=0.1), optimizer_state(2)),
    Case("lamb with a master copy", Lamb(weight_decay=0.1, cast=DType.BF16), optimizer_state(2)),
    Case("lamb_direction", LambDirection(0.1, 0.9, 0.999, 1e-8), optimizer_state(2)),
    Case("lamb_step", LambStep(0.1), _lamb_step, nonlinear={frozenset({0, 1}): _NEVER}),
    Case(
        "lamb_step with a master copy",
        LambStep(0.1, cast=DType.BF16),
        _lamb_step,
        nonlinear={frozenset({0, 1}): _NEVER},
    ),
    Case("sum_of_squares", SumOfSquares(), normal((16,))),
    Case("sum_of_squares of two", SumOfSquares(2), normal((16,), (16,))),
    Case("clip_factor", ClipFactor(0.1), _squares),
    Case("scale_gradient", ScaleGradient(), normal((16,), ())),
    Case("fp8_cast", Fp8Cast(_HIDDEN), normal((4, 8, 4))),
    Case("fp8_cast of a gradient", Fp8Cast(_KEY, E5M2, copies=2), normal((4, 8, 4, 8))),
    *moe_cases.CASES,
)


def registered() -> dict[str, type[Operator]]:
    """Every operator kind that is shipped or installed."""
    return kinds("simcluster.model.operators", Operator)


def cases() -> tuple[Case, ...]:
    """All cases, in order."""
    return _CASES


def cases_of(kind: str) -> tuple[Case, ...]:
    """The cases of one kind; an error that says where to write one if there is none."""
    found = tuple(case for case in _CASES if case.operator.kind == kind)
    if not found:
        raise AssertionError(f"operator kind '{kind}' has no case: add one to _CASES in {__file__}")
    return found
