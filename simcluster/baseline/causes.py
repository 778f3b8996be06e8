"""What made the step time or the memory of a scenario move: parts of the step, operators, collectives."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from simcluster import units
from simcluster.baseline.composition import SMALLEST_SHARE, Composition
from simcluster.deferred_dataclass import dataclass

MOST_LISTED = 3
"""Causes of a kind that are told: the largest."""

_SMALLEST = 0.05
"""Changes of less than this share of the largest one of their kind are not told."""


@dataclass(frozen=True, slots=True)
class DriftCause:
    """Something that takes more or less than before: seconds of a step, or bytes at the peak.

    ``kind`` is ``step``, ``operators``, ``collectives`` or ``memory``.
    """

    kind: str
    name: str
    old: float
    new: float

    @property
    def change(self) -> float:
        """How much more it is now."""
        return self.new - self.old

    def __str__(self) -> str:
        reading = units.size if self.kind == "memory" else units.seconds
        sign = "+" if self.change > 0 else "-"
        text = f"{self.name} {sign}{reading(abs(self.change))}"
        if self.kind == "memory" or self.kind == "step":
            return text
        share = f" ({100 * self.change / self.old:+.0f} %)" if self.old and self.new else ""
        return f"{text}{share or (' (gone)' if self.old else ' (new)')}"


def causes_of(old: Composition, new: Composition, moved: Iterable[str]) -> tuple[DriftCause, ...]:
    """What changed most between two compositions; ``moved`` are the figures that are to be explained.

    The parts of the step sum to the step, so their changes sum to its change. Operators and collectives are
    told by all the time they take, also where it is hidden.
    """
    figures = set(moved)
    kinds = [*_kinds(figures)]
    return tuple(cause for kind in kinds for cause in _largest(kind, old, new))


def _kinds(figures: set[str]) -> Iterator[str]:
    if any("memory" not in figure and not figure.startswith("num_") for figure in figures):
        yield from ("step", "operators", "collectives")
    if any("memory" in figure for figure in figures):
        yield "memory"


def _largest(kind: str, old: Composition, new: Composition) -> list[DriftCause]:
    before: Mapping[str, Any] = getattr(old, kind)
    after: Mapping[str, Any] = getattr(new, kind)
    causes = [
        DriftCause(kind, name, before.get(name, 0.0), after.get(name, 0.0)) for name in {**before, **after}
    ]
    whole = sum((old.memory if kind == "memory" else old.step).values())
    least = max(SMALLEST_SHARE * whole, _SMALLEST * max((abs(cause.change) for cause in causes), default=0.0))
    told = [cause for cause in causes if abs(cause.change) >= least and cause.change]
    return sorted(told, key=lambda cause: (-abs(cause.change), cause.name))[:MOST_LISTED]


def cause_lines(causes: Iterable[DriftCause]) -> Iterator[tuple[str, str]]:
    """(heading, the causes under it) in the order of kinds."""
    by_kind: dict[str, list[str]] = {}
    for cause in causes:
        by_kind.setdefault(cause.kind, []).append(str(cause))
    for kind, texts in by_kind.items():
        yield _HEADINGS[kind], ", ".join(texts)


_HEADINGS = {
    "step": "step",
    "operators": "operators",
    "collectives": "collectives, exposed or not",
    "memory": "memory",
}
