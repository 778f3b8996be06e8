"""Layouts as MindSpore's ``Layout`` class writes them: a named device matrix, and aliases per tensor dim."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from simcluster.deferred_dataclass import dataclass
from simcluster.errors import ScenarioError, nearest
from simcluster.layout.device_matrix import SubAxis

NONE = "None"
"""The alias of a dim that stays whole."""


@dataclass(frozen=True, slots=True)
class MindSporeLayout:
    """How a tensor lies on a device matrix with named dims, as ``mindspore.parallel.Layout``.

        layout = MindSporeLayout((8, 4, 4), ("dp", "sp", "mp"))
        layout("dp", ("sp", "mp"), "None")

    ``rank_list`` gives the ranks of a stage in the order of the matrix, row by row; 0, 1, 2 and so on if it
    is left out. Aliases that no dim names hold replicas. Raises ScenarioError for what is no such layout.
    """

    device_matrix: tuple[int, ...]
    alias_name: tuple[str, ...]
    rank_list: tuple[int, ...] | None = None
    dims: tuple[tuple[str, ...], ...] | None = None

    def __post_init__(self) -> None:
        for name in ("device_matrix", "alias_name", "rank_list"):
            value = getattr(self, name)
            object.__setattr__(self, name, None if value is None else tuple(value))
        if not self.device_matrix or any(size < 1 for size in self.device_matrix):
            raise ScenarioError(f"device_matrix {self.device_matrix} needs sizes of at least 1")
        if len(self.alias_name) != len(self.device_matrix):
            raise ScenarioError(
                f"device_matrix has {len(self.device_matrix)} dims, alias_name {len(self.alias_name)} names"
            )
        if len(set(self.alias_name)) < len(self.alias_name) or NONE in self.alias_name:
            raise ScenarioError(f"alias_name {self.alias_name} needs different names, none of them '{NONE}'")
        ranks, wanted = self.rank_list, math.prod(self.device_matrix)
        if ranks is not None and not len(ranks) == len(set(ranks)) == wanted:
            shown = " x ".join(map(str, self.device_matrix))
            raise ScenarioError(
                f"rank_list has {len(set(ranks))} different ranks among {len(ranks)}, device_matrix "
                f"{shown} = {wanted}"
            )

    def __call__(self, *names: str | Sequence[str]) -> MindSporeLayout:
        """The layout of a tensor: per dim an alias, several of them (outer first), or ``"None"``."""
        dims = tuple(_aliases(name) for name in names)
        used = [alias for dim in dims for alias in dim]
        for alias in used:
            if alias not in self.alias_name:
                raise ScenarioError(
                    f"the layout has no alias '{alias}'", hint=nearest(alias, self.alias_name)
                )
            if used.count(alias) > 1:
                raise ScenarioError(f"alias '{alias}' splits two dims at once")
        return replace(self, dims=dims)

    @property
    def tensor_map(self) -> tuple[int | tuple[int, ...], ...]:
        """Per dim the places of its aliases in the matrix, counted from the right; -1 where it is whole."""
        last = len(self.alias_name) - 1
        places = [tuple(last - self.alias_name.index(alias) for alias in dim) for dim in self.dims or ()]
        return tuple(-1 if not place else place[0] if len(place) == 1 else place for place in places)

    def digits(self, alias: str) -> tuple[SubAxis, ...]:
        """The ranks of a stage that an alias separates, outermost first.

        Raises ScenarioError where ``rank_list`` orders them in a way that no digits of rank numbers do.
        """
        index = self.alias_name.index(alias)
        size, inner = self.device_matrix[index], math.prod(self.device_matrix[index + 1 :])
        if self.rank_list is None:
            return (SubAxis(inner, size),) if size > 1 else ()
        first = min(self.rank_list)
        ranks = [rank - first for rank in self.rank_list]
        along = ranks[:: inner or 1][:size]
        outer = range(0, len(ranks), inner * size)
        for start in outer:
            for offset in range(inner):
                column = ranks[start + offset : start + offset + inner * size : inner]
                if [rank - column[0] for rank in column] != [rank - along[0] for rank in along]:
                    raise ScenarioError(f"rank_list gives '{alias}' no one stride: {along} and {column}")
        return _digits([rank - along[0] for rank in along], alias)


def _aliases(written: str | Sequence[str]) -> tuple[str, ...]:
    if isinstance(written, str):
        return () if written == NONE else (written,)
    return tuple(written)


def _digits(offsets: Sequence[int], alias: str) -> tuple[SubAxis, ...]:
    """Offsets 0, a, 2a, .. in mixed radix, outermost digit first."""
    if len(offsets) == 1:
        return ()
    stride = offsets[1]
    length = next((place for place, offset in enumerate(offsets) if offset != place * stride), len(offsets))
    rest = offsets[::length]
    repeated = len(offsets) % length == 0 and all(
        offset == rest[place // length] + place % length * stride for place, offset in enumerate(offsets)
    )
    if stride < 1 or not repeated:
        raise ScenarioError(f"rank_list orders the ranks of '{alias}' as {list(offsets)}, in no regular way")
    return (*_digits(rest, alias), SubAxis(stride, length))
