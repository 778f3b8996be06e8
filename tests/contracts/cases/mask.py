"""What fills padding."""

from __future__ import annotations

from simcluster.model.operators.padding_mask import Mask
from tests.contracts.operator_case import Case, normal

_X = ("batch", "seq", "hidden")
_SELECTS = "where there is no padding it changes nothing, but elsewhere a fill that is not zero would add up"

CASES = (
    Case("mask", Mask(_X, ("seq",)), normal((4, 8, 4))),
    Case(
        "mask with the least number",
        Mask(_X, ("batch", "hidden"), float("-inf")),
        normal((4, 8, 4)),
        nonlinear={frozenset({0}): _SELECTS},
    ),
)
