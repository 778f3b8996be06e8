"""Pass: which pipeline stage every instance runs on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from simcluster.errors import PlanError
from simcluster.model import Graph

LAYERS = "layers."


def default_layers(num_layers: int, num_stages: int) -> tuple[int, ...]:
    """Layers per stage (DESIGN 5).

    Equal if they divide; where layers + 2 divide, first and last hold one less (Llama 3 405B: 126 + 2 =
    8 x 16); otherwise the larger stages stand in the middle. PlanError if a stage would stay empty.
    """
    if num_layers < num_stages:
        raise PlanError(
            f"{num_stages} pipeline stages for {num_layers} layers: every stage needs at least one layer",
            path="parallel.mesh.pipeline",
            hint=f"use at most {num_layers} stages",
        )
    whole, extra = divmod(num_layers, num_stages)
    if extra == 0:
        return (whole,) * num_stages
    if num_stages > 2 and (num_layers + 2) % num_stages == 0:
        size = (num_layers + 2) // num_stages
        return (size - 1, *(size,) * (num_stages - 2), size - 1)
    first = (num_stages - extra) // 2
    return tuple(whole + (first <= stage < first + extra) for stage in range(num_stages))


def place(graph: Graph, layers: Sequence[int]) -> Graph:
    """The graph with its layers spread over the stages; what stands before or after goes with the ends."""
    names = [instance.name for instance in graph.instances]
    layered = [index for index, name in enumerate(names) if name.startswith(LAYERS)]
    if sum(layers) != len(layered):
        listed = " + ".join(map(str, layers))
        raise PlanError(
            f"{listed} = {sum(layers)} layers in stages, but the model has {len(layered)}",
            path="parallel.schedule.stages",
        )
    stages = [stage for stage, count in enumerate(layers) for _ in range(count)]
    of_layer = dict(zip(layered, stages, strict=True))
    placed = []
    for index, instance in enumerate(graph.instances):
        if index in of_layer:
            stage = of_layer[index]
        else:
            stage = 0 if not layered or index < layered[0] else len(layers) - 1
        placed.append(replace(instance, stage=stage))
    return replace(graph, instances=tuple(placed))
