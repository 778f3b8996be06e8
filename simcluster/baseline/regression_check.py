"""The regression check: runs scenarios and compares them with a baseline and with their own bounds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias, cast

from simcluster.baseline import record
from simcluster.baseline.against_commit import check_against
from simcluster.baseline.compare import CheckOutcome, outcome_of
from simcluster.baseline.file_search import scenario_files
from simcluster.baseline.measurement import MeasuredScenario, ScenarioMeasurement, measure_all
from simcluster.baseline.record import Record
from simcluster.baseline.report import CheckReport, update_command
from simcluster.baseline.tolerance import Tolerances
from simcluster.document import real_path
from simcluster.errors import Problem, ScenarioError
from simcluster.report import message_display
from simcluster.scenario import Scenario
from simcluster.simulation import GivenScenario, ShardedGraph, scenario_of, simulate
from simcluster.trace import Run

Checked: TypeAlias = "GivenScenario | Iterable[GivenScenario]"
"""Files and folders, scenarios, plain data; one of them or several."""


def check(
    scenarios: Checked = (),
    baseline: str | Path | None = None,
    tolerances: str | Iterable[str] | Tolerances = (),
    *,
    against: str | None = None,
    update: bool = False,
    allow_new: bool = False,
    changes: Iterable[tuple[str, str]] = (),
    jobs: int = 1,
    run: Callable[[Scenario], Run] = simulate,
    watch: Callable[[int, int], None] | None = None,
) -> CheckReport:
    """Runs scenarios and compares their figures with a baseline, or with those of a commit ``against``.

    ``baseline`` is a file, by default ``baseline.json``, that ``update`` writes anew. A scenario that it does
    not have fails the check, unless ``allow_new``. ``against`` names a commit, branch or tag of git: its
    files are run beside those at hand, both by this simcluster, so that nothing is kept that could grow old;
    what only one side has is told and passes.

    ``scenarios`` are files and folders, by default what the baseline holds, or scenarios in the other forms
    that ``simulate`` takes: a baseline knows those by their names. ``tolerances`` are written
    ``step_time=1%,peak_memory=0.5%``; ``changes`` are (key path, YAML text) pairs that replace what all
    scenarios say. ``jobs`` processes share the scenarios: one alone is this one, where ``run`` simulates;
    several call ``watch`` with how many are done, and of how many.

    A scenario that cannot be run is part of the report; with one of them nothing is written. Raises
    ScenarioError for an unreadable or missing baseline, no such commit, wrong tolerances, folders without
    a scenario, two scenarios of one name, and for wrong ones that are no files; OSError if the baseline
    cannot be written.
    """
    given, by_name = _sorted_out(scenarios)
    if not isinstance(tolerances, Tolerances):
        tolerances = Tolerances.parse(tolerances)

    def measure(sources: Sequence[Path | Scenario]) -> list[ScenarioMeasurement]:
        asked = [MeasuredScenario(source, tuple(changes)) for source in sources]
        with message_display("check") as tell:

            def told_run(scenario: Scenario) -> Run:
                tell(f"simulating {scenario.name}")
                return run(scenario)

            def told_watch(done: int, total: int) -> None:
                tell(f"{done} of {total} scenarios")
                if watch is not None:
                    watch(done, total)

            return measure_all(asked, jobs, told_run, told_watch)

    if against is not None:
        if baseline is not None or update:
            raise ScenarioError("a check is against a baseline or against a commit: give one of them")
        if by_name:
            raise ScenarioError("a commit has files: give files and folders, or a baseline")
        return check_against(against, given, tolerances, measure)
    target = Path("baseline.json" if baseline is None else baseline)
    known = _known(target, given, by_name, update=update)
    all_known = [] if by_name else [path for key in known if (path := _path(target, key)).exists()]
    files = scenario_files(given) if given else all_known
    keys = [*(record.key_of(path, target) for path in files), *by_name]
    outcomes = [
        outcome_of(key, known.get(key), measurement, tolerances)
        for key, measurement in zip(keys, measure([*files, *by_name.values()]), strict=True)
    ]
    whole = not (given or by_name)
    gone = [key for key in known if key not in keys and (whole or _is_below(key, target, given))]
    outcomes += [CheckOutcome(key, old=known[key]) for key in gone]
    writes = update and not any(outcome.error for outcome in outcomes)
    if writes:
        kept = {key: old for key, old in known.items() if key not in gone}
        record.save(target, kept | {outcome.key: outcome.new for outcome in outcomes if outcome.new})
    unseen = len(known) - sum(outcome.old is not None for outcome in outcomes)
    return CheckReport(
        str(target),
        tuple(given),
        tuple(outcomes),
        unseen,
        update,
        writes,
        allow_new,
        has_unfiled=bool(by_name),
    )


def _sorted_out(scenarios: Checked) -> tuple[list[Path], dict[str, Scenario]]:
    """Files and folders, and by name the scenarios that are no files."""
    one = isinstance(scenarios, (str, Path, Mapping, Scenario, ShardedGraph))
    paths: list[Path] = []
    by_name: dict[str, Scenario] = {}
    for given in cast("Iterable[GivenScenario]", (scenarios,) if one else scenarios):
        if isinstance(given, (str, Path)):
            paths.append(Path(given))
            continue
        scenario = scenario_of(given)
        if scenario.name in by_name:
            raise ScenarioError(f"there are two scenarios '{scenario.name}': give each a name of its own")
        by_name[scenario.name] = scenario
    return paths, by_name


def _known(
    target: Path, given: Sequence[Path], by_name: Mapping[str, Scenario], *, update: bool
) -> Mapping[str, Record]:
    """The records of the baseline; none if it is about to be made."""
    if target.exists() or real_path(target).is_symlink():
        return record.load(target)
    if update and (given or by_name):
        return {}
    command = update_command(str(target), given or [Path("scenarios")])
    hint = "create it with update=True" if by_name else f"create it: {command}"
    raise ScenarioError(Problem("there is no such baseline", hint=hint, where=str(target)))


def _path(target: Path, key: str) -> Path:
    """Where the scenario of a record should be."""
    return target.parent / key


def _is_below(key: str, target: Path, given: Sequence[Path]) -> bool:
    """Whether the scenario of a record lies in one of the folders."""
    place = real_path(_path(target, key))
    return any(place.is_relative_to(real_path(folder)) for folder in given if folder.is_dir())
