"""How well a fit predicts rows that it has not seen: shapes left out, and publishers left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from simcluster.calibration.fit import LEAST_ROWS, DeviceFit, StageFit, errors, fit_stage, median_error
from simcluster.calibration.shape_folds import fold_of
from simcluster.calibration.stage import MeasuredTask
from simcluster.cluster import Device, load_device


def cross_validated(fit: DeviceFit, start: Device | None = None) -> DeviceFit:
    """The fit with the median errors of its stages on rows left out, by shape and by publisher.

    Stages before one are as fitted to all rows: what is left out is left out of one stage at a time.
    """
    device = start or load_device(fit.name)
    stages: list[StageFit] = []
    for stage in fit.stages:
        by_shape = _left_out(device, stage, lambda measured: str(fold_of(measured.row)))
        by_source = _left_out(device, stage, lambda measured: measured.row.group)
        stages.append(replace(stage, unseen_shapes=by_shape, unseen_sources=by_source))
        device = fit_stage(device, stage.stage, stage.rows)[0]
    return replace(fit, stages=tuple(stages))


def _left_out(device: Device, stage: StageFit, part_of: Callable[[MeasuredTask], str]) -> float | None:
    """The median error of all rows, each predicted by a fit without its part; None if there is one part."""
    rows: Sequence[MeasuredTask] = stage.rows
    parts = sorted({part_of(row) for row in rows})
    if len(parts) < 2:
        return None
    unseen = []
    for part in parts:
        kept = [row for row in rows if part_of(row) != part]
        left = [row for row in rows if part_of(row) == part]
        fitted = fit_stage(device, stage.stage, kept)[0] if len(kept) >= LEAST_ROWS else device
        unseen.append(errors(fitted, left))
    return median_error(np.concatenate(unseen))
