"""Scenario files: those named by the user, and those found in folders."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from simcluster.document import Refused, content_of, real_path
from simcluster.errors import Problem, ScenarioError

SUFFIXES = (".yaml", ".yml")

_MARK = re.compile(r"^simcluster\s*:", re.MULTILINE)


def scenario_files(paths: Iterable[str | Path]) -> list[Path]:
    """Every scenario once: files as given, and in folders every ``*.yaml`` with a key ``simcluster:``.

    Hidden folders are left out. A file is returned in any case, even if there is none or it is no scenario.
    Raises ScenarioError for a folder without a scenario.
    """
    files: dict[Path, Path] = {}
    problems = []
    for path in map(Path, paths):
        if not path.is_dir():
            files.setdefault(real_path(path), path)
            continue
        inside = list(_inside(path))
        if not inside:
            message = "no scenario in this folder: no *.yaml with a line 'simcluster: 1'"
            problems.append(Problem(message, where=str(path)))
        for file in inside:
            files.setdefault(real_path(file), file)
    if problems:
        raise ScenarioError(*problems)
    return list(files.values())


def _inside(folder: Path) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = Path(parent, name)
            if path.suffix in SUFFIXES and not name.startswith(".") and is_scenario(path):
                yield path


def is_scenario(path: Path) -> bool:
    """Whether a file says it is one; a broken file that says so is a scenario with a mistake."""
    try:
        text = content_of(path).decode("utf-8", errors="replace")
    except Refused:
        return False
    return _MARK.search(text) is not None
