"""The regression check: runs scenarios and compares them with a baseline and with their own bounds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from simcluster.baseline import record
from simcluster.baseline.compare import CheckOutcome, drifts
from simcluster.baseline.file_search import scenario_files
from simcluster.baseline.record import Record
from simcluster.baseline.report import CheckReport, update_command
from simcluster.baseline.scenario_bounds import bounds_of, check_bounds
from simcluster.baseline.tolerance import Tolerances
from simcluster.document import real_path
from simcluster.errors import Problem, ScenarioError, SimclusterError
from simcluster.scenario import Scenario
from simcluster.simulation import simulate
from simcluster.trace import Run


def check(
    paths: Iterable[str | Path] = (),
    baseline: str | Path = "baseline.json",
    tolerances: str | Iterable[str] | Tolerances = (),
    *,
    update: bool = False,
    allow_new: bool = False,
    run: Callable[[Scenario], Run] = simulate,
) -> CheckReport:
    """Runs scenarios and compares their figures with a baseline; ``update`` writes the baseline anew.

    A scenario that the baseline does not have fails the check, unless ``allow_new``.

    ``paths`` are files and folders, by default what the baseline holds. ``tolerances`` are written
    ``step_time=1%,peak_memory=0.5%``. A scenario that cannot be run is part of the report; with one of them
    nothing is written. Raises ScenarioError for an unreadable or missing baseline, wrong tolerances and
    folders without a scenario, and OSError if the baseline cannot be written.
    """
    target, given = Path(baseline), list(map(Path, paths))
    if not isinstance(tolerances, Tolerances):
        tolerances = Tolerances.parse(tolerances)
    known = _known(target, given, update=update)
    files = (
        scenario_files(given) if given else [path for key in known if (path := _path(target, key)).exists()]
    )
    keys = {record.key_of(path, target): path for path in files}
    outcomes = [_outcome(key, path, known.get(key), tolerances, run) for key, path in keys.items()]
    gone = [key for key in known if key not in keys and _expected(key, target, given)]
    outcomes += [CheckOutcome(key, old=known[key]) for key in gone]
    writes = update and not any(outcome.error for outcome in outcomes)
    if writes:
        kept = {key: old for key, old in known.items() if key not in gone}
        record.save(target, kept | {outcome.key: outcome.new for outcome in outcomes if outcome.new})
    unseen = len(known) - sum(outcome.old is not None for outcome in outcomes)
    return CheckReport(target, tuple(given), tuple(outcomes), unseen, update, writes, allow_new)


def _known(target: Path, given: Sequence[Path], *, update: bool) -> Mapping[str, Record]:
    """The records of the baseline; none if it is about to be made."""
    if target.exists() or real_path(target).is_symlink():
        return record.load(target)
    if update and given:
        return {}
    command = update_command(target, given or [Path("scenarios")])
    raise ScenarioError(Problem("there is no such baseline", hint=f"create it: {command}", where=str(target)))


def _outcome(
    key: str, path: Path, old: Record | None, tolerances: Tolerances, run: Callable[[Scenario], Run]
) -> CheckOutcome:
    try:
        scenario = Scenario.load(path)
        bounds_of(scenario)
        result = run(scenario)
    except SimclusterError as error:
        return CheckOutcome(key, old, error=error)
    new = Record.of(result)
    moved = drifts(old, new, tolerances) if old is not None else ()
    return CheckOutcome(key, old, new, moved, check_bounds(scenario, result))


def _path(target: Path, key: str) -> Path:
    """Where the scenario of a record should be."""
    return target.parent / key


def _expected(key: str, target: Path, given: Sequence[Path]) -> bool:
    """Whether a record belongs to what was to be checked: everything, or what lies in one of the folders."""
    place = real_path(_path(target, key))
    return not given or any(place.is_relative_to(real_path(folder)) for folder in given if folder.is_dir())
