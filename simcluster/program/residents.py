"""What a part holds from before the step to after it: weights, gradients, states, and views of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from simcluster.layout import Mesh
from simcluster.model import Graph, Instance, Role
from simcluster.program.instruction import Category
from simcluster.program.lower import RESIDENT, local_type
from simcluster.program.program import Resident


def residents_of(
    graph: Graph, instances: Sequence[Instance], mesh: Mesh, buffer: Callable[[str, str], str]
) -> Iterator[Resident]:
    """The buffers of some instances that outlive the step, each once; ``buffer`` gives a value's name.

    Views of others take no memory but hold values.
    """
    found: dict[str, Resident] = {}
    for instance in instances:
        for value, kind in graph.block_of(instance).values.items():
            if kind.role not in RESIDENT and not kind.copy_of:
                continue
            assert kind.layout is not None
            name = buffer(instance.name, value)
            size = 0 if kind.role is Role.VIEW else local_type(kind, mesh).num_bytes
            source = value if kind.role is Role.PARAMETER else kind.copy_of
            origin = graph.canonical(f"{instance.name}.{source}") if source else ""
            category = RESIDENT.get(kind.role, Category.PARAMETERS)
            found.setdefault(name, Resident(name, category, size, kind.type, kind.layout, origin))
    yield from found.values()
