"""What only arranges elements anew: transposes, reshapes, parts, margins, one-hot rows."""

from __future__ import annotations

from simcluster.model.operators.concat import Concat, PlacedParts, Split
from simcluster.model.operators.one_hot import OneHot
from simcluster.model.operators.reshape import Reshape
from simcluster.model.operators.slice import Pad, Slice
from simcluster.model.operators.transpose import Transpose
from simcluster.work import DType
from tests.contracts.operator_case import Case, ids_and, normal

_HIDDEN = ("batch", "seq", "hidden")
_X = (4, 8, 4)
_ONE = frozenset({"one"})
_CUT = ((1, 2, 3, 2),)
_CUTS = ((1, 2, 1, 4), (2, 1, 1, 2))


def _reshaped(name, labels, shape, result, **more):
    operator = Reshape.of(labels, shape, result)
    shared = set(operator.labels) & set(operator.result)
    sizes = [
        dict(zip(names, each, strict=True))
        for names, each in ((operator.labels, shape), (operator.result, result))
    ]
    resized = frozenset(each for each in shared if sizes[0][each] != sizes[1][each])
    return Case(name, operator, normal(shape), (0,), resized=resized, views=True, **more)


CASES = (
    Case("transpose", Transpose(_HIDDEN, (2, 0, 1)), normal(_X), (0,)),
    Case(
        "transpose with a one",
        Transpose(("batch", "one", "hidden"), (0, 2, 1)),
        normal((4, 1, 8)),
        (0,),
        odd=_ONE,
    ),
    _reshaped("reshape that merges", ("batch", "heads", "head_dim"), (4, 8, 4), (4, 32)),
    _reshaped("reshape that divides", ("batch", "hidden"), (4, 32), (4, 4, 8)),
    _reshaped("reshape of every dim", ("batch", "seq", "hidden"), (4, 2, 8), (8, 8)),
    _reshaped("reshape of merged and divided dims", ("batch", "rows", "columns"), (4, 8, 6), (4, 12, 4)),
    _reshaped("reshape that adds a one", ("batch", "hidden"), (4, 8), (4, 1, 8), odd=_ONE),
    _reshaped("reshape that removes a one", ("batch", "one", "hidden"), (4, 1, 8), (4, 8), odd=_ONE),
    Case("concat", Concat(_HIDDEN, 1, (2, 4)), normal((4, 2, 4), (4, 4, 4)), (0,)),
    Case("concat of three", Concat(_HIDDEN, 2, (2, 2, 4)), normal((4, 8, 2), (4, 8, 2), (4, 8, 4)), (0,)),
    Case("split", Split(_HIDDEN, 2, (4, 2)), normal((4, 8, 6)), (0, 1)),
    Case("placed_parts", PlacedParts(_HIDDEN, 2, (4, 2, 2), (0, 2)), normal((4, 8, 4), (4, 8, 2))),
    Case("slice", Slice(_HIDDEN, _X, _CUT), normal(_X), (0,), reads_part=frozenset({0})),
    Case("slice along two dims", Slice(_HIDDEN, _X, _CUTS), normal(_X), (0,), reads_part=frozenset({0})),
    Case("pad", Pad(_HIDDEN, _X, _CUT), normal((4, 2, 4)), (0,)),
    Case("pad with ones", Pad(_HIDDEN, _X, _CUTS, 1.0), normal((4, 4, 2)), (0,)),
    Case("one_hot", OneHot(("batch", "seq"), 8, DType.BF16), ids_and((4, 8), 8)),
)
