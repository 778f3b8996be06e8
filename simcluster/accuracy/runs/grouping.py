"""What errors of runs are put together by."""

from __future__ import annotations

import enum

from simcluster.accuracy.runs.rows import MeasuredRun


class RunGrouping(enum.StrEnum):
    """What the rows of one line of the table have in common."""

    SOURCE = "source"
    FRAMEWORK = "framework"
    HARDWARE = "hardware"
    MODEL = "model"
    PLAN = "plan"
    SIZE = "size"

    def of(self, run: MeasuredRun) -> str:
        """The group of a run."""
        if self is RunGrouping.SOURCE:
            return run.group
        if self is RunGrouping.PLAN:
            return _plan(run)
        if self is RunGrouping.SIZE:
            return _size(run.count("num_devices"))
        return run.words[str(self)]


def _plan(run: MeasuredRun) -> str:
    """The axes that split a run, and what of its state data-parallel ranks split."""
    axes = [axis for axis in ("pipeline", "tensor", "context", "expert") if run.count(axis) > 1]
    stage = run.words["zero_stage"].partition(".")[0]
    sharded = [f"zero {stage}"] if stage in ("2", "3") else []
    return " + ".join([*axes, *sharded]) or "data"


def _size(devices: int) -> str:
    """Devices of a run, by powers of eight."""
    first = 1
    while devices >= first * 8:
        first *= 8
    return f"{first:>5,} to {first * 8 - 1:,} devices"
