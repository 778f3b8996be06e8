"""A plan small enough for values: the same structure on at most 64 ranks, by a stated rule.

Every axis larger than one stays at least 2, a pipeline at least 3 if it had as many; the largest axis is
divided by its smallest factor until at most 64 ranks are left. Hosts shrink so that the axes that crossed
hosts still do. Micro-batches stay one more than stages (with chunks: than these on all stages) where there
were as many; unequal shares of the batch stay unequal and in their order. The model keeps its structure: what
was divided still divides, what was padded is padded, grouped heads stay grouped, uneven stages stay uneven.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Protocol, TypeVar

from pydantic import TypeAdapter

from simcluster.cluster import Cluster
from simcluster.deferred_dataclass import dataclass
from simcluster.document import matches, validate_data
from simcluster.errors import PlanError
from simcluster.layout import Mesh
from simcluster.model import Graph, Model, Operator, vocabulary_of
from simcluster.plan import (
    BATCH,
    AutoSpec,
    DataSpec,
    InferenceSpec,
    MicroBatches,
    OptimizerShardingSpec,
    OptimizerSpec,
    Plan,
    RoutingSpec,
    RuleSpec,
    StrategySpec,
    SubgraphSpec,
    Task,
    TrainingSpec,
    default_layers,
    fine_tuned,
    given_feed_layouts,
    matches_operator_or_module,
    padded_dims,
    samples,
    update_of,
)
from simcluster.scenario import Scenario
from simcluster.simulation.verification.shrink_cluster import small_cluster
from simcluster.simulation.verification.shrink_fine_tuning import small_fine_tuning
from simcluster.simulation.verification.shrink_offload import small_offload
from simcluster.simulation.verification.shrink_recompute import small_recompute
from simcluster.simulation.verification.shrink_sizes import (
    MOST_RANKS,
    runnable_batches,
    small_batches,
    small_layers,
    small_mesh,
)
from simcluster.simulation.views import effective_strategies_of

MOST_TOKENS = 4
"""Tokens that are generated in values."""

R = TypeVar("R", bound=RuleSpec)

MOST_SERVERS = 2
"""Parameter servers of small scenarios: keys and rows are dealt out to several."""

_CONSTANTS = {"eps": 1e-3, "learning_rate": 0.01}
"""Adam must not divide by rounding errors, nor an update vanish in them."""


@dataclass(frozen=True)
class ShrunkScenario:
    """The small scenario, its model and cluster, and what became smaller: (what, before, after)."""

    scenario: Scenario
    model: Model
    cluster: Cluster
    changes: tuple[tuple[str, str, str], ...]


def shrink_scenario_of(scenario: Scenario, plan: Plan, given: Model | None = None) -> ShrunkScenario:
    """The small form of a scenario and its plan; raises what planning that raises.

    With ``given``, a small model already, its ranks, batch and stages shrink alone: stages share its layers
    as stages do by default.
    """
    spec = scenario.spec
    if spec.parallel.mode == "manual":
        if given is not None:
            raise scenario.located(
                PlanError("a program that is written by hand has a model of its own", path="parallel.mode")
            )
        return _as_written(scenario, plan)
    written_out = spec.parallel.schedule.text is not None
    mesh = Mesh.of(small_mesh(plan.mesh.sizes, plan.stage_axis, plan.num_stages if written_out else 3))
    servers = spec.parallel.parameter_server
    if servers is not None:
        servers = servers.model_copy(update={"servers": min(servers.servers, MOST_SERVERS)})
        mesh = mesh.with_off_axes(servers.num_ranks)
    cluster, hosts = small_cluster(scenario, plan.mesh, mesh)
    stages = mesh.size(plan.stage_axis)
    schedule = spec.parallel.schedule.build()
    chunks = tuple(small_layers(chunk, stages) for chunk in plan.pipeline.chunks)
    chain = schedule.chain(stages)
    layers = chain.by_virtual(chunks)
    ways = _Ways.of(plan, mesh)
    if given is not None:
        layers = default_layers(given.num_layers, len(layers))
    model = given or scenario.model.shrunk(
        sum(layers), ways, padded=plan.vocab > vocabulary_of(scenario.model)
    )
    names = _Names(model.graph(1, model.fixed_seq_len or 1, plan.numerics.compute, 1))
    fine_tuning = small_fine_tuning(spec.task, names.graph, ways)
    if fine_tuning:
        assert isinstance(spec.task, TrainingSpec)
        names = _Names(fine_tuned(names.graph, spec.task.model_copy(update=fine_tuning)))
    copies = plan.pipeline.micro_batch_interleave
    wanted = small_batches(plan.pipeline.batches.taken_together(copies), mesh, len(layers))
    batches = runnable_batches(wanted, schedule, stages, plan.num_micro_batches // copies)
    micro_batch = copies * _micro_batch(plan, mesh, ways, plan.pipeline.micro_batch)
    trained = sum(batches.by_coordinate) / len(batches.by_coordinate)
    batch = round(trained * micro_batch * mesh.product(plan.placement.batch_axes))
    seq = model.fixed_seq_len or min(spec.task.seq_len, schedule.num_slices * ways("seq", 4))
    task = _small_task(spec.task, batch, micro_batch, batches, seq)
    if isinstance(spec.task, TrainingSpec):
        optimizer = _small_optimizer(spec.task.optimizer, names)
        task = {"training": task["training"].model_copy(update={"optimizer": optimizer, **fine_tuning})}
    auto = spec.parallel.schedule.stages == "auto" and default_layers(sum(layers), len(layers)) == layers
    written = "auto" if auto or given is not None else chunks if len(chunks) > 1 else layers
    scheduled = spec.parallel.schedule.model_copy(update={"stages": written})
    fusion, sharding = spec.parallel.fusion, spec.parallel.optimizer_sharding
    threshold = plan.sharding.min_bytes
    if threshold or plan.sharding.shard_size > 0 or plan.sharding.whole:
        # In a small model every parameter is below the threshold, and nothing would be sharded.
        explicit = plan.sharding.document() | _small_groups_of_shards(plan, mesh, names)
        sharding = validate_data(explicit | {"min_bytes": "0 B"}, OptimizerShardingSpec)
    parallel = spec.parallel.model_copy(
        update={
            "mode": "semi_auto" if spec.parallel.mode == "auto" else spec.parallel.mode,
            "search_mode": None,
            "auto": AutoSpec(),
            "mesh": dict(mesh.axes),
            "schedule": scheduled,
            "optimizer_sharding": sharding,
            "fusion": fusion.model_copy(update={"ids": _fitting(fusion.ids, names.parameters)})
            if fusion.ids
            else fusion,
            "strategies": _small_strategies(scenario, plan, names),
            "shard": _small_pieces(spec.parallel.shard, names),
            "host": tuple(pattern for pattern in spec.parallel.host if _fits(pattern, names.on_host)),
            "offload": small_offload(spec.parallel.offload, plan.offload),
            "recompute": small_recompute(plan, names.graph, layers, chain),
            "parameter_server": servers
            and servers.model_copy(
                update={
                    "parameters": tuple(one for one in servers.parameters if _fits(one, names.parameters))
                }
            ),
        }
    )
    small = spec.model_copy(
        update={
            **task,
            "parallel": parallel,
            "cluster": hosts,
            "data": _small_data(scenario, plan),
            "run": spec.run.model_copy(update={"steps": 2}),
            "tenants": (),
        }
    )
    before = _figures(
        scenario.model,
        plan.mesh,
        scenario.cluster,
        scenario,
        plan.pipeline.batches,
        plan.placement.batch_axes,
    )
    after = _figures(model, mesh, cluster, replace(scenario, spec=small), batches, plan.placement.batch_axes)
    changes = tuple((name, old, after[name]) for name, old in before.items() if old != after[name])
    if threshold:
        changes = (*changes, ("smallest sharded parameter", f"{threshold:,} B", "0 B"))
    if not plan.routing.uniform:
        # Values have a router of their own, and a place for every token that it sends to an expert.
        changes = (*changes, ("experts chosen by", str(plan.routing), "the router"))
    if scenario.cluster.speeds:
        # No value depends on how fast a device is.
        changes = (*changes, ("changed devices", f"{len(scenario.cluster.speeds):,}", "0"))
    if servers is not None and servers.vocab_cache_size:
        # Rows in a cache are what the table has, wherever they came from.
        changes = (*changes, ("rows in the cache", f"{servers.vocab_cache_size:,}", "all"))
    if spec.tenants:
        # Nor on who else is on the links; each tenant is verified as a scenario of its own.
        changes = (*changes, ("tenants", f"{len(spec.tenants):,}", "0"))
    return ShrunkScenario(replace(scenario, spec=small), model, cluster, changes)


def _small_task(
    task: Task, batch: int, micro_batch: int, batches: MicroBatches, seq: int
) -> dict[str, TrainingSpec | InferenceSpec]:
    """The section of training, or that of inference: short prompts, and every decode step of a few."""
    sizes = {"micro_batch": micro_batch}
    if isinstance(task, InferenceSpec):
        sizes |= {"batch": batch, "prompt": min(task.prompt, seq), "tokens": min(task.tokens, MOST_TOKENS)}
        return {"inference": task.model_copy(update={**sizes, "decode_steps": "all"})}
    shares = {batches.axis: batches.by_coordinate} if batches.axis else {}
    sizes |= {"global_batch": batch, "seq_len": seq}
    others = {
        "batch_shares": shares,
        "routing": RoutingSpec(),
    }
    return {"training": task.model_copy(update={**sizes, **others})}


def _as_written(scenario: Scenario, plan: Plan) -> ShrunkScenario:
    """A hand-written program with the optimizer's constants changed, as its sizes are what was written.

    PlanError if it runs on more ranks than values are computed for.
    """
    ranks = plan.mesh.num_ranks
    if ranks > MOST_RANKS:
        raise scenario.located(
            PlanError(
                f"values are computed for at most {MOST_RANKS} ranks; this program is written for {ranks:,}",
                path="parallel.mesh",
                hint="verify the same program written for fewer ranks",
            )
        )
    spec = scenario.spec
    assert spec.training is not None, "programs that are written by hand train"
    given = spec.training.optimizer
    changed = _verifiable(given)
    training = spec.training.model_copy(update={"optimizer": changed})
    small = replace(scenario, spec=spec.model_copy(update={"training": training, "tenants": ()}))
    changes = tuple(
        (name, str(getattr(given, name)), str(getattr(changed, name)))
        for name in _CONSTANTS
        if getattr(given, name) != getattr(changed, name)
    )
    return ShrunkScenario(small, scenario.model, scenario.cluster, changes)


class _Entry(Protocol):
    """A part of a section that is about what its pattern fits."""

    @property
    def match(self) -> str: ...


E = TypeVar("E", bound=_Entry)


@dataclass(frozen=True)
class _Names:
    """The names in the graph of the small model: patterns that fit none of them are of what is gone."""

    graph: Graph

    @cached_property
    def operators(self) -> list[str]:
        """The full names of operators."""
        return [f"{instance.name}.{node.name}" for instance, node in self.graph.nodes()]

    @cached_property
    def parameters(self) -> list[str]:
        """The full names of parameters."""
        return [name for name, _ in self.graph.parameters()]

    @property
    def on_host(self) -> list[str]:
        """The full names of all that may be on the host: operators, and the updates that there always are."""
        return [*self.operators, *(f"{name}.update" for name in self.parameters)]


def _fits(pattern: str, names: Iterable[str]) -> bool:
    return any(matches(pattern, name) for name in names)


def _fitting(entries: Iterable[E], names: Sequence[str]) -> tuple[E, ...]:
    return tuple(entry for entry in entries if _fits(entry.match, names))


def _small_groups_of_shards(plan: Plan, mesh: Mesh, names: _Names) -> dict[str, Any]:
    """Groups that share parameters lie along the same axes; patterns of parameters that are gone are, too."""
    sharding = plan.sharding
    group = sharding.group(sharding.axes, plan.mesh)
    size = 1 if sharding.shard_size == 1 else mesh.product(group) if group != sharding.axes else -1
    kept = [pattern for pattern in sharding.whole if _fits(pattern, names.parameters)]
    return {"shard_size": size, "whole": kept}


def _small_data(scenario: Scenario, plan: Plan) -> DataSpec | None:
    """The section of inputs; numbers of parts count the ranks of the large mesh, so axes are written out."""
    data = scenario.spec.data
    if data is None or data.strategy is None or isinstance(data.strategy, str):
        return data
    return data.model_copy(
        update={"strategy": tuple(layout.dims for layout in given_feed_layouts(plan.graph).values())}
    )


def _small_strategies(scenario: Scenario, plan: Plan, names: _Names) -> tuple[StrategySpec, ...]:
    """The strategies of the small plan, without those of operators that only the large model has.

    Numbers of parts count the ranks of the large mesh, and what a search or propagation finds depends on
    sizes: then the effective strategies are written out, by the axes that they use.
    """
    parallel = scenario.spec.parallel
    entries = parallel.strategies
    derived = parallel.mode == "auto" or parallel.propagate or parallel.shard
    if derived or any(entry.rule("scenario").numbered for entry in entries):
        adapter = TypeAdapter(tuple[StrategySpec, ...])
        entries = adapter.validate_python(effective_strategies_of(plan, cut=True))
    # Operators that only generation has are not in the graph of the small model; their instances are.
    known = {instance.name for instance in names.graph.instances}
    planned = [
        f"{instance.name}.{node.name}" for instance, node in plan.logical.nodes() if instance.name in known
    ]
    return _fitting(entries, [*names.operators, *planned])


def _small_pieces(pieces: Sequence[SubgraphSpec], names: _Names) -> tuple[SubgraphSpec, ...]:
    """The pieces of the small plan: graphs as in the large one, whose strategies are written out."""
    return tuple(
        SubgraphSpec(piece=piece.piece)
        for piece in pieces
        if any(matches_operator_or_module(piece.piece, name) for name in names.operators)
    )


def _small_optimizer(optimizer: OptimizerSpec, names: _Names) -> OptimizerSpec:
    """The optimizer in a form that can be verified, without groups of parameters that are gone."""
    groups = tuple(map(_verifiable, _fitting(optimizer.groups, names.parameters)))
    return _verifiable(optimizer).model_copy(update={"groups": groups})


def _verifiable(rule: R) -> R:
    """A rule with constants under which rounding errors stay small."""
    decay = max(rule.weight_decay, update_of(rule).least_decay)
    return rule.model_copy(update={**_CONSTANTS, "weight_decay": decay})


@dataclass(frozen=True)
class _Ways:
    """Into how many parts the plan splits a dim, over all operators and results, on the small mesh."""

    plan: Plan
    mesh: Mesh
    padded: frozenset[str]

    @classmethod
    def of(cls, plan: Plan, mesh: Mesh) -> _Ways:
        """Those of a plan on the small mesh; ``padded`` are the dims that some operator pads."""
        dims = padded_dims(plan.logical, plan.strategies, plan.mesh)
        return cls(plan, mesh, frozenset(dim for dim, _, _ in dims))

    def __call__(self, dim: str, times: int = 1) -> int:
        """So many times the parts, or one less for a dim that the plan pads."""
        parts = math.lcm(1, *(self.mesh.product(axes) for name, axes in _splits(self.plan) if name == dim))
        return times * parts - (parts > 1 and dim in self.padded)


def _splits(plan: Plan) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Every dim with axes that split it, in an operator, in a result behind it, or in an input."""
    seen: set[int] = set()
    for name, layout in given_feed_layouts(plan.graph).items():
        for node in (node for block in plan.logical.blocks.values() for node in block.nodes):
            if isinstance(node.operator, Operator) and name in node.inputs:
                names = node.operator.dims().inputs[node.inputs.index(name)]
                yield from zip(names, layout.dims, strict=True)
    for instance in plan.logical.instances:
        chosen = plan.strategies.of(instance.name)
        if id(chosen) in seen:
            continue
        seen.add(id(chosen))
        for name, strategy in chosen.items():
            yield from strategy.splits
            for index, layout in strategy.outputs:
                operator = plan.logical.block_of(instance).node(name).operator
                assert isinstance(operator, Operator)
                yield from zip(operator.dims().outputs[index], layout.dims, strict=True)


