"""Which parameters are on which servers, and what workers send for them.

Dense parameters are dealt out in their order, number k to server k mod S. The rows of embedding tables are dealt
out in contiguous parts, the first servers have one row more where they do not divide (MindSpore r1.0,
``ps/parameter_server.h`` and ``ps/util.cc``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from simcluster.layout import Mesh
from simcluster.model import Block, Graph, Instance, Operator, SparseRows, TensorType, Update, Value
from simcluster.plan.optimizer import OptimizerPlan, parameter_names
from simcluster.plan.parameter_server.refusals import PATH
from simcluster.plan.rules import check_patterns
from simcluster.plan.spec import ParameterServerSpec, ServerUpdate
from simcluster.work import DType


@dataclass(frozen=True, slots=True)
class ServerShard:
    """A part of a parameter on one server: all of it, or ``rows`` of a table from the ``first`` one on, ``of`` so
    many.
    """

    server: int
    first: int
    rows: int
    of: int


@dataclass(frozen=True, slots=True)
class ServedParameter:
    """A parameter on servers."""

    name: str
    """Its full name."""
    instance: str
    """The instance of its block on the workers."""
    parameter: str
    """What it is called there."""
    value: Value
    """What it is there: its type and layout."""
    gradient: str
    """The accumulator of its gradient there."""
    gradient_value: Value
    """What that is: like the parameter, or rows of it."""
    ids: str
    """Of a gradient by rows: the ids of these; else empty."""
    is_table: bool
    """Whether its rows are looked up."""
    lookups: int
    """Of a table: how many ids all workers look up in a micro-batch."""
    update: Update
    """The rule by which servers update it."""
    states: Mapping[str, DType]
    """State of the rule -> its format."""
    master: DType | None
    """The format in which servers hold it, if they send workers another one."""
    shards: tuple[ServerShard, ...]
    """Where it is."""

    def shard_type(self, shard: ServerShard, dtype: DType | None = None) -> TensorType:
        """What a server has of it, in a format."""
        shape = (shard.rows, *self.value.type.shape[1:]) if self.is_table else self.value.type.shape
        return TensorType(shape, dtype or self.value.type.dtype)


@dataclass(frozen=True, slots=True)
class ServerPlan:
    """The servers of a plan."""

    num_workers: int
    """Ranks of the mesh."""
    num_servers: int
    """Ranks behind them; the scheduler is the last rank of all."""
    update: ServerUpdate
    """When servers update."""
    staleness: int
    """Of stale-synchronous updates: steps between the fastest worker and the slowest."""
    parameters: tuple[ServedParameter, ...]
    """What is on the servers, in the order in which gradients are made."""

    @property
    def is_synchronous(self) -> bool:
        """Whether servers wait for the gradients of all workers."""
        return self.update is ServerUpdate.SYNCHRONOUS

    def rank_of(self, server: int) -> int:
        """The rank of a server."""
        return self.num_workers + server

    def shards_of(self, server: int) -> Iterator[tuple[ServedParameter, ServerShard]]:
        """What a server holds."""
        for parameter in self.parameters:
            for shard in parameter.shards:
                if shard.server == server:
                    yield parameter, shard


def serve_parameters(graph: Graph, spec: ParameterServerSpec, optimizer: OptimizerPlan, mesh: Mesh) -> ServerPlan:
    """The servers of a graph behind its last pass; PlanError if a pattern matches no parameter."""
    names = [graph.canonical(name) for name in parameter_names(graph)]
    check_patterns(spec.parameters, names, "parameter", f"{PATH}.parameters.{{}}")
    served: list[ServedParameter] = []
    dense = 0
    for instance in graph.instances:
        for name in graph.block_of(instance).parameters:
            full = graph.canonical(f"{instance.weight_owner}.{name}")
            if not optimizer.serves(full) or any(known.name == full for known in served):
                continue
            made = _served(graph, instance, name, full, optimizer, spec.servers, dense)
            if made is not None:
                served.append(made)
                dense += not made.is_table
    staleness = spec.staleness or 0
    backward = tuple(reversed(served))
    return ServerPlan(mesh.num_on_axes, spec.servers, spec.update, staleness, backward)


def _served(
    graph: Graph,
    instance: Instance,
    name: str,
    full: str,
    optimizer: OptimizerPlan,
    num_servers: int,
    number: int,
) -> ServedParameter | None:
    """A parameter on servers; None if it is not trained."""
    block = graph.block_of(instance)
    gradient, ids = block.gradients.get(name, ""), ""
    if name in block.row_gradients:
        gradient, ids = block.row_gradients[name]
    if not gradient:
        return None
    value, (rule, states) = block.values[name], optimizer.of(full)
    looked_up = ids or _looked_up(block, gradient)
    rows = value.type.shape[0] if value.type.shape else 1
    shards: tuple[ServerShard, ...] = (ServerShard(number % num_servers, 0, rows, rows),)
    if looked_up:
        shards = tuple(_rows(rows, num_servers))
    master = None if optimizer.master is value.type.dtype else optimizer.master
    return ServedParameter(
        name=full,
        instance=instance.name,
        parameter=name,
        value=value,
        gradient=gradient,
        gradient_value=block.values[gradient],
        ids=ids,
        is_table=bool(looked_up),
        lookups=block.values[looked_up].type.num_elements if looked_up else 0,
        update=rule,
        states=states,
        master=master,
        shards=shards,
    )


def _looked_up(block: Block, gradient: str) -> str:
    """The ids of the rows that are summed up to a gradient; empty if it is no such sum."""
    makers = [node for node in block.nodes if gradient in node.outputs]
    if len(makers) != 1 or not isinstance(makers[0].operator, Operator):
        return ""
    return makers[0].inputs[0] if makers[0].operator.rewrite(SparseRows()) is not None else ""


def _rows(rows: int, num_servers: int) -> Iterator[ServerShard]:
    """The rows of a table, dealt out."""
    first = 0
    for server in range(num_servers):
        count = rows // num_servers + (server < rows % num_servers)
        if count:
            yield ServerShard(server, first, count, rows)
        first += count
