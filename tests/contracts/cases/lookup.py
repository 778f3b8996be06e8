"""Table lookups, and what picks or puts tokens."""

from __future__ import annotations

from simcluster.model.operators.embedding import (
    Embedding,
    EmbeddingGrad,
    PositionRows,
    Positions,
    PositionsGrad,
)
from simcluster.model.operators.gather import First, FirstGrad, Gather, GatherGrad
from simcluster.model.operators.prepend import Prepend, PrependGrad
from tests.contracts.operator_case import Case, ids_and, normal

_ONCE = "a bias is added once, after the reduction (DESIGN 4.2)"


CASES = (
    Case("embedding", Embedding(), ids_and((4, 8), 12, (12, 4)), (0,), reads_part=frozenset({1})),
    Case(
        "embedding of one id each",
        Embedding(("batch",), ("rows", "columns")),
        ids_and((8,), 12, (12, 4)),
        (0,),
        reads_part=frozenset({1}),
    ),
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
    Case(
        "position_rows of hidden states from the third on",
        PositionRows(position=2, of_states=True),
        normal((4, 8, 4), (10, 4)),
        (0,),
        reads_part=frozenset({0, 1}),
        untrained=frozenset({0}),
    ),
    Case("positions_grad", PositionsGrad(), normal((4, 8, 4), (10, 4)), reads_part=frozenset({1})),
    Case("gather", Gather(8), ids_and((4, 4), 8, (4, 8, 4)), (0,), reads_part=frozenset({1})),
    Case("gather_grad", GatherGrad(8), ids_and((4, 4), 8, (4, 4, 4))),
    Case("first", First(8), normal((4, 8, 4)), (0,), reads_part=frozenset({0})),
    Case("first_grad", FirstGrad(8), normal((4, 4))),
    Case("prepend", Prepend(), normal((4, 7, 4), (4,)), (0,), odd=frozenset({"patches"})),
    Case("prepend_grad", PrependGrad(), normal((4, 8, 4)), odd=frozenset({"patches"})),
)
