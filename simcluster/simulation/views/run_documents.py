"""The documents of a run: everything reports need besides the tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
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
from simcluster.model import Flops, Model, Routed, Updates, forward_flops
from simcluster.plan import (
    Plan,
    describe_fusion,
    describe_profile,
    fine_tuned,
    frozen_parameters,
    fusible_reductions,
    render,
    training_flops,
)
from simcluster.program import HOST, CollectiveCalls, HostCalls, dispatch_counts, find_class_splits
from simcluster.scenario import Scenario
from simcluster.simulation.compose import BuiltScenario
from simcluster.simulation.views.assumed_figures import assumptions
from simcluster.simulation.views.error_band import RunKind, error_band_document
from simcluster.simulation.views.parameter_broadcast import summarise_parameter_broadcast
from simcluster.simulation.views.search_document import search_document_of
from simcluster.work import DType


def documents_of(built: BuiltScenario, timing: Timing, account: AllocationAccount) -> dict[str, Any]:
    """Documents by name, all of them JSON-able, but for those that are made when they are read."""
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
    return {
        "summary": summary | memory_maxima(memory) | band,
        "memory": memory,
        "host_memory": [host.over_time(timing.end) for host in hosts],
        # In another process figures have lost the type of their value, of which pydantic would warn.
        "scenario": spec.model_dump(mode="json", exclude_unset=True, warnings=False),
        "plan": plan_document(built, summary["step_time_s"]),
        "classes": _classes(built),
        "topology": _topology(built),
    }


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
    return {"plan": plan_document(built), "classes": _classes(built), "topology": _topology(built)}


def plan_document(built: BuiltScenario, step_time: float | None = None) -> dict[str, Any]:
    """What was decided: every choice named, shorthands written out; ``step_time`` if it was simulated."""
    plan, scenario = built.plan, built.scenario
    task = scenario.spec.task
    left_out = scenario.spec.model.remarks(scenario.folder)
    remarks = (tenant.scenario.remark for tenant in built.tenants if tenant.scenario.remark)
    return {
        "name": scenario.name,
        "model": scenario.spec.model.called,
        "parameters": scenario.model.num_parameters,
        **_active(scenario.model),
        **_trained_parameters(plan),
        "framework": scenario.framework.name,
        "framework_changes": _framework(built),
        "mesh": dict(unsplit_mesh(plan.mesh).axes),
        "stage_axis": plan.stage_axis,
        "layers_per_stage": list(plan.pipeline.layers_of_stages),
        **(
            {"layers_per_chunk": [list(chunk) for chunk in plan.pipeline.chunks]}
            if plan.pipeline.chain.num_chunks > 1
            else {}
        ),
        "micro_batches": plan.num_micro_batches,
        "data_parallel_ways": plan.placement.batch_ways,
        "global_batch": task.global_batch,
        "micro_batch": plan.pipeline.micro_batch,
        **({"copies": copies} if (copies := plan.pipeline.micro_batch_interleave) > 1 else {}),
        "seq_len": task.seq_len,
        **({"throughput_unit": unit} if (unit := scenario.model.throughput_unit) != "tokens" else {}),
        **_generation(plan),
        "precision": {
            "compute": str(plan.numerics.compute),
            "matmul": str(plan.numerics.matmul),
            "gradients": str(plan.numerics.gradients),
            "master": str(plan.numerics.master) if plan.numerics.master else "none",
            "optimizer_states": _states(plan.optimizer.states if plan.optimizer else {}),
        },
        "optimizer": plan.update.kind if plan.update else "",
        **_groups(plan),
        "gradient_clip": plan.optimizer.clip if plan.optimizer else None,
        "optimizer_sharding": plan.sharding.document(),
        "fusion": describe_fusion(plan.execution),
        "gradient_buckets": plan.execution.document(),
        "recompute": plan.recompute.model_dump(mode="json"),
        **({"offload": plan.offload.document()} if plan.offload.rules else {}),
        **({"host": list(scenario.spec.parallel.host)} if scenario.spec.parallel.host else {}),
        "recipe": plan.recipe,
        **search_document_of(plan, step_time),
        "vocabulary": plan.vocab,
        "schedule": {
            "kind": "forward only" if plan.pipeline.generation else scenario.spec.parallel.schedule.kind,
            "text": render(plan.timetable),
            "places": [list(place) for place in plan.pipeline.chain.places],
        },
        **_shares(plan),
        **_inputs(built),
        **summarise_parameter_broadcast(built),
        "notes": [
            *(*left_out, *_allocated(scenario), *plan.notes, *_routed(built), *_reuse(built), *remarks),
            *(scenario.spec.job.remarks if scenario.spec.job else ()),
        ],
    }


def _allocated(scenario: Scenario) -> Sequence[str]:
    """What the launcher's file that ranks are from says, and should not."""
    named, allocation = scenario.spec.cluster.file, scenario.spec.cluster.allocation
    return [f"{named[1]}: {note}" for note in allocation.notes] if named and allocation else []


