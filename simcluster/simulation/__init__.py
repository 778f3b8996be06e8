"""Scenario -> Run, and verify: the one composition of all packages below."""

from typing import TYPE_CHECKING

from simcluster.lazy_exports import exported_lazily

if TYPE_CHECKING:
    from simcluster.simulation.compose import BuiltScenario, build_scenario
    from simcluster.simulation.jobs import launch_document, launcher_file
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
else:
    __getattr__ = exported_lazily(
        __name__,
        {
            "compose": "BuiltScenario build_scenario",
            "jobs": "launch_document launcher_file",
            "run_scenario": "simulate",
            "verification": "Verification verify",
            "views": "Entry GraphPiece Operand ShardedGraph effective_strategies_of "
            "layouts_after layouts_document planned_documents predict_layouts",
        },
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
    "launch_document",
    "launcher_file",
    "layouts_after",
    "layouts_document",
    "planned_documents",
    "predict_layouts",
    "simulate",
    "verify",
]
