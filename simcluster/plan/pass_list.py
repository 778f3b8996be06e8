"""Passes as values: each has a name and settings, and a list of them prints and can be run again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from simcluster.deferred_dataclass import dataclass
from simcluster.errors import PlanError, nearest
from simcluster.model import Graph, graph_digests
from simcluster.registry import names_in

PASSES = names_in("plan/passes.txt")
"""The names of all passes in their order; which of them a plan runs follows from its scenario."""


_PLAIN = (bool, int, float, str, tuple)
_SHORT = 60
"""Characters of a setting that is printed."""


@dataclass(frozen=True, slots=True)
class Pass:
    """A named function from graph to graph, with its settings."""

    name: str
    """One of ``PASSES``."""
    rewrite: partial[Graph]
    """The function; its settings are bound as keywords."""

    def __call__(self, graph: Graph) -> Graph:
        """The graph after the pass; the one given is not changed."""
        return self.rewrite(graph)

    def having(self, settings: Mapping[str, Any]) -> Pass:
        """The pass with some of its settings replaced."""
        return replace(self, rewrite=partial(self.rewrite, **settings))

    def __str__(self) -> str:
        """The name, short settings, and what the pass gives."""
        plain = {
            key: repr(setting)
            for key, setting in self.rewrite.keywords.items()
            if isinstance(setting, _PLAIN)
        }
        settings = ", ".join(f"{key}={text}" for key, text in plain.items() if len(text) <= _SHORT)
        gives = " ".join((self.rewrite.func.__doc__ or "").partition("\n\n")[0].split())
        return f"{self.name}({settings}): {gives}"


@dataclass(frozen=True)
class PassList:
    """Passes that were run, in order."""

    start: Graph
    """The graph before the first pass."""
    graph: Graph
    """The graph after the last pass."""
    passes: tuple[Pass, ...] = ()
    """The passes."""

    @classmethod
    def of(cls, start: Graph) -> PassList:
        """The list without passes."""
        return cls(start, start)

    def then(self, *passes: Pass) -> PassList:
        """The list with more passes, which are run."""
        made = self
        for graph_pass in passes:
            made = replace(made, graph=graph_pass(made.graph), passes=(*made.passes, graph_pass))
        return made

    def graphs(self) -> Iterator[tuple[str, Graph]]:
        """(pass, graph after it), computed again from the start."""
        graph = self.start
        for graph_pass in self.passes:
            graph = graph_pass(graph)
            yield graph_pass.name, graph

    def after(self, name: str) -> Graph:
        """The graph after a pass; PlanError if the plan does not run it."""
        for pass_name, graph in self.graphs():
            if pass_name == name:
                return graph
        names = ", ".join(graph_pass.name for graph_pass in self.passes)
        if name in PASSES:
            raise PlanError(f"this plan does not run pass '{name}'", hint=f"it runs: {names}")
        near = nearest(name, PASSES)
        near = f"{near} " if near.endswith("?") else ""
        raise PlanError(f"there is no pass '{name}'", hint=f"{near}this plan runs: {names}")

    def digests(self) -> Mapping[str, str]:
        """Pass -> digest of the graph after it; the first difference between two plans shows the pass."""
        names = [graph_pass.name for graph_pass in self.passes]
        return dict(zip(names, graph_digests(graph for _, graph in self.graphs()), strict=True))

    def __str__(self) -> str:
        """One line per pass."""
        return "\n".join(map(str, self.passes))
