"""What the simulator says to a measured run: its step and its memory, or why it says nothing."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context

from simcluster.accuracy.hardware import HardwareSpec, named_hardware
from simcluster.accuracy.runs.row import MeasuredRun
from simcluster.accuracy.runs.translate import framework_of, scenario_of
from simcluster.errors import SimclusterError
from simcluster.scenario import Scenario
from simcluster.simulation import simulate


class Figure(enum.StrEnum):
    """What is compared."""

    STEP = "step time"
    MEMORY = "peak memory"
    ACTIVATIONS = "activation memory"


@dataclass(frozen=True, slots=True)
class RunPrediction:
    """A row with one figure of it: seconds of a step, or bytes that a device's tensors take at their peak.

    The latter are what PyTorch calls allocated, and frameworks log: without runtime and communicators.

    Either there is a ``reason`` why nothing was predicted, or both numbers and the signed relative ``error``:
    +0.1 is predicted 10% too slow, or too large.
    """

    row: MeasuredRun
    figure: Figure
    measured: float = 0.0
    predicted: float = 0.0
    reason: str = ""

    @property
    def error(self) -> float:
        """Predicted / measured - 1."""
        return self.predicted / self.measured - 1


def predict_runs(
    rows: Iterable[MeasuredRun], cluster: str | None = None, *, jobs: int = 1
) -> list[RunPrediction]:
    """The figures of every row with what is predicted, or the reason for none, in order.

    ``cluster`` names a host for all of them, instead of the table's; ``jobs`` processes share the work.
    Raises ScenarioError if there is no such host.
    """
    chosen = named_hardware(cluster) if cluster else None
    rows = list(rows)
    if jobs <= 1 or len(rows) < 2:
        return [each for row in rows for each in _predicted(row, chosen)]
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        found = pool.map(_predicted, rows, [chosen] * len(rows), chunksize=4)
        return [each for some in found for each in some]


def _predicted(row: MeasuredRun, entry: HardwareSpec | None) -> Sequence[RunPrediction]:
    """Every figure that a row states; one without numbers if it states none."""
    asked = []
    if (seconds := row.step_seconds) is not None:
        asked.append(RunPrediction(row, Figure.STEP, seconds))
    if row.peak_memory is not None:
        asked.append(RunPrediction(row, Figure.MEMORY, row.peak_memory))
    if row.activation_memory is not None:
        asked.append(RunPrediction(row, Figure.ACTIVATIONS, row.activation_memory))
    if not asked:
        return [RunPrediction(row, Figure.STEP, reason=f"no step follows from {row.words['metric']}")]
    try:
        documents = simulate(Scenario.of(scenario_of(row, entry))).documents
    except SimclusterError as error:
        return [replace(each, reason=error.problems[0].message) for each in asked]
    stages = documents["memory"][-1:] if framework_of(row).memory == "last" else documents["memory"]
    found = {
        Figure.STEP: documents["summary"]["step_time_s"],
        Figure.MEMORY: max(each["allocated"] for each in stages),
        Figure.ACTIVATIONS: max(
            each["breakdown"]["activations"] for each in documents["summary"]["peak_memory_bytes"]
        ),
    }
    return [replace(each, predicted=found[each.figure]) for each in asked]
