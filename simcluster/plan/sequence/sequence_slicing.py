"""Pass: slices of sequences, each of which goes through the model as an instance of its own of every block.

Causal attention of a slice reads the keys and values of earlier slices, which are saved until the last slice
is done and get gradients from all later ones. Everything else works on each slice by itself. The pass comes
before differentiation, which sums gradients of values with several readers. Weights are shared, and so is
what happens once per step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from simcluster.deferred_dataclass import dataclass
from simcluster.errors import PlanError, Problem
from simcluster.model import Block, Graph, Instance, Node, Operator, Role, SequenceSlice, TensorSlice, Value
from simcluster.plan.rules import SEQ
from simcluster.plan.spec import ShardingChoice

PATH = "parallel.schedule.slices"


def slice_length(seq_len: int, slices: int) -> int:
    """Tokens of a slice; PlanError if slices would not be equal."""
    if seq_len % slices:
        raise PlanError(
            f"slices need equal parts: {seq_len:,} tokens / {slices} slices = {seq_len / slices:g}", path=PATH
        )
    return seq_len // slices


def check_slicing_axes(slices: int, axes: Sequence[str]) -> None:
    """PlanError if sequences are in slices and also split over mesh axes."""
    if slices > 1 and axes:
        raise PlanError(
            f"sequences in slices are split over {', '.join(axes)} besides", path=PATH, hint="do one of both"
        )


def check_slices(slices: int, graph: Graph, sharding: ShardingChoice, *, pieces: bool) -> None:
    """PlanError for settings that do not work with slices; ``pieces``: some subgraphs run as graphs."""
    if slices == 1:
        return
    problems = []
    if pieces:
        problems.append(Problem("pieces of the model that are graphs take no slices of sequences", PATH))
    if sharding.weights or sharding.gradients:
        what = "weights" if sharding.weights else "gradients"
        for names in _together(graph):
            problems.append(
                Problem(
                    f"{' and '.join(names)} are one parameter on one stage, whose {what} are sharded: slices "
                    "of sequences do not share what is moved for every micro-batch",
                    "parallel.optimizer_sharding",
                    "shard states only (zero: 1), or use more stages",
                )
            )
    if problems:
        raise PlanError(*problems)


def _together(graph: Graph) -> Iterator[list[str]]:
    """Names of tied parameters with several copies on one stage."""
    stage_of = {
        f"{instance.name}.{name}": instance.stage
        for instance in graph.instances
        for name in graph.block_of(instance).parameters
    }
    for group in graph.ties:
        for stage in dict.fromkeys(stage_of[name] for name in group):
            here = [name for name in group if stage_of[name] == stage]
            if len(here) > 1:
                yield here


def slice_sequence(graph: Graph, slices: int) -> Graph:
    """The graph of whole sequences, from a graph of sequences as long as one slice.

    PlanError if an operator other than causal attention in one kernel needs more than one slice.
    """
    if slices == 1:
        return graph
    _check(graph)
    blocks = {
        _named(name, index): _Slice(block, index, slices).run()
        for name, block in graph.blocks.items()
        for index in range(slices)
    }
    makers = {
        instance.output(value): (instance.name, value)
        for instance in graph.instances
        for value in graph.block_of(instance).outputs
    }
    instances = tuple(sliced for one in graph.instances for sliced in _instances(one, graph, slices, makers))
    return replace(graph, blocks=blocks, instances=instances)


def _named(name: str, index: int) -> str:
    """What the block or the instance of a slice is called."""
    return f"{name} (slice {index})" if index else name


def _instances(
    instance: Instance, graph: Graph, slices: int, makers: Mapping[str, tuple[str, str]]
) -> Iterator[Instance]:
    """One instance per slice: after its own inputs come keys and values of the slices before."""
    cached = _cached(graph.block_of(instance))
    for index in range(slices):
        own = [(*makers[outer], index) for outer in instance.inputs]
        own += [(instance.name, value, before) for value in cached for before in range(index)]
        yield replace(
            instance,
            name=_named(instance.name, index),
            block=_named(instance.block, index),
            inputs=tuple(f"{_named(maker, part)}:{value}" for maker, value, part in own),
            slice=index,
            first_slice=instance.name if index else "",
        )


def _sliced(node: Node, index: int) -> Operator | None:
    assert isinstance(node.operator, Operator)
    return node.operator.rewrite(SequenceSlice(index))


def _cached(block: Block) -> list[str]:
    """The keys and values of a block, each once, in order."""
    cached = (value for node in block.nodes if _sliced(node, 0) is not None for value in node.inputs[1:])
    return list(dict.fromkeys(cached))


def _check(graph: Graph) -> None:
    """PlanError if the slices of sequences cannot be worked on one after the other."""
    problems: list[Problem] = []
    attention = False
    for block in graph.blocks.values():
        for node in block.nodes:
            assert isinstance(node.operator, Operator)
            try:
                attends = _sliced(node, 0) is not None
            except ValueError as error:
                problems.append(Problem(f"{node.name}: {error}", PATH))
                continue
            attention |= attends
            dims = node.operator.dims()
            if not attends and (SEQ in dict(dims.unsplittable) or "keys" in dims.names):
                reason = dict(dims.unsplittable).get(SEQ, "it works on all keys")
                problems.append(Problem(f"{node.name} takes no slices of sequences: {reason}", PATH))
    if not attention and not problems:
        problems.append(Problem("nothing in this model attends over sequences that could be sliced", PATH))
    if problems:
        hint = "causal attention in one kernel does: a decoder, a framework profile with attention: flash"
        raise PlanError(*(replace(problem, hint=hint) for problem in dict.fromkeys(problems)))


@dataclass(frozen=True, slots=True)
class _Slice:
    """What a block becomes for one slice."""

    block: Block
    index: int
    slices: int

    def run(self) -> Block:
        """The block that reads what slices before it have cached, and hands on what later ones will read."""
        block, cached = self.block, _cached(self.block)
        values: dict[str, Value] = {
            name: replace(value, part=self._part(name)) if value.role is Role.FEED else value
            for name, value in block.values.items()
        }
        before = [self._of(value, index) for value in cached for index in range(self.index)]
        values |= {
            self._of(value, index): block.values[value] for value in cached for index in range(self.index)
        }
        handed = cached if self.index + 1 < self.slices else []
        return replace(
            block,
            name=_named(block.name, self.index),
            inputs=(*block.inputs, *before),
            outputs=(*block.outputs, *(value for value in handed if value not in block.outputs)),
            values=values,
            nodes=tuple(map(self._node, block.nodes)),
        )

    @staticmethod
    def _of(value: str, index: int) -> str:
        """What is cached of an earlier slice."""
        return f"{value} (slice {index})"

    def _node(self, node: Node) -> Node:
        operator = _sliced(node, self.index)
        if operator is None:
            return node
        cached = [name for value in node.inputs[1:] for name in (*self._all_before(value), value)]
        return replace(node, operator=operator, inputs=(node.inputs[0], *cached))

    def _all_before(self, value: str) -> Iterator[str]:
        return (self._of(value, index) for index in range(self.index))

    def _part(self, feed: str) -> TensorSlice | None:
        """Which part of the sequences a feed holds, by what its readers call its dims."""
        for node in self.block.nodes:
            assert isinstance(node.operator, Operator)
            for value, dims in zip(node.inputs, node.operator.dims().inputs, strict=True):
                if value == feed and SEQ in dims:
                    return TensorSlice(dims.index(SEQ), self.index, self.slices)
        return None
