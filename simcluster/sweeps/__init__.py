"""Many variations of one scenario, simulated on an executor: a row of figures for each, and what is best."""

from typing import TYPE_CHECKING

from simcluster.lazy_exports import exported_lazily

if TYPE_CHECKING:
    from simcluster.sweeps.figures import OBJECTIVES, SweepFigure, objective_of
    from simcluster.sweeps.ranked_points import RankedPoints
    from simcluster.sweeps.result import SweepResult
    from simcluster.sweeps.sweep_files import SweepFile, open_journal
    from simcluster.sweeps.sweep_run import SweepRun
    from simcluster.sweeps.table import sweep_text
    from simcluster.sweeps.value_check import check_values
    from simcluster.sweeps.variation import SweepSpace, Variation
else:
    __getattr__ = exported_lazily(
        __name__,
        {
            "figures": "OBJECTIVES SweepFigure objective_of",
            "ranked_points": "RankedPoints",
            "result": "SweepResult",
            "sweep_files": "SweepFile open_journal",
            "sweep_run": "SweepRun",
            "table": "sweep_text",
            "value_check": "check_values",
            "variation": "SweepSpace Variation",
        },
    )

__all__ = [
    "OBJECTIVES",
    "RankedPoints",
    "SweepFigure",
    "SweepFile",
    "SweepResult",
    "SweepRun",
    "SweepSpace",
    "Variation",
    "check_values",
    "objective_of",
    "open_journal",
    "sweep_text",
]
