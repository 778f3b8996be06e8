"""The documents of a run: everything reports need besides the tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from simcluster.analysis import (
    AllocationAccount,
    MemoryRule,
    memory_maxima,
    report_memory,
    summarise_host_memory,
    summarise_run,
    summarise_servers,
)
from simcluster.cluster import HostGroup
from simcluster.engine import Timing
from simcluster.layout import unsplit_mesh
from simcluster.model import Flops, Routed, forward_flops
from simcluster.plan import (
    fine_tuned,
    training_flops,
)
from simcluster.program import HostCalls, dispatch_counts, find_class_splits
from simcluster.simulation.compose import BuiltScenario
from simcluster.simulation.views.assumed_figures import assumptions
from simcluster.simulation.views.error_band import RunKind, error_band_document
from simcluster.simulation.views.plan_description import plan_document


def documents_of(
    built: BuiltScenario, timing: Timing, account: AllocationAccount
) -> tuple[dict[str, Any], dict[str, Callable[[], Any]]]:
    """Documents by name, all of them JSON-able, and what makes others when they are read."""
    plan, placed, spec = built.plan, built.placed, built.scenario.spec
    rule = MemoryRule.of(built.scenario.framework, spec.run)
    hosts = summarise_host_memory(placed, timing, plan.offload)
    assigned = _have_roles(built)
    peaks, memory = report_memory(placed, timing, account, rule, spec.run.steps, assigned=assigned)
    summary = summarise_run(
        placed,
        timing,
        task=spec.task,
        steps=spec.run.steps,
        needed=_step_flops(built),
        matmul=plan.numerics.matmul,
        host=HostCalls.of(plan),
        memory=peaks,
        hosts=[host.peak() for host in hosts],
        dispatch=dispatch_counts(placed, plan.execution.dispatch) if plan.pieces else None,
        assumed=assumptions(placed, built.scenario.framework, spec.run),
    )
    if plan.servers is not None:
        samples, steps = spec.task.global_batch, spec.run.steps
        summary["parameter_server"] = summarise_servers(placed, timing, plan.servers, samples, steps)
    band = {"error_band": error_band_document(_kind(built))} if spec.training is not None else {}
    made = {
        "summary": summary | memory_maxima(memory) | band,
        "memory": memory,
        "host_memory": [host.over_time(timing.end) for host in hosts],
    }
    # In another process figures have lost the type of their value, of which pydantic would warn.
    scenario = partial(spec.model_dump, mode="json", exclude_unset=True, warnings=False)
    return made, {"scenario": scenario, **_known_before(built, summary["step_time_s"])}


def _step_flops(built: BuiltScenario) -> Flops:
    """The matrix FLOPs of a step that the model needs, whatever a plan computes besides.

    Of a training three times the forward pass of its sequences, without the gradients of weights that are
    not trained; of an inference the passes that are simulated.
    """
    plan, model, training = built.plan, built.scenario.model, built.scenario.spec.training
    if training is None:
        return forward_flops(plan.logical) * plan.num_micro_batches
    counted = model.for_flops if isinstance(model, Routed) else model
    graph = counted.graph(1, training.seq_len, plan.numerics.compute, 1)
    return training_flops(fine_tuned(graph, training), training.global_batch)


def _kind(built: BuiltScenario) -> RunKind:
    """What the run is compared by with measured ones."""
    framework, plan = built.scenario.framework, built.plan
    batch = set(plan.placement.batch_axes) - {"expert"}
    axes = [axis for axis, size in unsplit_mesh(plan.mesh).axes if size > 1 and axis not in batch]
    if any(size > 1 for axis, size in unsplit_mesh(plan.mesh).axes if axis in batch):
        axes.append("data")
    model = built.scenario.model
    mixture = isinstance(model, Routed) and model.num_active_parameters != model.num_parameters
    device = built.placed.cluster.groups[0].host.device.name
    return RunKind.of(device, framework.use or framework.title, axes, mixture=mixture)


def planned_documents(built: BuiltScenario) -> dict[str, Any]:
    """The documents that are known before anything runs."""
    return {name: make() for name, make in _known_before(built, None).items()}


def _known_before(built: BuiltScenario, step_time: float | None) -> dict[str, Callable[[], Any]]:
    """What makes the documents that need no times, but for the step's if it was simulated."""
    return {
        "plan": partial(plan_document, built, step_time),
        "classes": partial(_classes, built),
        "topology": partial(_topology, built),
    }


