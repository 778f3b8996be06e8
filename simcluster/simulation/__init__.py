"""Scenario -> Run, and verify: the one composition of all packages below."""

from typing import TYPE_CHECKING

from simcluster.lazy_exports import exported_lazily

if TYPE_CHECKING:
    from simcluster.simulation.checkpoints import (
        CheckpointCosts,
        group_file_of,
        load_for_inference,
        price_checkpoints,
        resume_checkpoint,
        save_small_run,
        source_slices_of,
        strategy_file_of,
        transform_checkpoint,
        transform_document,
    )
    from simcluster.simulation.compose import BuiltScenario, build_scenario
    from simcluster.simulation.given_scenarios import GivenScenario, scenario_of
    from simcluster.simulation.jobs import launch_document, launcher_file
    from simcluster.simulation.other_hardware import scaled_step
    from simcluster.simulation.run_scenario import run_built, simulate
    from simcluster.simulation.verification import Verification, verify
    from simcluster.simulation.views import (
        BandTable,
        Entry,
        ErrorBand,
        GraphPiece,
        Operand,
        RunKind,
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
            "checkpoints": "CheckpointCosts price_checkpoints group_file_of load_for_inference "
            "resume_checkpoint save_small_run source_slices_of strategy_file_of "
            "transform_checkpoint transform_document",
            "compose": "BuiltScenario build_scenario",
            "given_scenarios": "GivenScenario scenario_of",
            "jobs": "launch_document launcher_file",
            "other_hardware": "scaled_step",
            "run_scenario": "run_built simulate",
            "verification": "Verification verify",
            "views": "BandTable Entry ErrorBand GraphPiece Operand RunKind ShardedGraph "
            "effective_strategies_of layouts_after layouts_document planned_documents predict_layouts",
        },
    )

__all__ = [
    "BandTable",
    "BuiltScenario",
    "CheckpointCosts",
    "Entry",
    "ErrorBand",
    "GivenScenario",
    "GraphPiece",
    "Operand",
    "RunKind",
    "ShardedGraph",
    "Verification",
    "build_scenario",
    "effective_strategies_of",
    "group_file_of",
    "launch_document",
    "launcher_file",
    "layouts_after",
    "layouts_document",
    "load_for_inference",
    "planned_documents",
    "predict_layouts",
    "price_checkpoints",
    "resume_checkpoint",
    "run_built",
    "save_small_run",
    "scaled_step",
    "scenario_of",
    "simulate",
    "source_slices_of",
    "strategy_file_of",
    "transform_checkpoint",
    "transform_document",
    "verify",
]
