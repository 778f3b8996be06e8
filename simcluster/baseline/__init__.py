"""Regression checks for CI: runs against a saved baseline or a commit, and against the scenarios' own bounds.

report = check(["scenarios/"], "baseline.json", tolerances="step_time=1%")
report = check(["scenarios/"], against="main")
report.passed, report
"""

from typing import TYPE_CHECKING

from simcluster.lazy_exports import exported_lazily

if TYPE_CHECKING:
    from simcluster.baseline.check_format import CheckFormat, check_formats
    from simcluster.baseline.file_search import is_scenario
    from simcluster.baseline.measurement import MeasuredScenario, ScenarioMeasurement, measure_scenario
    from simcluster.baseline.regression_check import check
    from simcluster.baseline.report import CheckReport
    from simcluster.baseline.scenario_bounds import (
        Bound,
        ExpectedVerdict,
        bounds_of,
        check_bounds,
        expected_verdict,
    )
    from simcluster.baseline.tolerance import Tolerances
else:
    __getattr__ = exported_lazily(
        __name__,
        {
            "check_format": "CheckFormat check_formats",
            "file_search": "is_scenario",
            "measurement": "MeasuredScenario ScenarioMeasurement measure_scenario",
            "regression_check": "check",
            "report": "CheckReport",
            "scenario_bounds": "Bound ExpectedVerdict bounds_of check_bounds expected_verdict",
            "tolerance": "Tolerances",
        },
    )

__all__ = [
    "Bound",
    "CheckFormat",
    "CheckReport",
    "ExpectedVerdict",
    "MeasuredScenario",
    "ScenarioMeasurement",
    "Tolerances",
    "bounds_of",
    "check",
    "check_bounds",
    "check_formats",
    "expected_verdict",
    "is_scenario",
    "measure_scenario",
]
