"""Regression checks for CI: runs against a saved baseline, and against the bounds scenarios set themselves.

report = check(["scenarios/"], "baseline.json", tolerances="step_time=1%")
report.passed, report
"""

from simcluster.baseline.regression_check import check
from simcluster.baseline.report import CheckReport
from simcluster.baseline.scenario_bounds import Bound, bounds_of, check_bounds
from simcluster.baseline.tolerance import Tolerances

__all__ = ["Bound", "CheckReport", "Tolerances", "bounds_of", "check", "check_bounds"]