def _micro_batch(plan: Plan, mesh: Mesh, small: _Ways, given: int) -> int:
    """At most two samples, or as many as let the batch divide where it is split over other axes too; or not
    divide, where the plan pads it.
    """
    ways, uneven = mesh.product(plan.placement.batch_axes), BATCH in small.padded
    split = small(BATCH) + uneven
    fitting = (size for size in range(min(given, 2), split + 2) if (size * ways % split != 0) == uneven)
    return next(fitting, given)


def _figures(
    model: Model,
    mesh: Mesh,
    cluster: Cluster,
    scenario: Scenario,
    batches: MicroBatches,
    batch_axes: Sequence[str],
) -> dict[str, str]:
    """What is shown before and after."""

    def rows() -> Iterator[tuple[str, object]]:
        yield from mesh.axes
        hosts = [f"{group.num_hosts} x {group.host.num_devices}" for group in cluster.groups]
        yield "hosts x devices", " + ".join(hosts)
        yield "micro-batches", ", ".join(map(str, batches.by_coordinate))
        task = scenario.spec.task
        yield "micro-batch", samples(task, mesh.product(batch_axes))
        if isinstance(task, InferenceSpec):
            yield from (("prompt", task.prompt), ("tokens", task.tokens))
        else:
            yield "sequence", task.seq_len
        yield from model.dimensions.items()
        if isinstance(task, TrainingSpec):
            yield from ((name, getattr(task.optimizer, name)) for name in (*_CONSTANTS, "weight_decay"))

    return {name: str(value) for name, value in rows()}
