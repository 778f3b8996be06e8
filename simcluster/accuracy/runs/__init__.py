"""Published training runs beside their prediction, row by row.

predictions = predict_runs(read_runs("training.csv"))
print(runs_text(predictions))
"""

from simcluster.accuracy.runs.error_band_coverage import band_table, coverage
from simcluster.accuracy.runs.error_picture import runs_html
from simcluster.accuracy.runs.grouping import RunGrouping
from simcluster.accuracy.runs.predict import RunFigure, RunPrediction, predict_runs
from simcluster.accuracy.runs.report import runs_csv, runs_markdown, runs_text
from simcluster.accuracy.runs.rows import COLUMNS, MeasuredRun, read_runs
from simcluster.accuracy.runs.scenarios import RunScenario, run_scenario_yaml, scenario_of

__all__ = [
    "COLUMNS",
    "MeasuredRun",
    "RunFigure",
    "RunGrouping",
    "RunPrediction",
    "RunScenario",
    "band_table",
    "coverage",
    "predict_runs",
    "read_runs",
    "run_scenario_yaml",
    "runs_csv",
    "runs_html",
    "runs_markdown",
    "runs_text",
    "scenario_of",
]
