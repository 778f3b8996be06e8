"""Regression checks for CI: runs against a saved baseline, and against the bounds scenarios set themselves.

report = check(["scenarios/"], "baseline.json", tolerances="step_time=1%")
report.passed, report
"""

from typing import TYPE_CHECKING

from simcluster.lazy_exports import exported_lazily

if TYPE_CHECKING:
    from simcluster.baseline.regression_check import check
    from simcluster.baseline.report import CheckReport
    from simcluster.baseline.scenario_bounds import Bound, bounds_of, check_bounds
    from simcluster.baseline.tolerance import Tolerances
else:
    __getattr__ = exported_lazily(
        __name__,
        {
            "regression_check": "check",
            "report": "CheckReport",
            "scenario_bounds": "Bound bounds_of check_bounds",
            "tolerance": "Tolerances",
        },
    )

__all__ = ["Bound", "CheckReport", "Tolerances", "bounds_of", "check", "check_bounds"]
