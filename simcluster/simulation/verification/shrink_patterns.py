"""Patterns of a scenario in its small form: those are left out that fit nothing in the small model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Protocol, TypeVar

from simcluster.deferred_dataclass import dataclass
from simcluster.document import matches
from simcluster.model import Graph


class _Entry(Protocol):
    """A part of a section that is about what its pattern fits."""

    @property
    def match(self) -> str: ...


E = TypeVar("E", bound=_Entry)


@dataclass(frozen=True)
class GraphNames:
    """The names in the graph of the small model; a pattern that fits none is about what it does not have."""

    graph: Graph

    @cached_property
    def operators(self) -> list[str]:
        """The full names of operators."""
        return [f"{instance.name}.{node.name}" for instance, node in self.graph.nodes()]

    @cached_property
    def parameters(self) -> list[str]:
        """The full names of parameters."""
        return [name for name, _ in self.graph.parameters()]

    @property
    def on_host(self) -> list[str]:
        """The full names of all that may be on the host: operators, and the updates that there always are."""
        return [*self.operators, *(f"{name}.update" for name in self.parameters)]


def fits(pattern: str, names: Iterable[str]) -> bool:
    """Whether a pattern fits any of the names."""
    return any(matches(pattern, name) for name in names)


def fitting(entries: Iterable[E], names: Sequence[str]) -> tuple[E, ...]:
    """The entries whose patterns fit any of the names."""
    return tuple(entry for entry in entries if fits(entry.match, names))
