"""Several scenarios at once on one cluster: how long each takes alone, and together with the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from simcluster.analysis import (
    AllocationAccount,
    MemoryRule,
    overall_verdict,
    report_memory,
    wait_times,
)
from simcluster.cluster import format_index_list
from simcluster.deferred_dataclass import dataclass
from simcluster.engine import Progress, Timing, classes_together
from simcluster.errors import PlanError
from simcluster.program import ClassFlows
from simcluster.simulation.compose.build import BuiltScenario, run_alone, run_tenants

MOST_ENTRIES = 10**8
"""Entries of streams run for one scenario while others last: some minutes."""


@dataclass(frozen=True)
class TenantResult:
    """A scenario and its timing on the shared links, and both for it ``alone``."""

    built: BuiltScenario
    timing: Timing
    alone: BuiltScenario
    timing_alone: Timing


def simulate_tenants(
    built: BuiltScenario, *, unfold: bool = False, progress: Progress | None = None
) -> list[TenantResult]:
    """A scenario and its tenants, each run alone and all of them at once."""
    every = [built, *built.tenants]
    alone = [run_alone(built) for built in every]
    _check_rounds(every, alone)
    parts = [(built.program, built.cluster, built.plan.execution.algorithms) for built in every]
    shared = [
        replace(tenant, classes=classes, fabric=fabric)
        for tenant, (classes, fabric) in zip(every, classes_together(parts, unfold=unfold), strict=True)
    ]
    timings = run_tenants(shared, progress)
    return [TenantResult(*members) for members in zip(shared, timings, every, alone, strict=True)]


def _check_rounds(every: Sequence[BuiltScenario], alone: Sequence[Timing]) -> None:
    """PlanError if who is through would have to begin again so often that it takes too long."""
    longest = max(range(len(every)), key=lambda index: alone[index].end)
    for built, timing in zip(every, alone, strict=True):
        rounds = -(-alone[longest].end // timing.end)
        if rounds * timing.num_events > MOST_ENTRIES:
            steps = built.scenario.spec.run.steps
            raise PlanError(
                f"the {steps:,} steps of '{built.scenario.name}' would be run {rounds:,} times beside "
                f"'{every[longest].scenario.name}': {rounds:,} x {timing.num_events:,} = "
                f"{rounds * timing.num_events:,} entries; at most {MOST_ENTRIES:,} are simulated",
                path="tenants",
                hint="give the long one fewer run.steps, or simulate them apart",
            )


def summarise_tenants(results: Sequence[TenantResult]) -> dict[str, Any]:
    """``slowdown`` of the first, and ``tenants``: figures of all of them, itself the first; {} for none."""
    if not results:
        return {}
    links = [_used(tenant.built.classes.flows) for tenant in results]
    summaries = []
    for index, tenant in enumerate(results):
        others = {
            other.built.scenario.name: common
            for at, other in enumerate(results)
            if at != index and (common := _common(tenant.built, links[index], links[at]))
        }
        summaries.append({**_figures(tenant), "shared_links": others})
    return {"slowdown": summaries[0]["slowdown"], "tenants": summaries}


def _figures(tenant: TenantResult) -> dict[str, Any]:
    """Times are per step of its own ``run.steps``, waits means over ranks."""
    built = tenant.built
    steps = built.scenario.spec.run.steps
    rule = MemoryRule.of(built.scenario.framework, built.scenario.spec.run)
    account = AllocationAccount(built.placed, tenant.timing)
    assigned = bool(built.plan.placement.part_of_rank)
    memory, _ = report_memory(built.placed, tenant.timing, account, rule, steps, assigned=assigned)
    hosts = built.cluster.hosts
    return {
        "name": built.scenario.name,
        "hosts": format_index_list(hosts.tolist()),
        "num_hosts": hosts.size,
        "num_ranks": built.plan.mesh.num_ranks,
        "num_classes": len(built.classes),
        "step_time_s": tenant.timing.end * 1e-9 / steps,
        "step_time_alone_s": tenant.timing_alone.end * 1e-9 / steps,
        "slowdown": tenant.timing.end / tenant.timing_alone.end,
        "waits_s": _waits(built, tenant.timing),
        "waits_alone_s": _waits(tenant.alone, tenant.timing_alone),
        "peak_memory_bytes_max": max(entry["total"] for entry in memory),
        **overall_verdict(memory),
    }


def _waits(built: BuiltScenario, timing: Timing) -> dict[str, float]:
    return wait_times(built.placed, timing, built.scenario.spec.run.steps)


def _used(flows: ClassFlows) -> np.ndarray:
    """The classes of links that a scenario loads."""
    rows = [*(loads for patterns in flows.groups.values() for loads in patterns), *flows.transfers]
    return np.unique(np.concatenate([np.zeros(0, dtype=np.int64), *(loads.links for loads in rows)]))


def _common(built: BuiltScenario, one: np.ndarray, other: np.ndarray) -> Mapping[str, Any]:
    """How many links two scenarios both load, and the name of the first; {} for none."""
    links = built.classes.flows.links
    both = np.intersect1d(one, other)
    if not both.size:
        return {}
    first = built.cluster.topology.name(int(links.first[both].min()))
    return {"links": int(links.sizes[both].sum()), "first": first}
