"""One or more cases for every registered operator kind: the files of ``tests/contracts/cases``.

Every file there holds the cases of some operator families as ``CASES``; a new file is found by itself. Every
dim that may be split has a size that divides by 4, so that both axes of a 2 x 2 mesh fit on it; with a size
that divides by 8, eight ranks fit too. What is declared unsplittable has an even size, so that a split that
would have been right can be found.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest

from simcluster.model import Operator
from simcluster.registry import kinds
from tests.contracts.operator_case import Case
from tests.support.covering import quick

FOLDER = Path(__file__).parent / "cases"


def registered() -> dict[str, type[Operator]]:
    """Every operator kind that is shipped or installed."""
    return kinds("simcluster.model.operators", Operator)


@cache
def cases() -> tuple[Case, ...]:
    """All cases, in order of files."""
    files = sorted(path.stem for path in FOLDER.glob("*.py"))
    return tuple(
        case for name in files for case in importlib.import_module(f"tests.contracts.cases.{name}").CASES
    )


def quick_cases(chosen: Iterable[Case]) -> pytest.MarkDecorator:
    """These cases as parameters of a test: all are thorough but the first of every operator kind."""
    listed = tuple(chosen)
    first = {case.operator.kind: case for case in reversed(listed)}
    return pytest.mark.parametrize("case", quick(listed, *first.values()), ids=str)


def cases_of(kind: str) -> tuple[Case, ...]:
    """The cases of one kind; an error that says where to write one if there is none."""
    found = tuple(case for case in cases() if case.operator.kind == kind)
    if not found:
        raise AssertionError(f"operator kind '{kind}' has no case: add one to CASES of a file in {FOLDER}")
    return found
