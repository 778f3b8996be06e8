"""A plan small enough for values: the same structure on at most 64 ranks, by a stated rule.

Every axis larger than one stays at least 2, a pipeline at least 3 if it had as many; the largest axis is
divided by its smallest factor until at most 64 ranks are left. Hosts shrink so that the axes that crossed
hosts still do. Micro-batches stay one more than stages (with chunks: than these on all stages) where there
were as many; unequal shares of the batch stay unequal and in their order. The model keeps its structure: what
was divided still divides, what was padded is padded, grouped heads stay grouped, uneven stages stay uneven.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pydantic import TypeAdapter

from simcluster.cluster import Cluster
from simcluster.deferred_dataclass import dataclass
from simcluster.document import validate_data
from simcluster.errors import PlanError
from simcluster.layout import Mesh
from simcluster.model import Model, vocabulary_of
from simcluster.plan import (
    AutoSpec,
    DataSpec,
    InferenceSpec,
    MicroBatches,
    OptimizerShardingSpec,
    Plan,
    RoutingSpec,
    StrategySpec,
    SubgraphSpec,
    Task,
    TrainingSpec,
    default_layers,
    fine_tuned,
    given_feed_layouts,
    matches_operator_or_module,
)
from simcluster.scenario import Scenario
from simcluster.simulation.verification.shrink_changes import left_out, shown_sizes
from simcluster.simulation.verification.shrink_cluster import small_cluster
from simcluster.simulation.verification.shrink_dims import SmallDims
from simcluster.simulation.verification.shrink_fine_tuning import small_fine_tuning
from simcluster.simulation.verification.shrink_offload import small_offload
from simcluster.simulation.verification.shrink_optimizer import (
    VERIFIABLE_CONSTANTS,
    small_optimizer,
    verifiable,
)
from simcluster.simulation.verification.shrink_patterns import GraphNames, fits, fitting
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

MOST_SERVERS = 2
"""Parameter servers of small scenarios: keys and rows are dealt out to several."""


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
    ways = SmallDims.of(plan, mesh)
    if given is not None:
        layers = default_layers(given.num_layers, len(layers))
    model = given or scenario.model.shrunk(
        sum(layers), ways, padded=plan.vocab > vocabulary_of(scenario.model)
    )
    names = GraphNames(model.graph(1, model.fixed_seq_len or 1, plan.numerics.compute, 1))
    fine_tuning = small_fine_tuning(spec.task, names.graph, ways)
    if fine_tuning:
        assert isinstance(spec.task, TrainingSpec)
        names = GraphNames(fine_tuned(names.graph, spec.task.model_copy(update=fine_tuning)))
    copies = plan.pipeline.micro_batch_interleave
    wanted = small_batches(plan.pipeline.batches.taken_together(copies), mesh, len(layers))
    batches = runnable_batches(wanted, schedule, stages, plan.num_micro_batches // copies)
    micro_batch = copies * ways.micro_batch()
    trained = sum(batches.by_coordinate) / len(batches.by_coordinate)
    batch = round(trained * micro_batch * mesh.product(plan.placement.batch_axes))
    seq = model.fixed_seq_len or min(spec.task.seq_len, schedule.num_slices * ways("seq", 4))
    task = _small_task(spec.task, batch, micro_batch, batches, seq)
    if isinstance(spec.task, TrainingSpec):
        optimizer = small_optimizer(spec.task.optimizer, names)
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
            "fusion": fusion.model_copy(update={"ids": fitting(fusion.ids, names.parameters)})
            if fusion.ids
            else fusion,
            "strategies": _small_strategies(scenario, plan, names),
            "shard": _small_pieces(spec.parallel.shard, names),
            "host": tuple(pattern for pattern in spec.parallel.host if fits(pattern, names.on_host)),
            "offload": small_offload(spec.parallel.offload, plan.offload),
            "recompute": small_recompute(plan, names.graph, layers, chain),
            "parameter_server": servers
            and servers.model_copy(
                update={"parameters": tuple(one for one in servers.parameters if fits(one, names.parameters))}
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
    shrunk = replace(scenario, spec=small)
    before = shown_sizes(scenario, scenario.model, scenario.cluster, plan.mesh, plan, plan.pipeline.batches)
    after = shown_sizes(shrunk, model, cluster, mesh, plan, batches)
    changes = tuple((name, old, after[name]) for name, old in before.items() if old != after[name])
    return ShrunkScenario(shrunk, model, cluster, (*changes, *left_out(scenario, plan)))


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
    changed = verifiable(given)
    training = spec.training.model_copy(update={"optimizer": changed})
    small = replace(scenario, spec=spec.model_copy(update={"training": training, "tenants": ()}))
    changes = tuple(
        (name, str(getattr(given, name)), str(getattr(changed, name)))
        for name in VERIFIABLE_CONSTANTS
        if getattr(given, name) != getattr(changed, name)
    )
    return ShrunkScenario(small, scenario.model, scenario.cluster, changes)


def _small_groups_of_shards(plan: Plan, mesh: Mesh, names: GraphNames) -> dict[str, Any]:
    """Groups that share parameters lie along the same axes; patterns of parameters that are gone are, too."""
    sharding = plan.sharding
    group = sharding.group(sharding.axes, plan.mesh)
    size = 1 if sharding.shard_size == 1 else mesh.product(group) if group != sharding.axes else -1
    kept = [pattern for pattern in sharding.whole if fits(pattern, names.parameters)]
    return {"shard_size": size, "whole": kept}


def _small_data(scenario: Scenario, plan: Plan) -> DataSpec | None:
    """The section of inputs; numbers of parts count the ranks of the large mesh, so axes are written out."""
    data = scenario.spec.data
    if data is None or data.strategy is None or isinstance(data.strategy, str):
        return data
    return data.model_copy(
        update={"strategy": tuple(layout.dims for layout in given_feed_layouts(plan.graph).values())}
    )


def _small_strategies(scenario: Scenario, plan: Plan, names: GraphNames) -> tuple[StrategySpec, ...]:
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
    return fitting(entries, [*names.operators, *planned])


def _small_pieces(pieces: Sequence[SubgraphSpec], names: GraphNames) -> tuple[SubgraphSpec, ...]:
    """The pieces of the small plan: graphs as in the large one, whose strategies are written out."""
    return tuple(
        SubgraphSpec(piece=piece.piece)
        for piece in pieces
        if any(matches_operator_or_module(piece.piece, name) for name in names.operators)
    )
