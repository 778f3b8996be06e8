"""Matrix products."""

from __future__ import annotations

from simcluster.model.operators.matmul import Matmul, MatmulSum
from tests.contracts.operator_case import Case, normal

_HIDDEN = ("batch", "seq", "hidden")
_QUERY = ("batch", "seq", "heads", "group", "head_dim")
_KEY = ("batch", "seq", "heads", "head_dim")
_WQ = ("hidden", "heads", "group", "head_dim")
_WK = ("hidden", "heads", "head_dim")
_X, _Q, _K = (4, 4, 8), (4, 4, 4, 4, 4), (4, 4, 4, 4)
_W1, _W2 = (8, 4, 4, 4), (8, 4, 4)
_TERMWISE = "one operand of each term: no gradient is partial that way"


CASES = (
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
        "matmul of batches, both transposed",
        Matmul(
            ("batch", "heads", "k", "m"), (("batch", "heads", "n", "k"),), (("batch", "heads", "m", "n"),)
        ),
        normal((4, 4, 8, 4), (4, 4, 8, 8)),
        (0,),
    ),
    Case(
        "matmul of batches with one matrix for all",
        Matmul(("k", "m"), (("batch", "k", "n"),), (("batch", "m", "n"),)),
        normal((8, 4), (4, 8, 8)),
        (0,),
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
)
