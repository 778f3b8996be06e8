"""From a planned graph and its timetable to the Program: codes lowered once, executions per part."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.model import Phase
from simcluster.plan import InputPipeline, Plan, VirtualStages
from simcluster.program.assembly.disk_sums import add_disk_sums
from simcluster.program.assembly.input_pipeline import (
    RankInput,
    add_input_executions,
    input_buffer,
    input_codes,
)
from simcluster.program.assembly.offload_prefetch import add_prefetches
from simcluster.program.assembly.owned_updates import OwnedUpdates
from simcluster.program.assembly.persistent_buffers import (
    PersistentBuffers,
    gradient_placeholders,
    operand_buffers,
)
from simcluster.program.buckets import CommunicationBuckets, EqualStages, add_unit_executions, crossing_ties
from simcluster.program.isa import (
    COMPUTE,
    HOST,
    BlockExecution,
    Executions,
    Instruction,
    InstructionBlock,
    InstructionKind,
    PersistentBuffer,
    Program,
    StageProgram,
)
from simcluster.program.lowering import (
    BEGIN,
    FETCH,
    FORWARD,
    MEASURE,
    NORM,
    PREPARE,
    UPDATE,
    CodeTable,
    Lowering,
    order_copies,
)
from simcluster.program.parameter_server import add_servers
from simcluster.program.routing import apply_routing
from simcluster.program.stages import (
    BoundaryTensors,
    ScheduleExpansion,
    StageContext,
    shared_parameter_holders,
)
from simcluster.work import DType


def build(plan: Plan, without: Collection[str] = ()) -> Program:
    """The Program of a plan, with a part for every stage and timetable; phases ``without`` are left out.

    Ranks with experts that get unequally many tokens, as ``plan.routing`` says, have parts of their own.
    """
    pipeline, policy, placement = plan.pipeline, plan.execution, plan.placement
    paired = any(
        action.overlapped_with for timetable in pipeline.timetables for row in timetable for action in row
    )
    tf32 = plan.numerics.matmul is DType.TF32
    codes = CodeTable(
        Lowering(placement.mesh, policy, tf32, paired, without),
        placement.stage_axis,
        frozenset(instance.block for instance in plan.graph.instances if instance.on_all_stages),
    )
    # The parts of a program that is written by hand are stages of none.
    chain = VirtualStages.round_robin(len(plan.timetable)) if placement.part_of_rank else pipeline.chain
    crossings, equal = BoundaryTensors(plan.graph, chain), EqualStages(crossing_ties(plan.graph))
    storage = policy.storage
    lasting = PersistentBuffers(plan.graph, placement.mesh, storage.split_masters, storage.fp8_weights)
    parts = tuple(
        _PartBuilder(
            StageContext(plan.graph, crossings, stage, actions, codes),
            equal,
            lasting,
            pipeline.overlapped,
            pipeline.inputs,
        ).build()
        for stage, timetables in enumerate(zip(*pipeline.timetables, strict=True))
        for actions in timetables
    )
    workspace = storage.workspace
    program = Program(
        placement.mesh,
        placement.stage_axis,
        tuple(codes.codes),
        parts,
        pipeline.batches.axis,
        pipeline.batches.variants,
        storage.workspaces,
        None if workspace is None else round(workspace),
        placement.part_of_rank,
    )
    program = add_servers(program, plan)
    program = apply_routing(program, plan.routing, [instance.name for instance in plan.graph.instances])
    axes = tuple(axis for axis in plan.sharding.axes if placement.mesh.size(axis) > 1)
    if plan.sharding.by_parameter and axes:
        program = OwnedUpdates(plan.graph, axes, placement.mesh, codes).run(program)
    return program


@dataclass(frozen=True)
class _PartBuilder:
    part: StageContext
    equal: EqualStages
    lasting: PersistentBuffers
    overlapped: bool
    inputs: InputPipeline | None

    def build(self) -> StageProgram:
        part, codes = self.part, self.part.codes
        begin = list(part.once(BEGIN, part.instances))
        tied = shared_parameter_holders(part.graph, part.instances)
        buckets = CommunicationBuckets(part, tied, self.equal)
        begin += [run for runs in buckets.gathers(Phase.BEGIN).values() for run in runs]
        schedule = ScheduleExpansion(part, self.overlapped, buckets.reductions)
        end = [
            *self._late(buckets.reductions),
            *self._updated(
                run for phase in (NORM, MEASURE, UPDATE) for run in part.once(phase, part.instances[::-1])
            ),
        ]
        end += self._overhead()
        executions = self._gathered(schedule.executions(begin, end), len(begin))
        by_phase = {instance.name: part.codes_of(instance) for instance in part.instances}
        executions = add_unit_executions(
            executions,
            by_phase,
            codes.policy.prefetch,
            once=codes.policy.gather_once,
            gradients=buckets.scatters,
            weights=buckets.unit_gathers(by_phase),
            tied=tied,
        )
        executions = add_disk_sums(executions, codes, part.buffer)
        fetches = {name: own_codes[FETCH] for name, own_codes in by_phase.items() if FETCH in own_codes}
        executions = add_prefetches(executions, codes.codes, fetches)
        executions = order_copies(executions, codes.codes)
        residents = list(self.lasting.of(part.instances, part.buffer))
        residents += buckets.buffers(residents)
        residents += gradient_placeholders(part.graph, part.instances, codes.settings)
        residents += operand_buffers(part.graph, part.instances, codes.settings)
        if self.inputs is not None:
            executions = self._fed(self.inputs, executions, residents)
        slices = {
            instance.name: (instance.weight_owner, instance.slice)
            for instance in part.instances
            if part.num_slices > 1
        }
        return StageProgram(executions, tuple(residents), part.names, slices)

    def _overhead(self) -> Iterator[BlockExecution]:
        """What the host does at the end of every step, while the device waits for it."""
        codes = self.part.codes
        if codes.policy.step_overhead:
            yield BlockExecution(codes.add(_step_overhead(codes.policy.step_overhead)), "step", 0, UPDATE)

    def _fed(
        self, inputs: InputPipeline, executions: Executions, residents: list[PersistentBuffer]
    ) -> Executions:
        """The executions with those of the input pipeline, if anything of the part reads inputs."""
        fed = RankInput.of([self.part.codes.codes[code] for code, _ in executions.pairs])
        if fed.num_bytes:
            numbers = [self.part.codes.add(code) for code in input_codes(inputs, fed)]
            executions = add_input_executions(executions, self.part.codes.codes, inputs.prefetch, numbers)
            residents.append(input_buffer(fed))
        return executions

    def _updated(self, executions: Iterator[BlockExecution]) -> Iterator[BlockExecution]:
        """What follows the backward; the first that works on a host waits for its last kernel if told so."""
        waits = self.part.codes.policy.late_updates
        for execution in executions:
            if waits and HOST in self.part.codes.codes[execution.code].streams:
                execution, waits = replace(execution, after_streams=(COMPUTE,)), False
            yield execution

    def _late(self, reductions: Sequence[tuple[str, BlockExecution]]) -> Iterator[BlockExecution]:
        """Reductions that wait for the last kernel of the backward pass."""
        if self.part.codes.policy.reduce_after_backward:
            for _, run in reductions:
                yield replace(run, after_streams=(COMPUTE,))

    def _gathered(self, executions: Executions, first: int) -> Executions:
        """The executions; the first kernels of the schedule, which is at ``first``, wait for the weights if
        gathers are exposed.
        """
        codes = self.part.codes
        streams = codes.step_streams(BEGIN) if codes.policy.exposed_gather else ()
        if not streams:
            return executions
        kernels = [number for number, code in enumerate(codes.codes) if code.phase in (PREPARE, FORWARD)]
        waiting = np.flatnonzero(np.isin(executions.code[first:], kernels))[:1] + first
        waits = dict.fromkeys(waiting.tolist(), streams)
        return replace(executions, after_streams={**executions.after_streams, **waits})


def _step_overhead(seconds: float) -> InstructionBlock:
    """The code of what the host does once a step."""
    reason = "the host reads the loss, logs, looks at the gradient scale and fetches the next batch"
    waiting = Instruction("host", InstructionKind.COMPUTE, COMPUTE, (), reason=reason, host_time=seconds)
    return InstructionBlock("step.host", UPDATE, (waiting,), ())
