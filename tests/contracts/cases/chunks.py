"""What cuts a rank's part of a tensor into chunks, and puts them together."""

from __future__ import annotations

from simcluster.model.operators.chunks import JoinChunks, SplitChunks
from tests.contracts.operator_case import Case, normal

_X = ("batch", "seq", "hidden")

CASES = (
    Case("two chunks", SplitChunks(_X, 1, 2), normal((4, 8, 4)), views=True),
    Case("chunks of four runs", SplitChunks(_X, 1, 2, 4), normal((4, 8, 4)), views=True),
    Case("two chunks together", JoinChunks(_X, 1, 2), normal((4, 4, 4), (4, 4, 4)), views=True),
    Case("runs together", JoinChunks(_X, 1, 2, 4), normal((4, 4, 4), (4, 4, 4)), views=True),
)
