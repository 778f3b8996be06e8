"""Which parameters are on which servers, and what workers send for them.

Dense parameters are dealt out in their order, number k to server k mod S. The rows of embedding tables are
dealt out in contiguous parts, the first servers have one row more where they do not divide (MindSpore r1.0,
``ps/parameter_server.h`` and ``ps/util.cc``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from simcluster.deferred_dataclass import dataclass
from simcluster.errors import PlanError
from simcluster.layout import Mesh
from simcluster.model import Block, Graph, Instance, Operator, SparseRows, TensorType, Update, Value
from simcluster.plan.optimizer import OptimizerPlan, parameter_names
from simcluster.plan.parameter_server.looked_up_rows import LookupLaw, rows_per_shard
from simcluster.plan.parameter_server.refusals import PATH
from simcluster.plan.redistribution import part_type
from simcluster.plan.rules import check_patterns
from simcluster.plan.spec import ParameterServerSpec, ServerUpdate
from simcluster.work import DType


@dataclass(frozen=True, slots=True)
class ServerShard:
    """A part of a parameter on one server: all of it, or ``rows`` of a table from the ``first`` one on,
    ``of`` so many.
    """

    server: int
    first: int
    rows: int
    of: int
    named: int = 0
    """Of a table that goes by rows: how many different ones a worker looks up, or misses, in a step."""


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
    gradient_local: TensorType
    """What one worker has of it."""
    ids: str
    """Of a gradient by rows: the ids of these; else empty."""
    ids_local: TensorType | None
    """What one worker has of these."""
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
    cached: int = 0
    """Of a table by rows: how many of them lie on the workers, which update them."""

    @property
    def by_rows(self) -> bool:
        """Whether only the rows that are looked up travel."""
        return bool(self.ids)

    @property
    def row_elements(self) -> int:
        """Elements of a row of a table."""
        return self.value.type.num_elements // self.value.type.shape[0]

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
    lost: frozenset[int] = frozenset()
    """Workers that are gone: nobody waits for them."""
    absent: frozenset[int] = frozenset()
    """Servers that are gone: the others hold all keys."""

    @property
    def is_synchronous(self) -> bool:
        """Whether servers wait for the gradients of all workers."""
        return self.update is ServerUpdate.SYNCHRONOUS

    @property
    def num_active(self) -> int:
        """Workers that are there."""
        return self.num_workers - len(self.lost)

    @property
    def active(self) -> list[int]:
        """The ranks of these."""
        return [rank for rank in range(self.num_workers) if rank not in self.lost]

    @property
    def present(self) -> list[int]:
        """Servers that are there, by number."""
        return _present(self.num_servers, self.absent)

    @property
    def pushed(self) -> tuple[ServedParameter, ...]:
        """Parameters of which workers push gradients; of others they cache rows."""
        return tuple(parameter for parameter in self.parameters if not parameter.cached)

    @property
    def cached(self) -> tuple[ServedParameter, ...]:
        """Tables of which workers cache rows."""
        return tuple(parameter for parameter in self.parameters if parameter.cached)

    def rank_of(self, server: int) -> int:
        """The rank of a server."""
        return self.num_workers + server

    def shards_of(self, server: int) -> Iterator[tuple[ServedParameter, ServerShard]]:
        """What a server holds."""
        for parameter in self.parameters:
            for shard in parameter.shards:
                if shard.server == server:
                    yield parameter, shard


def serve_parameters(
    graph: Graph,
    spec: ParameterServerSpec | None,
    optimizer: OptimizerPlan | None,
    mesh: Mesh,
    absent: frozenset[int] = frozenset(),
) -> ServerPlan | None:
    """The servers of a graph behind its last pass, if it has any; PlanError if a pattern matches nothing.

    The keys are dealt out among the servers that are not ``absent``.
    """
    if spec is None or optimizer is None:
        return None
    present = _present(spec.servers, absent)
    names = [graph.canonical(name) for name in parameter_names(graph)]
    check_patterns(spec.parameters, names, "parameter", f"{PATH}.parameters.{{}}")
    others = [name for name in names if not optimizer.serves(name)]
    if others and spec.update is not ServerUpdate.SYNCHRONOUS:
        raise PlanError(
            f"'{others[0]}' is on no server: workers add up its gradient, and so wait for each other",
            path=f"{PATH}.parameters",
            hint=f"put all parameters on servers, or write update: {ServerUpdate.SYNCHRONOUS}",
        )
    served: list[ServedParameter] = []
    dense = 0
    for instance in graph.instances:
        for name in graph.block_of(instance).parameters:
            full = graph.canonical(f"{instance.weight_owner}.{name}")
            if not optimizer.serves(full) or any(known.name == full for known in served):
                continue
            made = _served(graph, instance, name, full, optimizer, present, dense, mesh)
            if made is not None:
                served.append(_with_lookups(made, spec, mesh.num_on_axes) if made.by_rows else made)
                dense += not made.is_table
    _check_tables(spec, served)
    staleness = spec.staleness or 0
    backward = tuple(reversed(served))
    return ServerPlan(
        mesh.num_on_axes, spec.servers, spec.update, staleness, backward, absent=frozenset(absent)
    )


_USUAL = ParameterServerSpec.model_fields


def _check_tables(spec: ParameterServerSpec, served: Sequence[ServedParameter]) -> None:
    """PlanError if something is said of rows of tables, and every table travels whole."""
    said = [
        name for name in ("vocab_cache_size", "ids", "seed") if getattr(spec, name) != _USUAL[name].default
    ]
    if said and not any(parameter.by_rows for parameter in served):
        raise PlanError(
            "no table on servers travels by rows",
            path=f"{PATH}.{said[0]}",
            hint="lazy_adam and ftrl change only rows that were looked up; with others leave it out",
        )


def _served(
    graph: Graph,
    instance: Instance,
    name: str,
    full: str,
    optimizer: OptimizerPlan,
    present: Sequence[int],
    number: int,
    mesh: Mesh,
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
    shards: tuple[ServerShard, ...] = (ServerShard(server_of_key(number, present), 0, rows, rows),)
    if looked_up:
        shards = tuple(ServerShard(*part, rows) for part in rows_of_servers(rows, present))
    master = None if optimizer.master is value.type.dtype else optimizer.master
    return ServedParameter(
        name=full,
        instance=instance.name,
        parameter=name,
        value=value,
        gradient=gradient,
        gradient_value=block.values[gradient],
        gradient_local=_local(block.values[gradient], mesh),
        ids=ids,
        ids_local=_local(block.values[ids], mesh) if ids else None,
        is_table=bool(looked_up),
        lookups=block.values[looked_up].type.num_elements if looked_up else 0,
        update=rule,
        states=states,
        master=master,
        shards=shards,
    )


def _local(value: Value, mesh: Mesh) -> TensorType:
    """The part of a value that one worker has."""
    assert value.layout is not None
    return part_type(value.type, value.layout, mesh)


def _with_lookups(table: ServedParameter, spec: ParameterServerSpec, workers: int) -> ServedParameter:
    """A table by rows, with how many a worker looks up; PlanError if they do not fit into its cache."""
    rows, law = table.value.type.shape[0], LookupLaw(spec.exponent, spec.seed)
    cache = min(spec.vocab_cache_size, rows)
    # A cache holds the most popular rows, and those of all samples: they are updated on all workers.
    named = law.draw(rows, table.lookups if cache else table.lookups // workers)
    if cache and len(named) > cache:
        raise PlanError(
            f"a batch looks up {len(named):,} different rows of '{table.name}', but {cache:,} are cached",
            path=f"{PATH}.vocab_cache_size",
            hint="cache more rows, or make the batch smaller",
        )
    if cache:
        named = named[named >= cache]
    counts = rows_per_shard(named, rows, [(shard.first, shard.rows) for shard in table.shards])
    shards = (replace(shard, named=count) for shard, count in zip(table.shards, counts, strict=True))
    return replace(table, shards=tuple(shards), cached=cache)


def _looked_up(block: Block, gradient: str) -> str:
    """The ids of the rows that are summed up to a gradient; empty if it is no such sum."""
    makers = [node for node in block.nodes if gradient in node.outputs]
    if len(makers) != 1 or not isinstance(makers[0].operator, Operator):
        return ""
    return makers[0].inputs[0] if makers[0].operator.rewrite(SparseRows()) is not None else ""


def _present(num_servers: int, absent: frozenset[int]) -> list[int]:
    return [server for server in range(num_servers) if server not in absent]


def server_of_key(number: int, servers: Sequence[int]) -> int:
    """The server of dense key ``number``, of those that are there."""
    return servers[number % len(servers)]


def rows_of_servers(rows: int, servers: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """(server, first row, rows) of a table that is dealt out."""
    first = 0
    for place, server in enumerate(servers):
        count = rows // len(servers) + (place < rows % len(servers))
        if count:
            yield server, first, count
        first += count
