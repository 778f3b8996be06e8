"""A model with fewer layers: of many equal ones that follow each other the first, the second and the last.

What an equal layer costs does not depend on how many there are, so a plan of the smaller model tells the
costs of all.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.model import Graph, Instance, Model
from simcluster.number_arrays import Ints
from simcluster.work import DType

_KEPT = 3
"""Layers that are left of a row of equal ones: its ends may hand over something else than those between."""


@dataclass(frozen=True)
class FewLayers:
    """A smaller model, and for each instance of the whole one that of the smaller one which is like it."""

    model: Model
    names: tuple[str, ...]
    """The instances of the whole model, in order."""
    alike: tuple[str, ...]
    """For each of them an instance of the smaller model."""
    is_layer: tuple[bool, ...]
    """Whether it is a layer, which stages share."""

    @classmethod
    def of(cls, model: Model, seq_len: int, *, equal: bool) -> FewLayers:
        """The smaller model; unless layers are ``equal``, for what is said of single ones, the same model."""
        graph = model.graph(1, seq_len, DType.FP32, 1.0)
        alike = {instance.name: instance.name for instance in graph.instances}
        if equal:
            for row in _equal_rows(graph):
                alike |= {instance.name: row[1].name for instance in row[1:-1]}
        small = model if len(set(alike.values())) == len(alike) else _smaller(model, alike)
        layers = tuple(instance.is_pipeline_layer for instance in graph.instances)
        return cls(small, tuple(alike), tuple(alike.values()), layers)

    def rows_of(self, names: Sequence[str]) -> tuple[tuple[str, ...], Ints]:
        """The instances of the whole model that are like some of the smaller one, and those by number."""
        place = {name: index for index, name in enumerate(names)}
        pairs = [
            (name, place[like]) for name, like in zip(self.names, self.alike, strict=True) if like in place
        ]
        return tuple(name for name, _ in pairs), np.array([row for _, row in pairs], dtype=np.int64)


def _smaller(model: Model, alike: dict[str, str]) -> Model:
    """A model of the same kind without the instances that are like others."""
    kept = set(alike.values())

    class Smaller(type(model)):  # type: ignore[misc]
        __slots__ = ()

        @property
        def num_layers(self) -> int:
            """Layers that are left."""
            return int(super().num_layers) - len(alike) + len(kept)

        def graph(self, batch: int, seq_len: int, dtype: DType, num_tokens: float) -> Graph:
            """The graph of the whole model without the other instances."""
            return _without(super().graph(batch, seq_len, dtype, num_tokens), alike)

    small = copy.copy(model)
    object.__setattr__(small, "__class__", Smaller)
    return small


def _without(graph: Graph, alike: dict[str, str]) -> Graph:
    """The graph without instances that are like others, whose outputs take the place of theirs."""
    outputs = {
        instance.output(value): f"{alike[instance.name]}:{value}"
        for instance in graph.instances
        for value in graph.block_of(instance).outputs
    }
    return replace(
        graph,
        instances=tuple(
            replace(instance, inputs=tuple(outputs.get(name, name) for name in instance.inputs))
            for instance in graph.instances
            if alike[instance.name] == instance.name
        ),
    )


def _equal_rows(graph: Graph) -> Iterator[Sequence[Instance]]:
    """Layers of one block that follow each other, each reading the one before it and otherwise the same.

    Layers with tied parameters are in no row.
    """
    tied = [name for group in graph.ties for name in group]
    row: list[Instance] = []
    for instance in graph.instances:
        if row and _goes_on(graph, row[-1], instance):
            row.append(instance)
            continue
        if len(row) > _KEPT:
            yield row
        free = instance.is_pipeline_layer and not any(name.startswith(f"{instance.name}.") for name in tied)
        row = [instance] if free else []
    if len(row) > _KEPT:
        yield row


def _goes_on(graph: Graph, before: Instance, instance: Instance) -> bool:
    """Whether a layer is like the one before it, but for reading that one."""
    if not instance.is_pipeline_layer or instance.block != before.block:
        return False
    own = {before.output(value) for value in graph.block_of(before).outputs}
    pairs = zip(before.inputs, instance.inputs, strict=True)
    return all(read == other or read in own for other, read in pairs)
