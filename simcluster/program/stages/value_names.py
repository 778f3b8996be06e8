"""Names of buffers that several instances of a stage share: values that cross blocks, tied parameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from simcluster.deferred_dataclass import dataclass
from simcluster.model import Graph, Instance, Role
from simcluster.plan import gathered_name, whole_name
from simcluster.program.stages.stage_boundary import BoundaryTensors

_LASTING = (Role.PARAMETER, Role.COPY, Role.ACCUMULATOR, Role.STATE, Role.BUFFER, Role.VIEW)

TERM = " (term)"
"""What the buffer of a stage's term is called after that of the sum over all stages."""

Name = tuple[tuple[str, str], str]
"""((instance, its value), buffer)."""


def buffer_names(
    graph: Graph, crossings: BoundaryTensors, instances: Sequence[Instance]
) -> dict[tuple[str, str], str]:
    """(instance, value) -> buffer, for those of a stage that are not simply called ``instance.value``."""
    names = _Names(graph, crossings, instances)
    buffers = dict(names.border()) | dict(names.tied()) | dict(names.shared())
    return buffers | dict(names.sliced(buffers))


def shared_parameter_holders(graph: Graph, instances: Sequence[Instance]) -> dict[str, str]:
    """Instance -> the first one of a stage with which it shares parameters, if another one comes first."""
    here = {
        f"{instance.name}.{name}": instance.name
        for instance in instances
        for name in graph.block_of(instance).parameters
    }
    first: dict[str, str] = {}
    led: dict[str, list[str]] = {}
    for group in graph.ties:
        sharing = [first.get(here[name], here[name]) for name in group if name in here]
        for other in dict.fromkeys(sharing[1:]):
            if other != sharing[0]:
                # Whoever shared with the other one shares with the first now.
                moved = [other, *led.pop(other, [])]
                first |= dict.fromkeys(moved, sharing[0])
                led.setdefault(sharing[0], []).extend(moved)
    return {name: holder for name, holder in first.items() if name != holder}


@dataclass(frozen=True)
class _Names:
    graph: Graph
    crossings: BoundaryTensors
    instances: Sequence[Instance]

    def border(self) -> Iterator[Name]:
        for instance in self.instances:
            block, virtual = self.graph.block_of(instance), self.crossings.virtual(instance)
            pairs = [
                (inner, self.crossings.buffer(outer, virtual))
                for inner, outer in zip(block.inputs, instance.inputs, strict=True)
            ]
            # Of what is on all stages every one makes a term.
            term = TERM if instance.on_all_stages else ""
            for inner, outer in pairs:
                yield (instance.name, inner), outer
                if inner in block.gradients:
                    yield (instance.name, block.gradients[inner]), f"{outer}.grad{term}"
            for value in block.outputs:
                outer = instance.output(value)
                yield (instance.name, value), f"{outer}{term}"
                if value in block.gradients:
                    yield (instance.name, block.gradients[value]), self.crossings.gradient_buffer(outer)

    def tied(self) -> Iterator[Name]:
        """Copies of a tied parameter or cache on this stage share the first copy's buffers."""
        parameters = {
            f"{instance.name}.{name}": (instance, name)
            for instance in self.instances
            for block in (self.graph.block_of(instance),)
            for name in (*block.parameters, *block.states)
        }
        for group in self.graph.ties:
            here = [name for name in group if name in parameters]
            for name in here[1:]:
                instance, inner = parameters[name]
                block = self.graph.block_of(instance)
                yield (instance.name, inner), here[0]
                made = {value for node in block.nodes for value in node.outputs}
                if gathered_name(inner) not in made:
                    yield (instance.name, gathered_name(inner)), gathered_name(here[0])
                gradient = block.gradients.get(inner)
                if gradient is not None:
                    owner, first = parameters[here[0]]
                    shared = f"{owner.name}.{self.graph.block_of(owner).gradients[first]}"
                    yield (instance.name, gradient), shared
                    whole = block.values.get(whole_name(gradient))
                    if whole is not None and whole.role is Role.SUM:
                        yield (instance.name, whole_name(gradient)), whole_name(shared)

    def sliced(self, known: Mapping[tuple[str, str], str]) -> Iterator[Name]:
        """What outlives a micro-batch, all slices of sequences have in common with the first."""
        for instance in self.instances:
            block = self.graph.block_of(instance)
            for name, value in block.values.items() if instance.first_slice else ():
                if value.role in _LASTING:
                    here = instance.first_slice, name
                    yield (instance.name, name), known.get(here, f"{instance.first_slice}.{name}")

    def shared(self) -> Iterator[Name]:
        """Values that the blocks of this stage share are called what they call them."""
        for instance in self.instances:
            for value in self.graph.block_of(instance).shared:
                yield (instance.name, value), value
