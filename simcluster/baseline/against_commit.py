"""A check against a commit: its scenario files and those at hand, run side by side by one simcluster."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from simcluster.baseline.compare import CheckOutcome, outcome_of
from simcluster.baseline.file_search import scenario_files
from simcluster.baseline.git_files import CommitFiles, commit_files
from simcluster.baseline.measurement import ScenarioMeasurement, flattened
from simcluster.baseline.report import CheckReport
from simcluster.baseline.tolerance import Tolerances
from simcluster.document import Document, real_path
from simcluster.errors import Problem, ScenarioError

MOST_EDITS = 5
"""Changed keys of a file that are told."""


def check_against(
    ref: str,
    given: Sequence[Path],
    tolerances: Tolerances,
    measure: Callable[[Sequence[Path]], list[ScenarioMeasurement]],
) -> CheckReport:
    """The scenarios below ``given`` as they are at hand, beside those that a commit has there.

    Raises ScenarioError where there is no such commit, and for paths that neither side has.
    """
    if not given:
        raise ScenarioError(
            Problem("say which scenarios: simcluster check scenarios/ --against main", where="--against")
        )
    with commit_files(ref, _nearest_folder(given[0])) as commit:
        here = {real_path(path): path for path in scenario_files(_present(given, commit))}
        there = _of_commit(commit, given)
        names = {commit.counterpart(place): name for place, name in here.items()}
        pairs: list[tuple[Path, Path | None, Path | None]] = [
            (name, old if old in there else None, name) for old, name in names.items()
        ]
        pairs += [(_name(commit, old), old, None) for old in there if old not in names]
        pairs = [
            (name, new if old is not None and new is not None and _is_same_run(old, new) else old, new)
            for name, old, new in pairs
        ]
        files = list(dict.fromkeys(path for _, *sides in pairs for path in sides if path is not None))
        measured: dict[Path | None, ScenarioMeasurement] = dict(zip(files, measure(files), strict=True))
        outcomes = [
            _outcome(str(name), measured.get(old), measured.get(new), tolerances) for name, old, new in pairs
        ]
    return CheckReport(f"{ref} ({commit.commit})", tuple(given), tuple(outcomes), ref=ref)


def _is_same_run(old: Path, new: Path) -> bool:
    """Whether one run serves both sides: the same text, and no word of it may name another file."""
    if old.read_bytes() != new.read_bytes():
        return False
    try:
        lines = flattened("", Document.read(new).data)
    except ScenarioError:
        return False
    texts = {text for _, value in lines for text in (value, *re.findall(r"[^\s,'\"\[\]]+", value))}
    return not any(_exists(folder / text) for text in texts for folder in (old.parent, new.parent))


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):
        return False  # no text that could be a name


def _nearest_folder(path: Path) -> Path:
    """The folder that a path is in, as far as it is there: the commit may have more."""
    path = path.absolute()
    while not path.is_dir():
        path = path.parent
    return path


def _present(given: Sequence[Path], commit: CommitFiles) -> list[Path]:
    """The paths at hand; one that the commit alone has is no mistake."""
    return [path for path in given if path.exists() or not commit.counterpart(path).exists()]


def _of_commit(commit: CommitFiles, given: Sequence[Path]) -> list[Path]:
    """The commit's scenario files below the paths."""
    files: list[Path] = []
    for path in map(commit.counterpart, given):
        if path.is_file():
            files.append(path)
        elif path.is_dir():
            try:
                files += scenario_files([path])
            except ScenarioError:
                continue  # the folder had no scenario then
    return list(dict.fromkeys(files))


def _name(commit: CommitFiles, path: Path) -> Path:
    """The name of a file that the commit alone has, as it would be called from here."""
    return Path(path.relative_to(commit.folder))


def _outcome(
    key: str, old: ScenarioMeasurement | None, new: ScenarioMeasurement | None, tolerances: Tolerances
) -> CheckOutcome:
    record, why = (old.record, old.error) if old is not None else (None, None)
    if new is None:
        return CheckOutcome(key, record, old_error=why)
    outcome = outcome_of(key, record, new, tolerances)
    edits = _edits(dict(old.lines), dict(new.lines)) if record is not None and old is not None else []
    return replace(outcome, edits=tuple(edits), old_error=why)


def _edits(old: dict[str, str], new: dict[str, str]) -> list[str]:
    """The keys of a scenario that differ, with both values."""
    edits = []
    for key in {**old, **new}:
        before, after = old.get(key), new.get(key)
        if before != after:
            absent = "left out"
            edits.append(f"{key}: {before if before is not None else absent} -> {after or absent}")
    more = [f"and {len(edits) - MOST_EDITS} more keys"] if len(edits) > MOST_EDITS else []
    return [*edits[:MOST_EDITS], *more]
