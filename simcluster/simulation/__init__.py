"""Scenario -> Run, and verify: the one composition of all packages below."""

from simcluster.simulation.compose import BuiltScenario, build_scenario
from simcluster.simulation.run_scenario import simulate
from simcluster.simulation.verification import Verification, verify
from simcluster.simulation.views import (
    Entry,
    GraphPiece,
    Operand,
    ShardedGraph,
    effective_strategies_of,
    layouts_after,
    layouts_document,
    planned_documents,
    predict_layouts,
)

__all__ = [
    "BuiltScenario",
    "Entry",
    "GraphPiece",
    "Operand",
    "ShardedGraph",
    "Verification",
    "build_scenario",
    "effective_strategies_of",
    "layouts_after",
    "layouts_document",
    "planned_documents",
    "predict_layouts",
    "simulate",
    "verify",
]
