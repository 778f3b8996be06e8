"""How implementations go through memory: traffic and floor of each of their operators, from all devices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simcluster import units
from simcluster.accuracy import MeasuredKernel, device_of, kernel_task, stream_seconds
from simcluster.calibration.figure_yaml import yaml_text
from simcluster.calibration.shape_folds import fold_of
from simcluster.cluster import Direction, load_device
from simcluster.deferred_dataclass import dataclass
from simcluster.errors import PlanError

LARGE_BYTES = 2**26
"""Rows from here on show traffic: smaller tensors stay in caches, and floors hide them."""

FLAGGED = "FLAG"
"""What publishers' figures above a memory's bandwidth are marked with."""

LEAST_ROWS = 5
"""Fewer rows show no floor."""

LEAST_GAIN = 0.9
"""What must be left of the error, at most, where there is a floor."""

LARGEST_ERROR = 0.7
"""Logarithms of errors count no more than this."""


@dataclass(frozen=True, slots=True)
class StreamedRow:
    """A row of one direction of an operator: seconds of single passes, and of their launches."""

    row: MeasuredKernel
    """What was measured."""
    implementation: str
    """Whose code it was."""
    operator: str
    """What it computes."""
    direction: Direction
    """Forward or backward."""
    bytes_moved: int
    """The least traffic."""
    single: float
    """Seconds in which the device moves these bytes once."""
    launch: float
    """Seconds of all launches."""
    kernels: int
    """How many there are."""


@dataclass(frozen=True, slots=True)
class PassFit:
    """The fitted memory traffic of one direction of an operator in an implementation."""

    implementation: str
    """Whose code it is."""
    operator: str
    """What it computes."""
    direction: Direction
    """Forward or backward."""
    traffic: float
    """Bytes moved, as a multiple of the least."""
    floor: float
    """Seconds that it takes at least; 0: no such floor shows."""
    rows: tuple[StreamedRow, ...]
    """What it is fitted to."""
    error: float
    """Their median error."""
    unseen_shapes: float | None = None
    """That of rows predicted without those of their shape; None where all are of one."""


def streamed_rows(rows: Sequence[MeasuredKernel]) -> list[StreamedRow]:
    """The memory-bound rows on devices of the catalog that time one direction alone."""
    streamed: list[StreamedRow] = []
    for row in rows:
        name = device_of(row.hardware)
        if name is None or FLAGGED in row.notes:
            continue
        try:
            task = kernel_task(row)
        except PlanError:
            continue
        if not task.operator or len(set(task.directions)) != 1:
            continue
        device = load_device(name)
        device = device.in_burst() if task.burst else device
        try:
            single = sum(stream_seconds(work, device) for work in task.works)
        except PlanError:
            continue
        streamed.append(
            StreamedRow(
                row,
                task.implementation,
                task.operator,
                task.directions[0],
                sum(work.bytes_moved for work in task.works),
                single,
                device.launch * len(task.works),
                len(task.works),
            )
        )
    return streamed


def fit_implementations(rows: Sequence[StreamedRow]) -> list[PassFit]:
    """The traffic and floor of every operator of every implementation that rows show, sorted."""
    groups: dict[tuple[str, str, Direction], list[StreamedRow]] = {}
    for row in rows:
        groups.setdefault((row.implementation, row.operator, row.direction), []).append(row)
    return [_cross_validated(fit_pass(groups[key])) for key in sorted(groups)]


def _cross_validated(fit: PassFit) -> PassFit:
    """The fit with its error on shapes left out, one fifth of them after the other."""
    parts: dict[int, list[StreamedRow]] = {}
    for row in fit.rows:
        parts.setdefault(fold_of(row.row), []).append(row)
    if len(parts) < 2:
        return fit
    sizes = []
    for left in parts.values():
        other = fit_pass([row for row in fit.rows if row not in left])
        sizes.append(np.abs(_predicted(left, other.traffic, other.floor) / _measured(left) - 1))
    return replace(fit, unseen_shapes=float(np.median(np.concatenate(sizes))))


def fit_pass(rows: Sequence[StreamedRow]) -> PassFit:
    """The traffic, among those that single rows show, and the floor that leave the least error.

    Without a floor, unless one lowers the error by a tenth.
    """
    large = [row for row in rows if row.bytes_moved >= LARGE_BYTES] or list(rows)
    ratios = sorted({_ratio(row) for row in large})
    middle = float(np.median([_ratio(row) for row in large]))
    measured = _measured(rows)
    # A floor is one of a single kernel.
    may_wait = len(rows) >= LEAST_ROWS and rows[0].kernels == 1
    floors = [0.0, *sorted(set(measured))] if may_wait else [0.0]
    costs = {
        (traffic, floor): _cost(_predicted(rows, traffic, floor), measured)
        for traffic in (middle, *ratios)
        for floor in floors
    }
    plain = min((cost, key) for key, cost in costs.items() if key[1] == 0)
    best = min((cost, key) for key, cost in costs.items())
    traffic, floor = best[1] if best[0] < LEAST_GAIN * plain[0] else plain[1]
    first = rows[0]
    error = float(np.median(np.abs(_predicted(rows, traffic, floor) / measured - 1)))
    return PassFit(first.implementation, first.operator, first.direction, traffic, floor, tuple(rows), error)


def _cost(predicted: NDArray[np.float64], measured: NDArray[np.float64]) -> float:
    """The mean size of errors, none of which counts more than a factor of two."""
    return float(np.minimum(np.abs(np.log(predicted / measured)), LARGEST_ERROR).mean())


def _ratio(row: StreamedRow) -> float:
    return max(row.row.seconds - row.launch, 1e-9) / row.single


def _predicted(rows: Sequence[StreamedRow], traffic: float, floor: float) -> NDArray[np.float64]:
    return np.array([max(floor, row.launch + row.single * traffic) for row in rows])


def _measured(rows: Sequence[StreamedRow]) -> NDArray[np.float64]:
    return np.array([row.row.seconds for row in rows])


def implementation_data(fits: Sequence[PassFit], title: str) -> dict[str, Any]:
    """The file of an implementation, as plain data."""
    operators: dict[str, Any] = {}
    for fit in fits:
        sources = ", ".join(sorted({row.row.source for row in fit.rows}))
        unseen = fit.unseen_shapes
        left_out = "" if unseen is None else f", {units.percent(unseen)} on shapes left out"
        source = f"{len(fit.rows)} rows ({sources}): median error {units.percent(fit.error)}{left_out}"
        figures: dict[str, Any] = {"traffic": _figure(float(f"{fit.traffic:.3g}"), source)}
        if fit.floor:
            figures["floor"] = _figure(f"{fit.floor * 1e6:.3g} us", source)
        operators.setdefault(fit.operator, {})[fit.direction] = figures
    return {"title": title, "operators": operators}


def implementation_yaml(fits: Sequence[PassFit], title: str) -> str:
    """The file of an implementation."""
    return yaml_text(implementation_data(fits, title))


def _figure(value: Any, source: str) -> dict[str, Any]:
    return {"value": value, "source": source, "provenance": "measured"}
