"""Passes as a list that prints: each has a name, and its settings in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from simcluster.errors import PlanError, nearest
from simcluster.model import Graph, graph_digests

PASSES = (
    "group_batch_statistics",
    "balance_causal_order",
    "ring_attention",
    "place",
    "assign_subgraphs",
    "slice_sequence",
    "differentiate",
    "quantise",
    "sparse_gradients",
    "shard",
    "repeat_fp8_casts",
    "cast_fp8_once_per_step",
    "accumulate",
    "cast_weights",
    "recompute_layers",
    "recompute_operators",
    "distribute_saved_activations",
    "cast_weights_again",
    "cast_fp8_per_use",
    "optimize",
    "clip_gradients",
    "decompose_updates",
    "split_backward",
    "assign_backward_to_subgraphs",
    "fuse",
    "collective_matmul",
    "place_offloaded_state",
    "place_on_hosts",
    "offload",
    "separate_recompute_phase",
)
"""Every pass in its order; which of them a plan runs follows from its scenario."""


_PLAIN = (bool, int, float, str, tuple)
_SHORT = 60
"""Characters of a setting that is printed."""


@dataclass(frozen=True, slots=True)
class Pass:
    """A named function from graph to graph, with its settings."""

    name: str
    rewrite: partial[Graph]

    def __call__(self, graph: Graph) -> Graph:
        """The graph behind the pass; it changes none."""
        return self.rewrite(graph)

    def having(self, settings: Mapping[str, Any]) -> Pass:
        """The pass with some of its settings replaced."""
        return replace(self, rewrite=partial(self.rewrite, **settings))

    def __str__(self) -> str:
        """The name, what the function gives, and those of its settings that are short."""
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
    """The passes that were run in their order: ``graph`` is what they made of the graph ``start``."""

    start: Graph
    graph: Graph
    passes: tuple[Pass, ...] = ()

    @classmethod
    def of(cls, start: Graph) -> PassList:
        """The list of no passes."""
        return cls(start, start)

    def then(self, *passes: Pass) -> PassList:
        """The list with passes behind those it has, which are run."""
        made = self
        for graph_pass in passes:
            made = replace(made, graph=graph_pass(made.graph), passes=(*made.passes, graph_pass))
        return made

    def graphs(self) -> Iterator[tuple[str, Graph]]:
        """Every pass by name with the graph behind it, made again from the start."""
        graph = self.start
        for graph_pass in self.passes:
            graph = graph_pass(graph)
            yield graph_pass.name, graph

    def after(self, name: str) -> Graph:
        """The graph behind a pass; PlanError if the plan runs none of that name."""
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
        """A digest of the graph behind every pass; two plans differ first where their digests do."""
        names = [graph_pass.name for graph_pass in self.passes]
        return dict(zip(names, graph_digests(graph for _, graph in self.graphs()), strict=True))

    def __str__(self) -> str:
        """One line per pass."""
        return "\n".join(map(str, self.passes))
