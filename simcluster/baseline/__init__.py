"""Regression checks for CI: runs against a saved baseline, and against the bounds scenarios set themselves.

report = check(["scenarios/"], "baseline.json", tolerances="step_time=1%")
report.passed, report
"""

from simcluster.baseline.bounds import Bound, bounds, judged
from simcluster.baseline.check import check
from simcluster.baseline.report import CheckReport
from simcluster.baseline.tolerance import Tolerances

__all__ = ["Bound", "CheckReport", "Tolerances", "bounds", "check", "judged"]