def _generation(plan: Plan) -> dict[str, Any]:
    """What is generated, where nothing is trained."""
    generation = plan.pipeline.generation
    if generation is None:
        return {}
    return {
        "inference": {
            "prompt": generation.prompt,
            "tokens": generation.tokens,
            "decode_steps": list(generation.steps),
            "cache": str(generation.dtype),
        }
    }


def _active(model: Model) -> dict[str, int]:
    """How many parameters a token meets, where a router chooses."""
    if not isinstance(model, Routed) or model.num_active_parameters == model.num_parameters:
        return {}
    return {"active_parameters": model.num_active_parameters}


def _trained_parameters(plan: Plan) -> dict[str, int]:
    """How many parameters are trained, where some are frozen; those of adapters are not the model's."""
    frozen = frozen_parameters(plan.logical)
    if not frozen:
        return {}
    sizes = ((name, kind.num_elements) for name, kind in plan.logical.parameters())
    return {"trained_parameters": sum(size for name, size in sizes if name not in frozen)}


def _routed(built: BuiltScenario) -> list[str]:
    """How unequally many tokens ranks get, where the scenario says how experts are chosen."""
    if built.plan.routing.uniform:
        return []
    tables = {
        table
        for code in built.program.codes
        for instruction in code.instructions
        if instruction.parts is not None
        for table in instruction.parts.tables
    }
    most = max((float(table.counts.sum(axis=0).max()) * table.share for table in tables), default=1.0)
    return [f"experts chosen by {built.plan.routing}: of one layer a rank gets up to {most:.3g} x the mean"]


def _reuse(built: BuiltScenario) -> list[str]:
    """What reusing calls of collectives comes to, if the scenario asks for it."""
    plan = built.plan
    if plan.execution.call_reuse is None:
        return []
    calls = CollectiveCalls.of(built.program, HostCalls.of(plan))
    before, after = max(calls.number(part) for part in range(len(built.program.parts)))
    if before == after:
        return [
            f"comm_subgraph_reuse reuses nothing: no {plan.execution.call_reuse:,} collectives of a stream "
            "are alike"
        ]
    told = f"communication sub-graphs reused: {after:,} calls for {before:,} collectives of a step"
    free = (
        ""
        if plan.execution.collective_call
        else ", no time saved: the framework profile counts none for calling"
    )
    return [told + free]


def _inputs(built: BuiltScenario) -> dict[str, Any]:
    """How inputs reach the devices, and the dataset as its shards read it, where the scenario says it."""
    plan, spec = built.plan, built.scenario.spec
    if plan.pipeline.inputs is None or spec.data is None:
        return {}
    epoch = plan.pipeline.inputs.epoch(plan.graph, plan.mesh, spec.task.global_batch)
    told = {"epoch": asdict(epoch)} if epoch else {}
    written = spec.data
    return {
        "inputs": {
            "strategy": written.strategy,
            "source": written.source,
            "sample_bytes": written.sample,
            "decode_s": written.decode,
            "workers": written.workers,
            "prefetch": written.prefetch,
            **told,
        }
    }


