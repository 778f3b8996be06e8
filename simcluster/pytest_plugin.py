"""A plugin of pytest: scenarios as tests, and a fixture that runs scenarios.

    pytest --simcluster scenarios/
    pytest --simcluster scenarios/ --simcluster-against origin/main -n 4

Every file that says ``simcluster: 1`` is a test. It passes if the scenario runs, fits into memory and keeps
its own bounds (``expect:``), and, where a baseline or a commit is named, if it is no worse than there.
Without ``--simcluster`` nothing is collected, and nothing but this file is imported until it is needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from simcluster import Result, Scenario
    from simcluster.baseline import CheckReport, ScenarioMeasurement


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options; their values stand in the configuration, which pytest-xdist hands to its workers."""
    group = parser.getgroup("simcluster", "scenarios of simcluster as tests")
    group.addoption(
        "--simcluster",
        action="store_true",
        help="Collect scenario files (*.yaml with 'simcluster: 1') as tests.",
    )
    group.addoption(
        "--simcluster-baseline", metavar="FILE", help="Fail if a scenario is worse than in this file."
    )
    group.addoption("--simcluster-against", metavar="GITREF", help="Fail if it is worse than at this commit.")
    group.addoption(
        "--simcluster-tolerance",
        metavar="FIGURE=AMOUNT,...",
        action="append",
        default=[],
        help="How far a figure may move: step_time=1%%, peak_memory=512MiB, or 1%% for all. Default 0.1%%.",
    )
    group.addoption(
        "--simcluster-set",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="Change a value of every scenario; VALUE is YAML.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Refuses options that do not go together."""
    if config.getoption("--simcluster-baseline") and config.getoption("--simcluster-against"):
        raise pytest.UsageError("give either --simcluster-baseline or --simcluster-against")
    for setting in config.getoption("--simcluster-set"):
        if "=" not in setting:
            raise pytest.UsageError(f"--simcluster-set {setting}: expected KEY=VALUE")
    given = [
        name
        for name in ("baseline", "against", "tolerance", "set")
        if config.getoption(f"--simcluster-{name}")
    ]
    if given and not config.getoption("--simcluster"):
        raise pytest.UsageError(f"--simcluster-{given[0]} says how scenarios are tested: add --simcluster")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """A scenario file as a collector of one test, where ``--simcluster`` asks for them."""
    if not parent.config.getoption("--simcluster") or file_path.suffix not in (".yaml", ".yml"):
        return None
    from simcluster.baseline import is_scenario

    return ScenarioFile.from_parent(parent, path=file_path) if is_scenario(file_path) else None


class ScenarioFile(pytest.File):
    """A scenario file."""

    def collect(self) -> Iterator[pytest.Item]:
        """Its one test."""
        yield ScenarioItem.from_parent(self, name="scenario")


class BrokenScenario(Exception):
    """Why the test of a scenario failed, in the words of ``simcluster check``."""


class ScenarioItem(pytest.Item):
    """A scenario that is simulated, and compared where that is asked for."""

    def runtest(self) -> None:
        """Fails if it does not run or fit, breaks its bounds, or is worse than what it is compared with."""
        option = self.config.getoption
        changes = [
            (key.strip(), value)
            for key, _, value in (text.partition("=") for text in option("--simcluster-set"))
        ]
        baseline, against = option("--simcluster-baseline"), option("--simcluster-against")
        if baseline or against:
            from simcluster.baseline import check

            self._judge(
                check(
                    [self.path],
                    baseline=baseline,
                    against=against,
                    tolerances=option("--simcluster-tolerance"),
                    changes=changes,
                )
            )
            return
        from simcluster.baseline import MeasuredScenario, measure_scenario

        measurement = measure_scenario(MeasuredScenario(self.path, tuple(changes)))
        self._say(measurement)
        if measurement.faults:
            raise BrokenScenario("\n".join(measurement.faults))

    def _judge(self, report: CheckReport) -> None:
        for outcome in report.outcomes:
            if outcome.new is not None:
                self._note(outcome.new.metrics)
            if outcome.error is not None and outcome.error.lacks:
                pytest.skip(str(outcome.error))
        if not report.passed:
            raise BrokenScenario(report.text())

    def _say(self, measurement: ScenarioMeasurement) -> None:
        if measurement.error is not None and measurement.error.lacks:
            pytest.skip(str(measurement.error))
        if measurement.record is not None:
            self._note(measurement.record.metrics)

    def _note(self, metrics: dict[str, float]) -> None:
        """Figures for ``--junit-xml`` and other reports of pytest."""
        for figure in ("step_time_s", "tokens_per_s_per_device", "mfu", "peak_memory_bytes_max"):
            self.user_properties.append((figure, metrics[figure]))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: object = None) -> str:
        """What is wrong, without a traceback: it is the scenario's fault, not that of a line of Python."""
        if isinstance(excinfo.value, BrokenScenario):
            return str(excinfo.value)
        return str(super().repr_failure(excinfo))

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """What reports call it."""
        return self.path, None, f"{self.path.name}: scenario"


class ScenarioRuns:
    """What the fixture ``simcluster`` gives: scenarios by their files, and their results.

    Files are named from pytest's root folder. A result is simulated once in a process, however many tests ask
    for it.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._results: dict[tuple[str, str], Result] = {}

    def load(self, path: str | Path, **changes: object) -> Scenario:
        """The scenario in a file, as ``simcluster.load`` gives it."""
        import simcluster

        return simcluster.load(self._root / path, **changes)

    def run(self, path: str | Path, **changes: object) -> Result:
        """The result of a scenario: ``run("scenarios/a.yaml", cluster__hosts=16)``."""
        import simcluster

        key = (str(path), repr(sorted(changes.items())))
        if key not in self._results:
            self._results[key] = simcluster.simulate(self.load(path, **changes))
        return self._results[key]


@pytest.fixture(scope="session", name="simcluster")
def _simcluster(pytestconfig: pytest.Config) -> ScenarioRuns:
    """Runs scenarios: ``simcluster.run("scenarios/a.yaml", cluster__hosts=16)`` gives a Result."""
    return ScenarioRuns(pytestconfig.rootpath)
