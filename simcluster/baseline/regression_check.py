"""The regression check: runs scenarios and compares them with a baseline and with their own bounds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from simcluster.baseline import record
from simcluster.baseline.against_commit import check_against
from simcluster.baseline.compare import CheckOutcome, outcome_of
from simcluster.baseline.file_search import scenario_files
from simcluster.baseline.measurement import MeasuredFile, ScenarioMeasurement, measure_all
from simcluster.baseline.record import Record
from simcluster.baseline.report import CheckReport, update_command
from simcluster.baseline.tolerance import Tolerances
from simcluster.document import real_path
from simcluster.errors import Problem, ScenarioError
from simcluster.scenario import Scenario
from simcluster.simulation import simulate
from simcluster.trace import Run


def check(
    paths: str | Path | Iterable[str | Path] = (),
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

    ``paths`` are files and folders, by default what the baseline holds. ``tolerances`` are written
    ``step_time=1%,peak_memory=0.5%``; ``changes`` are (key path, YAML text) pairs that replace what all
    scenarios say. ``jobs`` processes share the scenarios: one alone is this one, where ``run`` simulates;
    several call ``watch`` with how many are done, and of how many.

    A scenario that cannot be run is part of the report; with one of them nothing is written. Raises
    ScenarioError for an unreadable or missing baseline, no such commit, wrong tolerances and folders without
    a scenario, and OSError if the baseline cannot be written.
    """
    given = [Path(paths)] if isinstance(paths, (str, Path)) else list(map(Path, paths))
    if not isinstance(tolerances, Tolerances):
        tolerances = Tolerances.parse(tolerances)

    def measure(files: Sequence[Path]) -> list[ScenarioMeasurement]:
        return measure_all([MeasuredFile(path, tuple(changes)) for path in files], jobs, run, watch)

    if against is not None:
        if baseline is not None or update:
            raise ScenarioError("a check is against a baseline or against a commit: give one of them")
        return check_against(against, given, tolerances, measure)
    target = Path("baseline.json" if baseline is None else baseline)
    known = _known(target, given, update=update)
    files = (
        scenario_files(given) if given else [path for key in known if (path := _path(target, key)).exists()]
    )
    keys = [record.key_of(path, target) for path in files]
    outcomes = [
        outcome_of(key, known.get(key), measurement, tolerances)
        for key, measurement in zip(keys, measure(files), strict=True)
    ]
    gone = [key for key in known if key not in keys and _expected(key, target, given)]
    outcomes += [CheckOutcome(key, old=known[key]) for key in gone]
    writes = update and not any(outcome.error for outcome in outcomes)
    if writes:
        kept = {key: old for key, old in known.items() if key not in gone}
        record.save(target, kept | {outcome.key: outcome.new for outcome in outcomes if outcome.new})
    unseen = len(known) - sum(outcome.old is not None for outcome in outcomes)
    return CheckReport(str(target), tuple(given), tuple(outcomes), unseen, update, writes, allow_new)


def _known(target: Path, given: Sequence[Path], *, update: bool) -> Mapping[str, Record]:
    """The records of the baseline; none if it is about to be made."""
    if target.exists() or real_path(target).is_symlink():
        return record.load(target)
    if update and given:
        return {}
    command = update_command(str(target), given or [Path("scenarios")])
    raise ScenarioError(Problem("there is no such baseline", hint=f"create it: {command}", where=str(target)))


def _path(target: Path, key: str) -> Path:
    """Where the scenario of a record should be."""
    return target.parent / key


def _expected(key: str, target: Path, given: Sequence[Path]) -> bool:
    """Whether a record belongs to what was to be checked: everything, or what lies in one of the folders."""
    place = real_path(_path(target, key))
    return not given or any(place.is_relative_to(real_path(folder)) for folder in given if folder.is_dir())
