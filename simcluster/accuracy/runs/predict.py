"""Predicted step times and peak memory of published training runs; for others, the reason."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from simcluster.accuracy.hardware import HardwareSpec, named_hardware
from simcluster.accuracy.prediction import FigurePrediction
from simcluster.accuracy.runs.first_step import first_step_peaks
from simcluster.accuracy.runs.flop_rate import implied_step, states_flop_rate
from simcluster.accuracy.runs.rows import MeasuredRun
from simcluster.accuracy.runs.scenarios import framework_of, known_words, scenario_of
from simcluster.deferred_dataclass import dataclass
from simcluster.errors import SimclusterError
from simcluster.scenario import Scenario
from simcluster.simulation import RunKind, simulate
from simcluster.trace import Run
from simcluster.workers import parallel_map


class RunFigure(enum.StrEnum):
    """The figures of a run that are compared."""

    STEP = "step time"
    MEMORY = "peak memory"
    ACTIVATIONS = "activation memory"
    ACTIVATION_SHARE = "activations of tensor parallelism"
    """Activation memory beside that of the same plan without sequence parallelism and recomputation."""
    FITS = "fits"


@dataclass(frozen=True, slots=True)
class RunPrediction(FigurePrediction):
    """A row with one figure of it: seconds of a step, or bytes that a device's tensors take at their peak; of
    FITS 1 for a run that fits into memory, and 2 for one that does not.

    The latter are what PyTorch calls allocated, and frameworks log: without runtime and communicators. Of
    rows that state what the device shows, or what the allocator holds, they are that.
    """

    row: MeasuredRun
    figure: RunFigure
    assumed: tuple[str, ...] = ()
    """What the row does not state, and was assumed."""
    kind: RunKind | None = None
    """What results of such runs are compared by; None where nothing is predicted."""


def predict_runs(
    rows: Iterable[MeasuredRun],
    cluster: str | None = None,
    *,
    jobs: int = 1,
    watch: Callable[[int, int], None] | None = None,
) -> list[RunPrediction]:
    """The figures of every row with what is predicted, or the reason for none, in order.

    ``cluster`` names a host for all of them, instead of the table's; ``jobs`` processes share the work. A row
    whose process is killed is tried once more, then left without numbers. ``watch`` is called with how many
    rows are done, and how many there are.
    Raises ScenarioError if there is no such host.
    """
    chosen = named_hardware(cluster) if cluster else None
    rows = list(rows)
    predictions: list[RunPrediction] = []
    predicted = parallel_map(partial(_predicted, entry=chosen), rows, jobs)
    for done, (row, some) in enumerate(zip(rows, predicted, strict=True), start=1):
        predictions += _without(row, _KILLED) if some is None else some
        if watch is not None:
            watch(done, len(rows))
    return predictions


FITS = {True: 1.0, False: 2.0}
"""The figure of a run that fits into memory, and of one that does not."""

_DETERMINISTIC = (
    "deterministic mode has other, slower kernels: its memory is predicted, but not its step time"
)
_NO_ROOM = (
    "the plan as it is read needs more memory than a device has, so something that saves some is not stated"
)
_KILLED = "the process that simulated it was killed, twice: perhaps this machine has not enough memory for it"


def _asked(row: MeasuredRun) -> list[RunPrediction]:
    """Every figure that a row states, not predicted yet."""
    stated = {
        RunFigure.STEP: row.step_seconds,
        RunFigure.MEMORY: row.peak_memory,
        RunFigure.ACTIVATIONS: row.activation_memory,
        RunFigure.ACTIVATION_SHARE: row.activation_share,
        RunFigure.FITS: None if row.fits is None else FITS[row.fits],
    }
    asked = [
        RunPrediction(row, figure, measured=value) for figure, value in stated.items() if value is not None
    ]
    if row.step_seconds is None and states_flop_rate(row):  # how long its step was follows from its FLOPs
        asked.insert(0, RunPrediction(row, RunFigure.STEP))
    return asked


def _without(row: MeasuredRun, reason: str) -> list[RunPrediction]:
    """The figures of a row of which nothing is predicted; one without numbers if it states none."""
    return [
        replace(prediction, reason=reason)
        for prediction in _asked(row) or [RunPrediction(row, RunFigure.STEP)]
    ]


def _predicted(row: MeasuredRun, entry: HardwareSpec | None) -> Sequence[RunPrediction]:
    """Every figure that a row states; one without numbers if it states none."""
    asked = _asked(row)
    if not asked:
        return _without(row, f"a step time cannot be worked out from the metric {row.words['metric']}")
    try:
        scenario = scenario_of(row, entry)
        simulated = Scenario.of(scenario.data)
        run = simulate(simulated)
    except SimclusterError as error:
        return _without(row, error.problems[0].message)
    summary = run.documents["summary"]
    figures = {
        RunFigure.STEP: summary["step_time_s"],
        RunFigure.MEMORY: _stated_memory(row, run),
        RunFigure.FITS: FITS[summary["verdict"] != "does not fit"],
        RunFigure.ACTIVATIONS: _activations(run),
    }
    if row.activation_share is not None:
        try:
            whole = simulate(Scenario.of(scenario_of(row.of_tensor_parallelism_alone, entry).data))
        except SimclusterError as error:
            return _without(row, error.problems[0].message)
        figures[RunFigure.ACTIVATION_SHARE] = _activations(run) / _activations(whole)
    kind = RunKind(**summary["error_band"]["kind"])
    assumed = scenario.assumed
    if summary["verdict"] == "does not fit" and row.fits is not False:
        assumed = (*assumed, _NO_ROOM)
    done = [
        replace(prediction, predicted=figures[prediction.figure], assumed=assumed, kind=kind)
        for prediction in asked
    ]
    if row.is_deterministic:
        done = [replace(one, reason=_DETERMINISTIC) if one.figure is RunFigure.STEP else one for one in done]
    if done[0].measured or done[0].reason:
        return done
    measured, counted = implied_step(row, summary, simulated.cluster.host.device.peak)
    return [replace(done[0], measured=measured, assumed=(*assumed, counted)), *done[1:]]


def _activations(run: Run) -> float:
    """Most bytes of activations on a device: the moment at which it holds most in all may be the update."""
    memory = run.memory
    rows = memory["category"] == memory.index("category", "activations")
    which, changes = memory["class"][rows], memory["bytes"][rows]
    return float(max(np.cumsum(changes[which == number]).max(initial=0) for number in np.unique(which)))


def _stated_memory(row: MeasuredRun, run: Run) -> float:
    """The bytes that a row states: allocated ones, which a framework logs of the fullest stage, the last, or
    in the first step; what its allocator reserves; or all that the fullest device shows as in use.
    """
    stages, logged = run.documents["memory"], framework_of(row).memory
    counted = known_words().counted_memory(row.words)
    if counted == "device":
        return float(max(stage["reserved"] + stage["outside"] for stage in stages))
    if counted == "allocated" and logged == "first_step" and not row.goes_on:
        return max(first_step_peaks(run))
    return float(max(stage[counted] for stage in (stages[-1:] if logged == "last" else stages)))
