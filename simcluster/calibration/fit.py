"""The figures of a device that bring its predictions closest to measured kernels."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from simcluster.accuracy import MeasuredKernel, device_of, kernel_task, task_seconds
from simcluster.calibration.optimiser import minimise
from simcluster.calibration.parameter import Parameter
from simcluster.calibration.stage import STAGES, MeasuredTask, Stage, weight_of
from simcluster.cluster import Device, load_device
from simcluster.deferred_dataclass import dataclass
from simcluster.errors import PlanError, ScenarioError

LEAST_ROWS = 4
"""Fewer rows of a kind leave its figures as they are."""

SMALL_ERROR, LARGE_ERROR = 0.08, 0.7
"""Errors count by their square up to the first, by their size up to the second, and no more beyond: the
figures are those of most rows, whatever single ones say."""

LEAST_GAIN = 0.005
"""What a figure must lower the cost by, as a share of it, or it is left as it was."""

PRIOR_ROWS = 0.15
"""How many rows a figure's prior weighs, at one ``trust`` from it."""


@dataclass(frozen=True, slots=True)
class Move:
    """A figure before and after, and its ``gain``: how much larger the median error is at its prior."""

    parameter: Parameter
    before: float
    after: float
    gain: float


@dataclass(frozen=True, slots=True)
class StageFit:
    """A stage: its rows, the figures it moved, the median errors before and after, and on rows left out."""

    stage: Stage
    rows: tuple[MeasuredTask, ...]
    moves: tuple[Move, ...]
    before: float
    after: float
    unseen_shapes: float | None = None
    unseen_sources: float | None = None


@dataclass(frozen=True, slots=True)
class DeviceFit:
    """A device of the catalog, fitted, and how."""

    name: str
    device: Device
    stages: tuple[StageFit, ...]


def measured_tasks(rows: Sequence[MeasuredKernel], name: str) -> list[MeasuredTask]:
    """The rows of a device that can be predicted; ScenarioError if there is none."""
    tasks: list[MeasuredTask] = []
    for row in rows:
        if device_of(row.hardware) != name:
            continue
        try:
            task = kernel_task(row)
        except PlanError:
            continue
        tasks.append(MeasuredTask(row, task, weight_of(row, task)))
    if not tasks:
        raise ScenarioError(f"no row is of device '{name}'")
    return tasks


def fit_device(rows: Sequence[MeasuredKernel], name: str, start: Device | None = None) -> DeviceFit:
    """The device with all figures that the rows can show; ``start`` is it before, else as in the catalog.

    Raises ScenarioError if no row is of the device, or the catalog has none of that name.
    """
    device = start or load_device(name)
    tasks = measured_tasks(rows, name)
    stages: list[StageFit] = []
    for stage in STAGES:
        chosen = [task for task in tasks if stage.takes(task) and predicted(task, device) is not None]
        if len(chosen) < LEAST_ROWS:
            continue
        fitted, parameters = fit_stage(device, stage, chosen)
        before, after = (median_error(errors(which, chosen)) for which in (device, fitted))
        if after >= before:  # most rows are no better off
            fitted, after = device, before
        moves = _moves(device, fitted, parameters, chosen)
        stages.append(StageFit(stage, tuple(chosen), moves, before, after))
        device = fitted
    return DeviceFit(name, device, tuple(stages))


def fit_stage(device: Device, stage: Stage, rows: Sequence[MeasuredTask]) -> tuple[Device, list[Parameter]]:
    """The device with the figures of one stage, of all its forms the best."""
    fits = []
    for form in stage.forms(device, rows):
        parameters = stage.parameters(form, rows)
        prior = [parameter.prior for parameter in parameters]
        fits.append((*_fitted(form, parameters, prior, rows), parameters))
    best = min(range(len(fits)), key=lambda place: (round(fits[place][0], 4), place))
    _, fitted, parameters = fits[best]
    return fitted, parameters


def _fitted(
    device: Device, parameters: Sequence[Parameter], prior: Sequence[float], rows: Sequence[MeasuredTask]
) -> tuple[float, Device]:
    weights = np.array([row.weight for row in rows])

    def cost(values: Sequence[float]) -> float:
        size = robust_loss(errors(with_values(device, parameters, values), rows), weights)
        away = sum(
            (math.log(value / before) / parameter.trust) ** 2
            for parameter, value, before in zip(parameters, values, prior, strict=True)
        )
        return size + PRIOR_ROWS * away / float(weights.sum())

    bounds = [(parameter.least, parameter.most) for parameter in parameters]
    steps = [min(1.0, 1.5 * parameter.trust) for parameter in parameters]
    values = minimise(cost, prior, steps, bounds)
    # What does not reduce the cost enough stays as the file has it, or goes to its prior.
    for place, parameter in enumerate(parameters):
        own = min(max(parameter.read(device), parameter.least), parameter.most)
        for simpler in (own, prior[place]):
            kept = [*values[:place], simpler, *values[place + 1 :]]
            if cost(kept) <= cost(values) * (1 + LEAST_GAIN):
                values = kept
                break
    return cost(values), with_values(device, parameters, values)


def with_values(device: Device, parameters: Sequence[Parameter], values: Sequence[float]) -> Device:
    """The device with these figures."""
    for parameter, value in zip(parameters, values, strict=True):
        device = parameter.write(device, value)
    return device


def errors(device: Device, rows: Sequence[MeasuredTask]) -> NDArray[np.float64]:
    """Logarithms of predicted over measured time, [rows]."""
    burst = device.in_burst()
    return np.array(
        [math.log(_seconds(row, burst if row.task.burst else device) / row.row.seconds) for row in rows]
    )


def _seconds(row: MeasuredTask, device: Device) -> float:
    if row.task.operator:  # fitted are single passes only
        return sum(device.kernel_time(work) for work in row.task.works)
    return task_seconds(row.task, device)


def predicted(row: MeasuredTask, device: Device) -> float | None:
    """Seconds, or None where the device has no rate for it."""
    try:
        return _seconds(row, device)
    except PlanError:
        return None


def median_error(logarithms: NDArray[np.float64]) -> float:
    """The median size of relative errors."""
    return float(np.median(np.abs(np.expm1(logarithms))))


def robust_loss(logarithms: NDArray[np.float64], weights: NDArray[np.float64]) -> float:
    """The mean cost of errors: their square while small, then their size, up to the largest that counts."""
    sizes = np.abs(logarithms)
    small = sizes**2 / (2 * SMALL_ERROR)
    costs = np.minimum(np.where(sizes < SMALL_ERROR, small, sizes - SMALL_ERROR / 2), LARGE_ERROR)
    return float((costs * weights).sum() / weights.sum())


def _moves(
    before: Device, after: Device, parameters: Sequence[Parameter], rows: Sequence[MeasuredTask]
) -> tuple[Move, ...]:
    reached = median_error(errors(after, rows))
    moves = []
    for parameter in parameters:
        old = parameter.read(before)
        if parameter.read(after) == old:
            continue
        without = parameter.write(after, parameter.prior)
        moves.append(
            Move(parameter, old, parameter.read(after), median_error(errors(without, rows)) - reached)
        )
    return tuple(moves)
