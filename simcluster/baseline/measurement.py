"""The record of one scenario, measured here or in another process: figures, bounds, or why it did not run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from simcluster.analysis import MemoryVerdict
from simcluster.baseline.record import Record
from simcluster.baseline.scenario_bounds import Bound, ExpectedVerdict, bounds_of, check_bounds
from simcluster.deferred_dataclass import dataclass
from simcluster.errors import SimclusterError, SimulationError
from simcluster.scenario import Scenario
from simcluster.simulation import simulate
from simcluster.trace import Run
from simcluster.workers import Failure, local_executor, run_all


@dataclass(frozen=True, slots=True)
class MeasuredScenario:
    """A scenario, or its file, that is to be run; (key path, YAML text) pairs replace what it says."""

    source: Path | Scenario
    changes: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class ScenarioMeasurement:
    """The figures of a scenario and its own bounds; or the error for which there are none."""

    record: Record | None = None
    bounds: tuple[Bound | ExpectedVerdict, ...] = ()
    error: SimclusterError | None = None
    lines: tuple[tuple[str, str], ...] = ()
    """(key path, value) of everything that the file says."""

    @property
    def faults(self) -> tuple[str, ...]:
        """What is wrong by itself, beside nothing: an error, broken bounds, memory that does not suffice."""
        if self.error is not None:
            return tuple(map(str, self.error.problems))
        faults = [f"expect: {bound}" for bound in self.bounds if not bound.holds]
        is_expected = any(isinstance(bound, ExpectedVerdict) for bound in self.bounds)
        if self.record is not None and not is_expected and self.record.said is MemoryVerdict.DOES_NOT_FIT:
            hint = "where that is right, say so: expect: {memory: {verdict: does not fit}}"
            faults.append(f"it does not fit into memory; {hint}")
        return tuple(faults)


def measure_scenario(
    wanted: MeasuredScenario, run: Callable[[Scenario], Run] = simulate
) -> ScenarioMeasurement:
    """A scenario read and run; an error of its is part of the answer."""
    source = wanted.source
    try:
        if isinstance(source, Scenario):
            scenario = source.changed(wanted.changes)
        else:
            scenario = Scenario.load(source, wanted.changes)
        bounds_of(scenario)
        result = run(scenario)
        bounds = check_bounds(scenario, result)
    except SimclusterError as error:
        return ScenarioMeasurement(error=error)
    return ScenarioMeasurement(Record.of(result), bounds, lines=tuple(_lines(scenario)))


def _lines(scenario: Scenario) -> list[tuple[str, str]]:
    assert scenario.document is not None
    return flattened("", scenario.document.data)


def flattened(path: str, data: object) -> list[tuple[str, str]]:
    """(key path, value) of everything in plain data, in order."""
    if isinstance(data, dict) and data:
        return [
            line
            for key, value in data.items()
            for line in flattened(f"{path}.{key}" if path else str(key), value)
        ]
    if isinstance(data, list) and any(isinstance(value, (dict, list)) for value in data):
        return [line for index, value in enumerate(data) for line in flattened(f"{path}.{index}", value)]
    return [(path, str(data))]


def measure_all(
    wanted: Sequence[MeasuredScenario],
    jobs: int,
    run: Callable[[Scenario], Run] = simulate,
    watch: Callable[[int, int], None] | None = None,
) -> list[ScenarioMeasurement]:
    """The measurement of every scenario, in order, by ``jobs`` processes.

    One alone is this process, where ``run`` simulates; several call ``watch`` with how many are done, and of
    how many. A scenario whose process is killed twice has an error.
    """
    if min(jobs, len(wanted)) <= 1:
        return [measure_scenario(scenario, run) for scenario in wanted]
    measurements: dict[int, ScenarioMeasurement] = {}
    with local_executor(jobs, len(wanted)) as executor:
        for number, outcome in run_all(measure_scenario, wanted, executor):
            if isinstance(outcome, Failure):
                if not outcome.is_worker_lost:
                    raise outcome.error
                source = wanted[number].source
                name = source.name if isinstance(source, Scenario) else source
                lost = f"{name}: the process that simulated it was killed, twice"
                outcome = ScenarioMeasurement(error=SimulationError(lost))
            measurements[number] = outcome
            if watch is not None:
                watch(len(measurements), len(wanted))
    return [measurements[number] for number in range(len(wanted))]
