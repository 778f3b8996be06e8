"""The document of a run that says its plan: every choice named, shorthands written out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from simcluster.layout import unsplit_mesh
from simcluster.model import Model, Routed, Updates
from simcluster.plan import (
    Plan,
    describe_fusion,
    describe_profile,
    frozen_parameters,
    fusible_reductions,
    render,
)
from simcluster.program import HOST, CollectiveCalls, HostCalls
from simcluster.scenario import Scenario
from simcluster.simulation.compose import BuiltScenario
from simcluster.simulation.views.parameter_broadcast import summarise_parameter_broadcast
from simcluster.simulation.views.search_document import search_document_of
from simcluster.work import DType


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
