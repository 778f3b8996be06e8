"""Notes on a plan: what was decided without being asked for, and settings without effect."""

from __future__ import annotations

from collections.abc import Iterator

from simcluster import units
from simcluster.collectives import Selection
from simcluster.layout import Mesh, Movement, axis_pieces, unsplit_mesh, whole_axes
from simcluster.model import Block, Graph, Phase
from simcluster.plan.recompute import is_distributed
from simcluster.plan.redistribution import RedistributionPlanner
from simcluster.plan.rules import BATCH, PIPELINE, AxisRoles
from simcluster.plan.sharding import PROPAGATED, padded_dims
from simcluster.plan.spec import ParallelSpec, ShardingChoice, explicit_sharding
from simcluster.plan.strategies import DEFAULT, Strategies


def plan_notes_of(
    parallel: ParallelSpec,
    recipe: str,
    strategies: Strategies,
    sharding: ShardingChoice,
    mesh: Mesh,
    roles: AxisRoles,
    algorithms: Selection,
    vocabulary: tuple[int, int],
) -> Iterator[str]:
    """Notes on decisions that the scenario does not state, and on settings without effect.

    ``vocabulary`` is its size before and after padding.
    """
    written = parallel.optimizer_sharding
    if written is None and sharding.states:
        yield f"recipe {recipe} shards {sharding}; optimizer_sharding may say otherwise"
    if explicit_sharding(written, ()).states and not sharding.states:
        yield "optimizer_sharding shards nothing: no batch axis has more than one rank"
    ways = mesh.product(sharding.axes)
    if sharding.shard_size > 0 and ways % sharding.shard_size:
        yield (
            f"optimizer_sharding.shard_size {sharding.shard_size} does not divide the {ways} ranks of "
            f"{' x '.join(whole_axes(sharding.axes))}: where they hold the same it is ignored"
        )
    before, padded = vocabulary
    if padded != before:
        yield f"vocabulary padded from {before:,} to {padded:,}"
    for axis, size in unsplit_mesh(mesh).axes:
        if axis not in mesh.sizes:
            cut = " x ".join(f"{part} {mesh.size(part)}" for part in axis_pieces(mesh, axis))
            counted = any(entry.rule("scenario").numbered for entry in parallel.strategies)
            grouped = sharding.shard_size > 0 and not counted
            who = "optimizer_sharding.shard_size cuts" if grouped else "strategies cut"
            yield f"{who} {axis} {size} into {cut}"
    used = {axis for role in (BATCH, PIPELINE) for axis in roles.axes[role]}
    rest = [f"{axis} ({size})" for axis, size in unsplit_mesh(mesh).axes if axis not in used and size > 1]
    if strategies.unconfigured and rest:
        operators = f"{strategies.unconfigured:,} operator{'s' * (strategies.unconfigured != 1)}"
        yield f"{operators} without a strategy, replicated over {', '.join(rest)}"
    how = parallel.redistribution
    if how.infers:
        exchanges = "" if how.exchanges else ", without all-to-all"
        yield f"redistribution as MindSpore infers it{exchanges}, whatever it costs"
    if algorithms.named:
        yield f"{algorithms}, as the scenario says; the rest by the fastest"


def settings_without_effect(parallel: ParallelSpec, graph: Graph, sharding: ShardingChoice) -> Iterator[str]:
    """Notes on recomputation and offload settings that change nothing in this plan."""
    spec = parallel.recompute
    if parallel.offload.path is not None:
        yield f"offload.path {parallel.offload.path} changes nothing: a host's disks are simulated as one"
    if unused := parallel.offload.unused_disk_keys:
        named = " and ".join(f"offload.{name}" for name in unused)
        yield f"{named} change{'s' * (len(unused) == 1)} nothing: nothing is stored on disks"
    if spec.gathers and (not sharding.weights or sharding.regather):
        why = "are gathered again anyway" if sharding.weights else "are whole on every rank"
        yield f"recompute.gathers changes nothing: weights {why}"
    if spec.slice and not is_distributed(graph):
        yield "recompute.slice changes nothing: no ranks keep the same input of a recomputed layer"


def propagation_notes(strategies: Strategies, graph: Graph, router: RedistributionPlanner) -> Iterator[str]:
    """Notes on sharding propagation: how many operators it configured, and what redistribution costs."""
    counts = {PROPAGATED: 0, DEFAULT: 0, "": 0}
    for sources in strategies.sources.values():
        for source in sources.values():
            counts[source if source in counts else ""] += 1
    if not counts[PROPAGATED]:
        return
    moved: dict[str, tuple[int, float]] = {}
    number, cost = 0, 0.0
    for instance in graph.instances:
        if instance.block not in moved:
            moved[instance.block] = _redistribution(graph.blocks[instance.block], router)
        number += moved[instance.block][0]
        cost += moved[instance.block][1]
    yield (
        f"sharding propagation: {counts[PROPAGATED]:,} operators follow {counts['']:,} that are configured; "
        f"layouts cost {number:,} collectives, {units.seconds(cost)} for a micro-batch, not overlapped"
    )


def padding_notes(graph: Graph, strategies: Strategies, mesh: Mesh) -> Iterator[str]:
    """Notes on dims that do not divide over the ranks that split them, with the share of work wasted."""
    for (dim, size, axes), count in padded_dims(graph, strategies, mesh).items():
        whole = -(-size // mesh.product(axes)) * mesh.product(axes)
        over = " x ".join(f"{axis} ({mesh.size(axis)})" for axis in axes)
        operators = f"{count:,} operator{'s' * (count > 1)}"
        yield (
            f"{dim} {size:,} padded to {whole:,} over {over} in {operators}: "
            f"{units.percent((whole - size) / whole, 0)} of that work is padding"
        )


def _redistribution(block: Block, router: RedistributionPlanner) -> tuple[int, float]:
    """Collectives between layouts in a forward and backward of a block, and their seconds."""
    number, cost = 0, 0.0
    for node in block.phase(Phase.FORWARD, Phase.BACKWARD, Phase.WEIGHTS):
        if isinstance(node.operator, Movement) and node.operator.is_collective:
            before, after = block.values[node.inputs[0]], block.values[node.outputs[0]]
            assert before.layout is not None and after.layout is not None
            number += 1
            cost += router.price(before.type, before.layout, ((node.operator, after.layout),))
    return number, cost
