"""Patterns over names that are made of few parts: millions of names without writing one of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray

_State = frozenset[tuple[int, int]]


class Glob:
    """A pattern: ``*`` any run of characters, ``?`` one, ``{a,b*}`` either, as operator patterns have it."""

    def __init__(self, pattern: str) -> None:
        self._ways = _alternatives(pattern)
        self._followed: dict[tuple[_State, str], _State] = {}

    def chosen(self, texts: Sequence[str], axes: Sequence[Sequence[str]]) -> NDArray[np.bool_]:
        """Which names fit, one place for each combination of labels of the ``axes``.

        A name is ``texts[0] + label of axes[0] + texts[1] + ...``. The pattern is followed part by part, and
        labels that lead to the same place in it are one.
        """
        fits = np.zeros([len(axis) for axis in axes], dtype=np.bool_)
        start = frozenset((way, 0) for way in range(len(self._ways)))
        self._fill(fits, self._closed(start), texts, axes)
        return fits

    def _fill(
        self, found: NDArray[np.bool_], state: _State, texts: Sequence[str], axes: Sequence[Sequence[str]]
    ) -> None:
        state = self._after(state, texts[0])
        if not state:
            return
        if not axes:
            found[...] = any(place == len(self._ways[way]) for way, place in state)
            return
        groups: dict[_State, list[int]] = {}
        for index, label in enumerate(axes[0]):
            groups.setdefault(self._after(state, label), []).append(index)
        for after, indices in groups.items():
            inner = np.zeros(found.shape[1:], dtype=np.bool_)
            self._fill(inner, after, texts[1:], axes[1:])
            found[indices] = inner

    def _after(self, state: _State, text: str) -> _State:
        """The places in the pattern that reading a text leads to."""
        after = self._followed.get((state, text))
        if after is None:
            after = self._followed[state, text] = self._read(state, text)
        return after

    def _read(self, state: _State, text: str) -> _State:
        for character in text:
            moved = set()
            for way, place in state:
                pattern = self._ways[way]
                if place == len(pattern):
                    continue
                if pattern[place] == "*":
                    moved.add((way, place))
                elif pattern[place] in ("?", character):
                    moved.add((way, place + 1))
            if not moved:
                return frozenset()
            state = self._closed(frozenset(moved))
        return state

    def _closed(self, state: _State) -> _State:
        """With the places that are reached by reading nothing: behind a star."""
        reached = set(state)
        for way, place in state:
            while place < len(self._ways[way]) and self._ways[way][place] == "*":
                place += 1
                reached.add((way, place))
        return frozenset(reached)


def _alternatives(pattern: str) -> tuple[str, ...]:
    """The patterns without braces that one with braces stands for."""
    parts: list[tuple[str, ...]] = []
    for token in re.findall(r"\{[^{}]*\}|[^{}]+|[{}]", pattern):
        if len(token) > 1 and token[0] == "{":
            parts.append(tuple(choice.strip() for choice in token[1:-1].split(",")))
        else:
            parts.append((token,))
    return tuple("".join(way) for way in product(*parts))
