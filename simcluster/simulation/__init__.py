"""Scenario -> Run, and verify: the one composition of all rooms below."""

from simcluster.analysis import ANSWER_METRICS, METRICS, SHARED_METRICS
from simcluster.simulation.compose import Built, prepare
from simcluster.simulation.run_scenario import simulate
from simcluster.simulation.verification import Verification, verify
from simcluster.simulation.views import (
    Entry,
    GraphPiece,
    Operand,
    ShardedGraph,
    layouts,
    planned,
    predicted,
    strategies,
)

__all__ = [
    "ANSWER_METRICS",
    "METRICS",
    "SHARED_METRICS",
    "Built",
    "Entry",
    "GraphPiece",
    "Operand",
    "ShardedGraph",
    "Verification",
    "layouts",
    "planned",
    "predicted",
    "prepare",
    "simulate",
    "strategies",
    "verify",
]