def _shares(plan: Plan) -> dict[str, Any]:
    """Who trains how many micro-batches, and the schedule of each; nothing where all train equally many."""
    batches = plan.pipeline.batches
    if not batches.axis:
        return {}
    schedules = [
        {"micro_batches": count, "text": render(timetable)}
        for count, timetable in zip(batches.counts, plan.pipeline.timetables, strict=True)
    ]
    return {
        "batch_shares": {
            "axis": batches.axis,
            "micro_batches": list(batches.by_coordinate),
            "schedules": schedules,
        }
    }


def _groups(plan: Plan) -> dict[str, dict[str, str]]:
    """The rules of parameters that have others than the usual one, by pattern, if any have."""
    if not isinstance(plan.update, Updates):
        return {}
    return {"optimizer_groups": {pattern: update.kind for pattern, update in plan.update.groups}}


def _states(formats: Mapping[str, DType]) -> str:
    """One format, or each state's; empty if the optimizer keeps none."""
    told = {str(dtype) for dtype in formats.values()}
    if len(told) < 2:
        return "".join(told)
    return " and ".join(f"{dtype} {name}" for name, dtype in formats.items())


_OF_TRAINING = frozenset(
    {
        "accumulate",
        "gradient_casts",
        "optimizer",
        "gradients",
        "main_gradients",
        "weights",
        "recompute",
        "reduction",
        "gather",
        "p2p",
        "p2p_interleaved",
        "storage.in_place",
        "storage.placeholders",
    }
)
"""What a profile says of training only: of gradients, weights that are updated, and stages that wait for what
comes back."""


def _framework(built: BuiltScenario) -> list[str]:
    """What the framework profile changes against the ideal one in this plan."""
    spec, plan = built.scenario.spec, built.plan
    schedule = spec.parallel.schedule
    alone, one_stage = plan.placement.batch_ways == 1, plan.num_stages == 1
    interleaved, by_chunks = (
        built.scenario.framework.p2p_interleaved is not None,
        plan.pipeline.chain.num_chunks > 1,
    )
    quantised = spec.task.formats.quantised
    idle = {
        "storage.headroom": spec.run.headroom is not None,
        "gradients": plan.numerics.gradients is DType.FP32 or spec.task.formats.gradients is not None,
        "main_gradients": plan.numerics.master in (None, plan.numerics.gradients),
        "weights": plan.numerics.compute is DType.FP32
        or spec.task.formats.master is not None
        or plan.sharding.weights,
        "accumulate": plan.sharding.gradients,
        "gradient_casts": plan.sharding.gradients or plan.numerics.gradients is plan.numerics.compute,
        "quantised_gathers": quantised is None or quantised.communication is not None,
        "fp8_transposes": plan.numerics.matmul is not DType.FP8,
        "host_updates": not any(HOST in code.streams for code in built.program.codes),
        "gather": not plan.sharding.states or plan.sharding.weights or alone,
        "reduction.bucket": alone or _buckets_are_given(built),
        "reduction.limit": alone or _buckets_are_given(built),
        "reduction.buffers": alone or plan.execution.no_fusion,
        "p2p": one_stage or schedule.p2p is not None or (interleaved and by_chunks),
        "p2p_interleaved": one_stage or schedule.p2p is not None or not by_chunks,
        "p2p_scatter": one_stage or not plan.execution.p2p_scatter_axes,
    }
    changes = built.scenario.framework.changes()
    return describe_profile(
        {
            key: value
            for key, value in changes.items()
            if not idle.get(key, alone and key.startswith("reduction"))
            and not (plan.pipeline.generation and {key, key.partition(".")[0]} & _OF_TRAINING)
        }
    )


def _buckets_are_given(built: BuiltScenario) -> bool:
    """Whether the scenario's fusion leaves no gradients to the buckets of the profile."""
    fusion = built.scenario.spec.parallel.fused
    return fusion.closed or (bool(fusion.said) and fusible_reductions(built.plan.graph) <= set(fusion.said))


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
            "device": built.cluster.device(rank).name,
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
