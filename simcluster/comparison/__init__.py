"""Runs side by side: scenarios, saved runs, and one scenario with a key of several values."""

from simcluster.comparison.compared_runs import ComparedRun, compared_files, side_by_side
from simcluster.comparison.from_python import ComparedPlans, compare

__all__ = ["ComparedPlans", "ComparedRun", "compare", "compared_files", "side_by_side"]
