"""The few figures that only whole steps show, fitted to measured training runs and cross-validated.

Every run is simulated once as it is, and once more for every figure with that figure changed. In between,
times are taken as linear in the figures, so that fits, and those without a part of the runs, need no further
simulation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from simcluster.accuracy import MeasuredRun, RunFigure, predict_runs, scenario_of
from simcluster.calibration.fit import LARGE_ERROR, LEAST_GAIN, SMALL_ERROR, median_error, robust_loss
from simcluster.calibration.run_parameter import RUN_PARAMETERS, RunParameter
from simcluster.deferred_dataclass import dataclass
from simcluster.errors import ScenarioError, SimclusterError
from simcluster.number_arrays import Floats
from simcluster.plan import FrameworkSpec
from simcluster.scenario import Scenario
from simcluster.simulation import simulate
from simcluster.workers import parallel_map

PRIOR_RUNS = 2.0
"""What the files have weighs as so many runs with an error of 8 %, at one ``trust`` from it."""

MOST_STEPS, SMALLEST_STEP = 60, 1e-6
"""The fit ends when no logarithm of a figure moves by more."""

LEAST_RUNS = 4
"""A figure that fewer runs depend on stays as it is."""

LEAST_SHARE = 0.002
"""Of a step: a run depends on a figure if doubling its work changes the step by more."""


@dataclass(frozen=True, slots=True)
class RunTimes:
    """A run with its measured and its simulated step, and how the latter depends on figures.

    ``slopes`` has, by key and owner (a family of devices, or a framework profile), the seconds that the step
    takes more if the figure's work is doubled.
    """

    row: MeasuredRun
    measured: float
    predicted: float
    slopes: dict[tuple[str, str], float]

    @property
    def model(self) -> str:
        """The publisher's model."""
        return f"{self.row.group} {self.row.words['model']}"


@dataclass(frozen=True, slots=True)
class RunMove:
    """A figure: how many runs depend on it, the multiple of what the files have, and its ``gain``: how much
    larger the median error is without.
    """

    parameter: RunParameter
    owner: str
    runs: int
    multiple: float
    gain: float


@dataclass(frozen=True, slots=True)
class RunFit:
    """Figures fitted to runs, and the errors of these [runs], as logarithms: as the files have the figures,
    as fitted, and as fitted without the run's model or without its publisher.
    """

    runs: tuple[RunTimes, ...]
    moves: tuple[RunMove, ...]
    before: Floats
    after: Floats
    unseen_models: Floats
    unseen_sources: Floats


def fit_runs(rows: Sequence[MeasuredRun], *, jobs: int = 1) -> RunFit:
    """The figures that bring simulated steps closest to measured ones.

    Raises ScenarioError if fewer than LEAST_RUNS rows can be predicted.
    """
    return fit_times([run for run in parallel_map(_times, rows, jobs) if run is not None])


def fit_times(timed: Sequence[RunTimes]) -> RunFit:
    """The same from runs whose dependence on figures is known.

    Raises ScenarioError if there are fewer than LEAST_RUNS.
    """
    runs = tuple(timed)
    if len(runs) < LEAST_RUNS:
        raise ScenarioError(f"only {len(runs)} rows have a step that is predicted; {LEAST_RUNS} are needed")
    steps = _Steps.of(runs)
    fitted = steps.fit(np.ones(len(runs), bool))
    after = steps.errors(fitted)
    moves = []
    for place, (parameter, owner) in enumerate(steps.figures):
        if fitted[place] != 1.0:
            without = [*fitted[:place], 1.0, *fitted[place + 1 :]]
            gain = median_error(steps.errors(without)) - median_error(after)
            moves.append(RunMove(parameter, owner, int(steps.depends[:, place].sum()), fitted[place], gain))
    return RunFit(
        runs,
        tuple(moves),
        steps.errors([1.0] * len(steps.figures)),
        after,
        _left_out(steps, lambda run: run.model),
        _left_out(steps, lambda run: run.row.group),
    )


def _left_out(steps: _Steps, part_of: Callable[[RunTimes], str]) -> Floats:
    """The error of every run under a fit without its part."""
    parts = np.array([part_of(run) for run in steps.runs])
    unseen = np.zeros(len(parts))
    for part in sorted(set(parts.tolist())):
        left = parts == part
        unseen[left] = steps.errors(steps.fit(~left))[left]
    return unseen


