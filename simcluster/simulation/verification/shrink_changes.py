"""What the small form of a scenario has other than the scenario itself, for readers of a verification."""

from __future__ import annotations

from collections.abc import Iterator

from simcluster.cluster import Cluster
from simcluster.layout import Mesh
from simcluster.model import Model
from simcluster.plan import InferenceSpec, MicroBatches, Plan, TrainingSpec, samples
from simcluster.scenario import Scenario
from simcluster.simulation.verification.shrink_optimizer import VERIFIABLE_CONSTANTS


def shown_sizes(
    scenario: Scenario, model: Model, cluster: Cluster, mesh: Mesh, plan: Plan, batches: MicroBatches
) -> dict[str, str]:
    """The sizes of a scenario by name: those of its mesh, its hosts, its batches and its model."""

    def rows() -> Iterator[tuple[str, object]]:
        yield from mesh.axes
        hosts = [f"{group.num_hosts} x {group.host.num_devices}" for group in cluster.groups]
        yield "hosts x devices", " + ".join(hosts)
        yield "micro-batches", ", ".join(map(str, batches.by_coordinate))
        task = scenario.spec.task
        yield "micro-batch", samples(task, mesh.product(plan.placement.batch_axes))
        if isinstance(task, InferenceSpec):
            yield from (("prompt", task.prompt), ("tokens", task.tokens))
        else:
            yield "sequence", task.seq_len
        yield from model.dimensions.items()
        if isinstance(task, TrainingSpec):
            yield from (
                (name, getattr(task.optimizer, name)) for name in (*VERIFIABLE_CONSTANTS, "weight_decay")
            )

    return {name: str(value) for name, value in rows()}


def left_out(scenario: Scenario, plan: Plan) -> Iterator[tuple[str, str, str]]:
    """What values do not depend on, or have in another form: (what, before, after)."""
    spec, servers = scenario.spec, scenario.spec.parallel.parameter_server
    if plan.sharding.min_bytes:
        yield "smallest sharded parameter", f"{plan.sharding.min_bytes:,} B", "0 B"
    if not plan.routing.uniform:
        # Values have a router of their own, and a place for every token that it sends to an expert.
        yield "experts chosen by", str(plan.routing), "the router"
    if scenario.cluster.speeds:
        # No value depends on how fast a device is.
        yield "changed devices", f"{len(scenario.cluster.speeds):,}", "0"
    if servers is not None and servers.vocab_cache_size:
        # Rows in a cache are what the table has, wherever they came from.
        yield "rows in the cache", f"{servers.vocab_cache_size:,}", "all"
    if spec.tenants:
        # Nor on who else is on the links; each tenant is verified as a scenario of its own.
        yield "tenants", f"{len(spec.tenants):,}", "0"