def _have_roles(built: BuiltScenario) -> bool:
    """Whether ranks run programs of their own, written by hand or as servers, instead of stages."""
    return bool(built.plan.placement.part_of_rank) or built.plan.servers is not None


def _classes(built: BuiltScenario) -> list[dict[str, Any]]:
    """Which ranks were simulated together, for whom, and what a changed device or link has to do with it."""
    classes = built.classes
    why = find_class_splits(classes, built.cluster)
    by_class = np.split(np.argsort(classes.of_rank, kind="stable"), np.cumsum(classes.sizes)[:-1])
    return [
        {
            "class": index,
            "stage": built.program.stage_of(rank),
            "representative": rank,
            "ranks": classes.sizes[index],
            "members": ranks_text(by_class[index].tolist()),
            "next_class": classes.next_stage[index][0] if index in classes.next_stage else None,
            "device": built.placed.devices[index].name,
            **({"program": built.program.role_of(rank)} if _have_roles(built) else {}),
            **_trained(built, rank),
            **({"changed": why[index]} if index in why else {}),
        }
        for index, rank in enumerate(classes.representatives)
    ]


def _trained(built: BuiltScenario, rank: int) -> dict[str, int]:
    """Micro-batches of a rank, where ranks have unequal numbers of them."""
    batches, program = built.plan.pipeline.batches, built.program
    if not batches.axis:
        return {}
    return {"micro_batches": batches.counts[program.part_of(rank) % program.num_variants]}


def ranks_text(ranks: Sequence[int], shown: int = 3) -> str:
    """Sorted ranks as text: ``0..63``, or ``0..7, 32..39, 64..71, ...`` where they lie apart."""
    edges = [index for index in range(1, len(ranks)) if ranks[index] != ranks[index - 1] + 1]
    runs = [(ranks[a], ranks[b - 1]) for a, b in zip([0, *edges], [*edges, len(ranks)], strict=True)]
    texts = [str(first) if first == last else f"{first}..{last}" for first, last in runs[:shown]]
    return ", ".join([*texts, "..."] if len(runs) > shown else texts)


def _topology(built: BuiltScenario) -> dict[str, Any]:
    """The cluster; ``changed``, only where devices are, has their number and the range of their factors.

    Of a mixed cluster the ``groups``, and of its devices the mean peaks over ranks. ``of_hosts``, only where
    not all hosts are its own, has how many there are.
    """
    cluster = built.cluster
    speeds = list(cluster.speeds.values())
    factors = {
        "compute": [speed.compute for speed in speeds],
        "memory_bandwidth": [speed.memory_bandwidth for speed in speeds],
    }
    changed = {name: [min(values), max(values)] for name, values in factors.items() if set(values) - {1.0}}
    told: dict[str, Any] = {"changed": {"devices": len(speeds), **changed}} if speeds else {}
    if cluster.whole is not None:
        told |= {"of_hosts": cluster.whole.num_hosts} if cluster.whole.num_hosts > cluster.num_hosts else {}
    groups = [_group(group) for group in cluster.groups]
    if not cluster.mixed:
        return groups[0] | told
    # Parameter servers and their scheduler train nothing.
    trains = built.program.mesh.num_on_axes
    counts = np.bincount(cluster.group_of(np.arange(trains)), minlength=len(cluster.groups)).tolist()
    training = [(count, group) for count, group in zip(counts, cluster.groups, strict=True) if count]
    means = {
        str(dtype): sum(count * group.host.device.peak[dtype] for count, group in training) / trains
        for dtype in training[0][1].host.device.peak
        if all(dtype in group.host.device.peak for _, group in training)
    }
    return {"groups": groups, "hosts": cluster.num_hosts, "device_peak_flops_per_s": means, **told}


def _group(group: HostGroup) -> dict[str, Any]:
    """Equal hosts and their devices."""
    device, size = group.host.device, group.host.num_devices
    return {
        "host": group.host.name,
        "hosts": group.num_hosts,
        "devices_per_host": size,
        **({"devices": used} if (used := group.num_devices) < group.num_hosts * size else {}),
        "device": device.name,
        "device_memory_bytes": device.memory,
        "device_peak_flops_per_s": {str(dtype): rate for dtype, rate in device.peak.items()},
    }