@dataclass(frozen=True, slots=True)
class _Steps:
    """Runs as arrays: measured and simulated seconds [runs], slopes and which runs depend on a figure
    [runs, figures], weights [runs].
    """

    runs: tuple[RunTimes, ...]
    figures: tuple[tuple[RunParameter, str], ...]
    measured: Floats
    predicted: Floats
    slopes: Floats
    depends: NDArray[np.bool_]
    weights: Floats

    @classmethod
    def of(cls, runs: tuple[RunTimes, ...]) -> _Steps:
        """A publisher's runs weigh together as the square root of their number."""
        known = sorted({pair for run in runs for pair in run.slopes})
        parameters = {parameter.key: parameter for parameter in RUN_PARAMETERS}
        slopes = np.array([[run.slopes.get(pair, 0.0) for pair in known] for run in runs]).reshape(
            len(runs), -1
        )
        predicted = np.array([run.predicted for run in runs])
        sizes = Counter(run.row.group for run in runs)
        return cls(
            runs,
            tuple((parameters[key], owner) for key, owner in known),
            np.array([run.measured for run in runs]),
            predicted,
            slopes,
            np.abs(slopes) > LEAST_SHARE * predicted[:, None],
            np.array([sizes[run.row.group] ** -0.5 for run in runs]),
        )

    def errors(self, multiples: Sequence[float]) -> Floats:
        """Logarithms of simulated over measured seconds, [runs]."""
        pairs = zip(self.figures, multiples, strict=True)
        works = np.array([parameter.work(multiple) for (parameter, _), multiple in pairs])
        return np.log(self._seconds(works) / self.measured)

    def fit(self, chosen: NDArray[np.bool_]) -> list[float]:
        """The fitted multiples of all figures; 1 of those that do not reduce the cost enough."""
        able = [
            place for place in range(len(self.figures)) if self.depends[chosen, place].sum() >= LEAST_RUNS
        ]
        works = self._least(chosen, able)
        for place in able:  # what does not reduce the cost enough stays as it is
            kept = works.copy()
            kept[place] = 1.0
            if self._cost(kept, chosen) <= self._cost(works, chosen) * (1 + LEAST_GAIN):
                works = kept
        return [float(parameter.work(work)) for (parameter, _), work in zip(self.figures, works, strict=True)]

    def _least(self, chosen: NDArray[np.bool_], able: Sequence[int]) -> Floats:
        """The work of every figure at the least cost, by Gauss-Newton steps on logarithms.

        Errors count by weights that follow from their size (``robust_loss``), anew in every step.
        """
        works = np.ones(len(self.figures))
        for _ in range(MOST_STEPS):
            seconds = self._seconds(works)[chosen]
            errors = np.log(seconds / self.measured[chosen])
            sizes = np.maximum(np.abs(errors), SMALL_ERROR)
            weights = np.where(sizes < LARGE_ERROR, self.weights[chosen] * SMALL_ERROR / sizes, 0.0)
            slopes = self.slopes[chosen][:, able] / seconds[:, None] * works[able]
            prior = self._prior(chosen)[able]
            curvature = slopes.T @ (weights[:, None] * slopes) + np.diag(prior)
            downhill = -slopes.T @ (weights * errors) - prior * np.log(works[able])
            step = np.linalg.solve(curvature, downhill)
            works[able] = np.clip(works[able] * np.exp(np.clip(step, -0.3, 0.3)), 0.2, 5.0)
            if np.abs(step).max(initial=0.0) < SMALLEST_STEP:
                break
        return works

    def _cost(self, works: Floats, chosen: NDArray[np.bool_]) -> float:
        errors = np.log(self._seconds(works) / self.measured)[chosen]
        away = float(self._prior(chosen) @ np.log(works) ** 2) / (2 * SMALL_ERROR)
        weights = self.weights[chosen]
        return robust_loss(errors, weights) + away / float(weights.sum())

    def _prior(self, chosen: NDArray[np.bool_]) -> Floats:
        """The weight of what the files have, by figure."""
        trust = np.array([parameter.trust for parameter, _ in self.figures])
        return PRIOR_RUNS * float(self.weights[chosen].mean()) * (SMALL_ERROR / trust) ** 2

    def _seconds(self, works: Floats) -> Floats:
        """Seconds of steps, [runs], with so many times the work of every figure."""
        return np.maximum(self.predicted + self.slopes @ (works - 1), 1e-3 * self.predicted)


def _times(row: MeasuredRun) -> RunTimes | None:
    """A run's steps, as it is and with every figure changed; None if its step is not predicted."""
    [step, *_] = predict_runs([row])
    if step.figure is not RunFigure.STEP or step.predicted is None or not step.measured or step.kind is None:
        return None
    data = scenario_of(row).data
    scenario = Scenario.of(data)
    framework = data["framework"]
    root = FrameworkSpec.root(framework if isinstance(framework, str) else framework["use"])
    slopes = {}
    for parameter in RUN_PARAMETERS:
        changed = parameter.written(data, scenario, parameter.tried)
        if changed is None:
            continue
        try:
            seconds = simulate(Scenario.of(changed)).documents["summary"]["step_time_s"]
        except SimclusterError:
            return None
        slope = (seconds - step.predicted) / (parameter.work(parameter.tried) - 1)
        slopes[parameter.key, step.kind.device if parameter.of_device else root] = slope
    return RunTimes(row, step.measured, step.predicted, slopes)
