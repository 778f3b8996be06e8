"""How implementations go through memory: traffic and floor of each of their operators, from all devices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simcluster.accuracy import MeasuredKernel, device_of, kernel_task, stream_seconds
from simcluster.calibration.figure_yaml import yaml_text
from simcluster.calibration.shape_folds import fold_of
from simcluster.cluster import Direction, load_device
from simcluster.errors import PlanError
from simcluster.work import Work

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
    """A memory-bound row of one direction: what a single pass would take, and what it took, in seconds."""

    row: MeasuredKernel
    implementation: str
    operator: str
    direction: Direction
    work: Work
    single: float
    launch: float


@dataclass(frozen=True, slots=True)
class PassFit:
    """One direction of an operator: traffic, floor in seconds (0: none), rows and their median error.

    ``unseen_shapes``: that of rows predicted without those of their shape; None where all are of one.
    """

    implementation: str
    operator: str
    direction: Direction
    traffic: float
    floor: float
    rows: tuple[StreamedRow, ...]
    error: float
    unseen_shapes: float | None = None


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
        if task.operator is None or len(task.works) != 1:
            continue
        device, known, (work,) = load_device(name), task.operator, task.works
        streamed.append(
            StreamedRow(
                row,
                known.implementation,
                known.operator,
                task.directions[0],
                work,
                stream_seconds(work, device),
                device.launch,
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
    large = [row for row in rows if row.work.bytes_moved >= LARGE_BYTES] or list(rows)
    ratios = sorted({_ratio(row) for row in large})
    middle = float(np.median([_ratio(row) for row in large]))
    measured = _measured(rows)
    floors = [0.0, *sorted(set(measured))] if len(rows) >= LEAST_ROWS else [0.0]
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
        left_out = "" if fit.unseen_shapes is None else f", {fit.unseen_shapes:.1%} on shapes left out"
        source = f"{len(fit.rows)} rows ({sources}): median error {fit.error:.1%}{left_out}"
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
