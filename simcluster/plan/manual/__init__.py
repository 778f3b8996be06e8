"""Mode ``manual``: a Plan from the program that a user wrote for every rank; MindSpore's hybrid parallel."""

from typing import TYPE_CHECKING

from simcluster.lazy_exports import exported_lazily

if TYPE_CHECKING:
    from simcluster.plan.manual.manual_planner import ManualPlanner
else:
    __getattr__ = exported_lazily(
        __name__,
        {
            "manual_planner": "ManualPlanner",
        },
    )

__all__ = ["ManualPlanner"]
