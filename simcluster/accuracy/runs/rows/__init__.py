"""Rows of a file of training runs, read: cells as publishers spell them, and what they say was measured."""

from simcluster.accuracy.runs.rows.row import COLUMNS, MeasuredRun, read_runs

__all__ = ["COLUMNS", "MeasuredRun", "read_runs"]
