"""Reductions over any dims, softmax over one, and what spreads again."""

from __future__ import annotations

from simcluster.model.operators.min_max import Extreme
from simcluster.model.operators.reduction import Spread, SumTo
from simcluster.model.operators.softmax import SoftmaxOver, SoftmaxOverGrad
from simcluster.model.operators.top_k import TopK, TopKGrad
from tests.contracts.operator_case import WHOLE, Case, Draw, normal

_HIDDEN = ("batch", "seq", "hidden")
_KEY = ("batch", "seq", "heads", "head_dim")
_FLAT = ("batch", "one", "hidden")
_X = (4, 8, 4)
_ONE = frozenset({"one"})


def _softmax_grad(operator: SoftmaxOver, shape: tuple[int, ...]) -> Draw:
    def draw(rng):
        x, dy = normal(shape, shape)(rng)
        return (*operator.evaluate((x,), WHOLE), dy)

    return draw


def _top_k_grad(rng):
    (x,) = normal((4, 8, 8))(rng)
    values, ids = TopK(_HIDDEN, 2, 8, 4).evaluate((x,), WHOLE)
    return ids, rng.standard_normal(values.shape)


CASES = (
    Case("sum_to", SumTo(_HIDDEN, ("hidden",)), normal(_X)),
    Case("sum_to of two dims", SumTo(_KEY, ("heads", "head_dim")), normal((4, 8, 4, 8))),
    Case("sum", SumTo.of(_HIDDEN, ("batch",), _X), normal(_X), (0,)),
    Case("sum of everything", SumTo.of(_HIDDEN, (), _X), normal(_X), (0,)),
    Case("mean", SumTo.of(_HIDDEN, ("batch", "hidden"), _X, mean=True), normal(_X), (0,)),
    Case(
        "mean that leaves a one",
        SumTo.of(_HIDDEN, _FLAT, _X, mean=True),
        normal(_X),
        (0,),
        odd=_ONE,
    ),
    Case("spread", Spread(("batch", "hidden"), _HIDDEN, _X, 0.5), normal((4, 4)), (0,)),
    Case("spread of a one", Spread(_FLAT, _HIDDEN, _X), normal((4, 1, 4)), (0,), odd=_ONE),
    Case("max", Extreme(_HIDDEN, ("batch",)), normal(_X), (0,)),
    Case("max that leaves a one", Extreme(_HIDDEN, ("batch", "seq", "one")), normal(_X), (0,), odd=_ONE),
    Case("min", Extreme(_HIDDEN, ("seq", "hidden"), "min"), normal(_X), (0,)),
    Case("softmax over the last", SoftmaxOver(_HIDDEN, "hidden"), normal(_X), (0,)),
    Case("softmax over a dim between", SoftmaxOver(_HIDDEN, "seq"), normal(_X), (0,)),
    Case("log-softmax", SoftmaxOver(_HIDDEN, "hidden", log=True), normal(_X), (0,)),
    Case(
        "softmax_over_grad",
        SoftmaxOverGrad(_HIDDEN, "hidden"),
        _softmax_grad(SoftmaxOver(_HIDDEN, "hidden"), _X),
    ),
    Case(
        "log-softmax grad",
        SoftmaxOverGrad(_HIDDEN, "seq", log=True),
        _softmax_grad(SoftmaxOver(_HIDDEN, "seq", log=True), _X),
    ),
    Case("top_k", TopK(_HIDDEN, 2, 4, 2), normal(_X), (0,)),
    Case("top_k of the smallest", TopK(_HIDDEN, 1, 8, 4, largest=False), normal(_X), (0,)),
    Case("top_k_grad", TopKGrad(_HIDDEN, 2, 8, 4), _top_k_grad),
)
