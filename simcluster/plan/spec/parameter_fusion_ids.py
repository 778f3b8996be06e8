"""Fusion ids: which parameters' collectives may be one (MindSpore's ``Parameter.comm_fusion``)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from simcluster.document import Name, NonNegativeInt, Section, matches
from simcluster.errors import PlanError, Problem, nearest

USUAL = 1
"""The fusion id of a parameter that nobody gave one (MindSpore's default)."""

ALONE = 0
"""The fusion id of what never travels together with anything."""


class FusionIdSpec(Section):
    """A fusion id for the parameters whose names match a pattern."""

    match: Name
    """Parameter names: ``layers.*.mlp.*``, with ``*``, ``?`` and ``{a,b}``."""

    id: NonNegativeInt
    """Only equal ids travel together; 0 travels alone; 1 is that of every parameter without an entry."""


def fusion_ids(entries: Sequence[FusionIdSpec], parameters: Collection[str]) -> Mapping[str, int]:
    """Parameter -> fusion id, for those with another than the usual one; later entries win.

    Tied parameters go by the name under which they count. PlanError with every pattern that matches none.
    """
    ids: dict[str, int] = {}
    problems = []
    for place, entry in enumerate(entries):
        meant = [name for name in parameters if matches(entry.match, name)]
        if not meant:
            path = f"parallel.fusion.ids.{place}.match"
            words = f"no parameter is called '{entry.match}'"
            problems.append(Problem(words, path, nearest(entry.match, _shown(parameters))))
        ids |= dict.fromkeys(meant, entry.id)
    if problems:
        raise PlanError(*problems)
    return {name: number for name, number in ids.items() if number != USUAL}


def _shown(parameters: Collection[str]) -> list[str]:
    """The names with one ``*`` for the numbers of layers, so that a hint is short."""
    return sorted(
        {".".join("*" if part.isdigit() else part for part in name.split(".")) for name in parameters}
    )
