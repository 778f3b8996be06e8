"""Workers of parameter servers run the whole model, each on its own samples: refusals of what splits it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from simcluster.errors import PlanError, Problem
from simcluster.layout import Mesh, Movement
from simcluster.model import Graph, Phase
from simcluster.plan.parameter_server.refusals import PATH
from simcluster.plan.parameter_server.server_plan import ServerPlan

_HINT = "let strategies and searches split the batch alone"


def check_whole_workers(graph: Graph, servers: ServerPlan | None, mesh: Mesh) -> None:
    """PlanError for what a worker has or does only in part, or as others do.

    Servers take what a worker pushes for the gradient of its own samples, and send it whole parameters.
    """
    if servers is None:
        return
    axes = [axis for axis, size in mesh.axes if size > 1]
    problems = list(_parameters(servers, axes))
    if not servers.is_synchronous:
        problems += _collectives(graph)
    if problems:
        raise PlanError(*problems)


def _parameters(servers: ServerPlan, axes: Sequence[str]) -> Iterator[Problem]:
    """Parameters that workers split, and gradients that are not of a worker's own samples."""
    for parameter in servers.parameters:
        layout, gradient = parameter.value.layout, parameter.gradient_value.layout
        assert layout is not None and gradient is not None
        if layout.axes:
            split = ", ".join(layout.axes)
            told = f"'{parameter.name}' is split over {split}, but every worker of servers has all of it"
            yield Problem(told, f"{PATH}.parameters", _HINT)
        elif not parameter.by_rows and set(gradient.axes) != set(axes):
            told = f"workers repeat each other's gradients of '{parameter.name}', which servers would add up"
            yield Problem(told, f"{PATH}.parameters", _HINT)


def _collectives(graph: Graph) -> Iterator[Problem]:
    """Collectives of a forward or backward, in which workers that do not wait for each other would."""
    for instance in graph.instances:
        for node in graph.block_of(instance).nodes:
            moved = isinstance(node.operator, Movement) and node.operator.is_collective
            if moved and node.phase in (Phase.FORWARD, Phase.BACKWARD):
                told = f"workers exchange parts in '{instance.name}.{node.name}', and so wait for each other"
                yield Problem(told, f"{PATH}.update", f"{_HINT}, or write update: synchronous")
                return
