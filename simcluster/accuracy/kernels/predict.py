"""Predicted times of measured kernels, from the file of their device alone; for others, the reason."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from simcluster.accuracy.kernels.device_words import device_of
from simcluster.accuracy.kernels.kernel_parts import KernelTask
from simcluster.accuracy.kernels.row import MeasuredKernel
from simcluster.accuracy.kernels.works import kernel_task
from simcluster.accuracy.prediction import FigurePrediction
from simcluster.cluster import Device, Direction, device_names, load_device, operator_passes
from simcluster.deferred_dataclass import dataclass
from simcluster.errors import PlanError, Problem, ScenarioError, nearest
from simcluster.work import Work


@dataclass(frozen=True, slots=True)
class KernelPrediction(FigurePrediction):
    """A row with what was predicted: seconds, on ``device`` of the catalog, ``how`` it was run there."""

    row: MeasuredKernel
    device: str = ""
    how: str = ""


def predict_kernels(rows: Iterable[MeasuredKernel], device: str | None = None) -> list[KernelPrediction]:
    """A prediction, or the reason for none, for every row, in order.

    ``device`` names a device for all of them, instead of the table's. Raises ScenarioError if there is no
    such device.
    """
    if device is not None and device not in device_names():
        hint = nearest(device, device_names())
        raise ScenarioError(Problem(f"there is no device '{device}'", hint=hint, where="--device"))
    return [_predicted(row, device or device_of(row.hardware)) for row in rows]


def _predicted(row: MeasuredKernel, name: str | None) -> KernelPrediction:
    if name is None:
        return KernelPrediction(row, reason=f"no device of the catalog is known to be '{row.hardware}'")
    try:
        task = kernel_task(row)
        seconds = task_seconds(task, _device(name, task.burst))
    except PlanError as error:
        return KernelPrediction(row, name, reason=error.problems[0].message)
    return KernelPrediction(row, name, _how(task), measured=row.seconds, predicted=seconds)


def _how(task: KernelTask) -> str:
    return task.implementation or ("burst" if task.burst else "sustained")


@cache
def _device(name: str, burst: bool) -> Device:
    device = load_device(name)
    return device.in_burst() if burst else device


def task_seconds(task: KernelTask, device: Device) -> float:
    """Seconds of what a row measured on a device, launches included.

    Raises PlanError if the device has no rate for it, or nothing is known of its implementation.
    """
    seconds = sum(
        _pass_seconds(beside.work, device, beside.implementation, beside.operator, beside.direction)
        for beside in task.passes
    )
    if not task.operator:
        return seconds + sum(device.kernel_time(work) for work in task.works)
    return seconds + sum(
        _pass_seconds(work, device, task.implementation, task.operator, direction)
        for work, direction in zip(task.works, task.directions, strict=True)
    )


def _pass_seconds(
    work: Work, device: Device, implementation: str, operator: str, direction: Direction
) -> float:
    passes = operator_passes(implementation, operator, direction)
    floor = passes.floor.value if passes.floor else 0.0
    return max(floor, device.launch + stream_seconds(work, device) * passes.traffic.value)


def stream_seconds(work: Work, device: Device) -> float:
    """Seconds of a kernel without its launch: of a memory-bound one, a single pass over the least bytes."""
    return device.kernel_time(work) - device.launch
