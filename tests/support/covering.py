"""Covering arrays: few rows of choices in which every so many values of different factors meet."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import pytest

Row = dict[str, Any]

_Chosen = dict[int, int]
"""Number of a factor -> number of a value."""
_Set = frozenset[tuple[int, int]]

_TRIES = 6
"""Rows that are tried for each one that is taken."""


def covering(
    factors: Mapping[str, Sequence[Any]],
    strength: int = 2,
    legal: Callable[[Row], bool] = lambda row: True,
    elsewhere: Collection[str] = (),
    small: Collection[str] = (),
) -> list[Row]:
    """Rows in which every ``strength`` values of different factors meet, if a legal row can have them.

    Factors that meet each other ``elsewhere``, in another test, need not meet here, unless others are with
    them. ``legal`` is asked about incomplete rows too. Greedy and seeded: each row begins with values that
    have not met, and takes factor by factor the value that lets most others meet: of several the first of
    factors that are ``small`` so, such as a number of micro-batches, or any.
    """
    names, choices = list(factors), list(factors.values())
    todo: dict[_Set, None] = {
        frozenset(zip(which, values, strict=True)): None
        for which in itertools.combinations(range(len(names)), strength)
        if not {names[factor] for factor in which} <= set(elsewhere)
        for values in itertools.product(*(range(len(choices[factor])) for factor in which))
    }
    rng = random.Random(0)

    def row_of(chosen: _Chosen) -> Row:
        return {names[factor]: choices[factor][chosen[factor]] for factor in sorted(chosen)}

    def filled(needed: _Set) -> _Chosen | None:
        chosen = dict(needed)
        rest = [factor for factor in range(len(names)) if factor not in chosen]
        rng.shuffle(rest)
        for factor in rest:
            values = [*range(len(choices[factor]))]
            if names[factor] not in small:
                rng.shuffle(values)
            others = [*itertools.combinations(chosen.items(), strength - 1)]
            values.sort(
                key=lambda value: -sum(frozenset((*each, (factor, value))) in todo for each in others)
            )
            fitting = (value for value in values if legal(row_of({**chosen, factor: value})))
            found = next(fitting, None)
            if found is None:
                return None
            chosen[factor] = found
        return chosen

    found: list[Row] = []
    while todo:
        needed = next(iter(todo))
        tries = _TRIES if legal(row_of(dict(needed))) else 0
        rows = [row for row in (filled(needed) for _ in range(tries)) if row is not None]
        met = [[frozenset(each) for each in itertools.combinations(row.items(), strength)] for row in rows]
        best = max(range(len(rows)), key=lambda index: sum(each in todo for each in met[index]), default=None)
        if best is None:
            del todo[needed]
            continue
        for each in met[best]:
            todo.pop(each, None)
        found.append(row_of(rows[best]))
    return found


def thorough_but_few(
    rows: Sequence[Row], elsewhere: Collection[str] = (), later: Callable[[Row], bool] = lambda row: False
) -> list[Any]:
    """The rows as parameters of a test: all are thorough but a few in which every value occurs, and those
    that are shown ``later``, which are exhaustive.

    Of a tuple every item occurs, not every tuple: of a recipe on a mesh every recipe and every mesh. Factors
    whose values are met ``elsewhere``, in another quick test, do not count.
    """
    few: list[Row] = []
    values = [
        {(name, str(part)) for name, value in row.items() if name not in elsewhere for part in _parts(value)}
        for row in rows
    ]
    todo: set[tuple[str, str]] = set().union(*values)
    while todo:
        best = max(range(len(rows)), key=lambda index: len(values[index] & todo))
        few.append(rows[best])
        todo -= values[best]
    marks = {False: pytest.mark.thorough, True: pytest.mark.exhaustive}
    return [row if row in few else pytest.param(row, marks=marks[later(row)]) for row in rows]


def quick(values: Iterable[Any], *few: Any, later: Collection[Any] = ()) -> list[Any]:
    """Values as parameters of a test, tuples for several: all but these few are thorough, and exhaustive
    those that are shown ``later``.
    """
    listed = list(values)
    assert all(value in listed for value in (*few, *later))
    parts = [value if isinstance(value, tuple) else (value,) for value in listed]
    rest = [pytest.mark.exhaustive if value in later else pytest.mark.thorough for value in listed]
    marks = [() if value in few else mark for value, mark in zip(listed, rest, strict=True)]
    return [pytest.param(*each, marks=mark) for each, mark in zip(parts, marks, strict=True)]


def quick_at(values: Iterable[Any], *numbers: int) -> list[Any]:
    """The same where the few are said by their numbers in the list, from 0."""
    listed = list(values)
    return quick(listed, *(listed[number] for number in numbers))


def _parts(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)
