"""What every instance of a model's blocks costs a rank for one micro-batch in time.

All plans that split layers alike share these costs, whatever their pipeline, schedule and data parallelism.
So they are read from one small plan with the same groups of ranks inside a stage: without a pipeline, for
one micro-batch. It is planned and lowered, but not run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields

import numpy as np

from simcluster.cluster import Cluster
from simcluster.collectives import Operation
from simcluster.deferred_dataclass import dataclass
from simcluster.engine import Prices, Workload
from simcluster.model import Phase
from simcluster.number_arrays import Ints
from simcluster.program import (
    HostCalls,
    Instruction,
    InstructionKind,
    Program,
    StageProgram,
    runs_kernels,
    serves_all_tokens,
)
from simcluster.search.bounds.execution_spans import ExecutionSpan, ExecutionSpans
from simcluster.search.bounds.few_layers import FewLayers
from simcluster.search.bounds.flops_bound import least_kernel_time
from simcluster.search.bounds.small_plan import TIMED, SmallPlan


@dataclass(frozen=True, eq=False)
class PhaseSpans:
    """Spans of the executions of a phase, by instance in the order of the forward pass.

    All are in nanoseconds but for ``handed_bytes``. Instances without an execution in the phase have 0.

    Names are those of ``Span``; ``input_`` counts from the first kernel that reads what was handed over.
    """

    whole: Ints
    until_next: Ints
    handed_over: Ints
    input_whole: Ints
    input_until_next: Ints
    input_handed_over: Ints
    handed_bytes: Ints

    @classmethod
    def of(cls, names: Sequence[str], spans: Mapping[str, Sequence[ExecutionSpan]]) -> PhaseSpans:
        """The spans of some executions by instance: several that follow each other are segments of one."""
        place = {name: index for index, name in enumerate(names)}
        columns = np.zeros((7, len(names)), dtype=np.int64)
        for name, segments in spans.items():
            before = sum(segment.from_start.until_next for segment in segments[:-1])
            first, last = segments[0], segments[-1]
            start = last.from_start
            reader = first.from_input if last is first else start
            later = before and before + first.from_input.until_next - first.from_start.until_next
            columns[:, place[name]] = (
                before + start.whole,
                before + start.until_next,
                before + start.handed_over,
                later + reader.whole,
                later + reader.until_next,
                later + reader.handed_over,
                last.handed_bytes,
            )
        return cls(*columns)

    def of_rows(self, rows: Ints) -> PhaseSpans:
        """The spans of instances that are like some of these, by their numbers."""
        return PhaseSpans(*(getattr(self, field.name)[rows] for field in fields(self)))


@dataclass(frozen=True, eq=False)
class LayerCosts:
    """Costs by instance of a block, in the order of the forward pass."""

    phases: Mapping[Phase, PhaseSpans]
    """Time by phase."""
    scattered: Ints
    """Bytes of gradients that reduce-scatters behind its backward move, where those are sharded."""
    scatter_ways: int
    """Ranks that send a part each of what goes to the next stage."""
    slowness: Mapping[str, float]
    """By device how many times longer its kernels take than those of the fastest."""

    @classmethod
    def of(cls, small: SmallPlan, layers: FewLayers, *, kernels_only: bool = False) -> LayerCosts:
        """The costs of a plan of one stage of the smaller model of ``layers``.

        ``kernels_only``: collectives take no time, as where those of one micro-batch hide behind the kernels
        of another.
        """
        plan, program, part = small.plan, small.program, small.part
        prices = _Prices.of(small)
        spans = ExecutionSpans(program, part, prices.least(_routed(small), kernels_only=kernels_only))
        by_phase = small.first_executions
        names = tuple(dict.fromkeys(execution.instance for execution in by_phase[Phase.FORWARD]))
        phases = {}
        for phase, executions in by_phase.items():
            segments: dict[str, list[ExecutionSpan]] = {}
            for execution, span in zip(executions, spans.of(executions), strict=True):
                if execution.instance in names:
                    segments.setdefault(execution.instance, []).append(span)
            phases[phase] = PhaseSpans.of(names, segments)
        _, rows = layers.rows_of(names)
        mesh = plan.mesh
        scattered = tuple(axis for axis in plan.execution.p2p_scatter_axes if axis in mesh.sizes)
        return cls(
            phases={phase: spans.of_rows(rows) for phase, spans in phases.items()},
            scattered=_scattered(program, part, names)[rows],
            scatter_ways=mesh.product(scattered),
            slowness=prices.slowness(part),
        )


@dataclass(frozen=True)
class _Prices:
    """Nanoseconds of instructions alone, by code and by classes of ranks that pay differently."""

    program: Program
    of_code: Mapping[int, Mapping[int, Sequence[int]]]
    """Code -> class -> the instructions."""
    devices: Sequence[str]
    """The devices of the classes."""
    cluster: Cluster
    """What has them."""
    serves_all_tokens: bool
    """Whether experts drop no tokens."""

    @classmethod
    def of(cls, small: SmallPlan) -> _Prices:
        """The prices of what runs for every micro-batch."""
        cluster, program, classes = small.cluster, small.program, small.classes
        execution = small.plan.execution
        workload = Workload(
            program,
            cluster,
            classes,
            dispatch=execution.dispatch,
            algorithms=execution.algorithms,
            host=HostCalls.of(small.plan),
        )
        prices = Prices(workload)
        of_code = {
            number: {
                index: [price[0] for price in prices.of_class(index, code)]
                for index in {prices.place(index, number): index for index in range(len(classes))}.values()
            }
            for number, code in enumerate(program.codes)
            if code.phase in TIMED
        }
        devices = [cluster.device(rank).name for rank in classes.representatives]
        return cls(program, of_code, devices, cluster, small.is_routed and serves_all_tokens(program))

    def least(self, routed: Mapping[int, frozenset[str]], *, kernels_only: bool) -> dict[int, list[int]]:
        """By code what its instructions cost the class to which they cost least.

        What sends unequal parts, and with ``kernels_only`` all that communicates, costs nothing. What has to
        do with slots that are ``routed``, by code, costs as little as the mean of ranks at the peak: experts
        wait for each other behind every layer, and the slowest has no less than the mean to do.
        """
        least: dict[int, list[int]] = {}
        for number, columns in self.of_code.items():
            least[number] = np.min(list(columns.values()), axis=0).tolist()
            code, own = self.program.codes[number], routed.get(number, frozenset())
            for row, instruction in enumerate(code.instructions):
                hidden = _moves(instruction) and (kernels_only or instruction.parts is not None)
                touched = (*instruction.reads, *instruction.writes) if own else ()
                if hidden:
                    least[number][row] = 0
                elif any(code.slots[slot].name in own for slot in touched):
                    works = instruction.works if self.serves_all_tokens else ()
                    least[number][row] = min(least[number][row], least_kernel_time(works, self.cluster))
        return least

    def slowness(self, part: StageProgram) -> dict[str, float]:
        """By device how many times longer its kernels take for a micro-batch than those of the fastest."""
        times = part.columns.times()
        total: dict[str, int] = {}
        for index, name in enumerate(self.devices):
            spent = 0
            for number, columns in self.of_code.items():
                kernels = [not _moves(instruction) for instruction in self.program.codes[number].instructions]
                own = columns.get(index, next(iter(columns.values())))
                spent += times.get(number, 0) * int(np.dot(own, kernels))
            total[name] = max(spent, total.get(name, 0))
        fastest = min(total.values())
        return {name: spent / fastest if fastest else 1.0 for name, spent in total.items()}


def _scattered(program: Program, part: StageProgram, names: Sequence[str]) -> Ints:
    """Bytes of the reduce-scatters of gradients of the first micro-batch, by instance."""
    sent = dict.fromkeys(names, 0)
    for execution in part.executions:
        code = program.codes[execution.code]
        if code.phase == Phase.SCATTER and execution.micro_batch == 0 and execution.instance in sent:
            sent[execution.instance] += sum(
                instruction.num_bytes
                for instruction in code.instructions
                if instruction.operation == Operation.REDUCE_SCATTER
            )
    return np.array([sent[name] for name in names], dtype=np.int64)


def _routed(small: SmallPlan) -> Mapping[int, frozenset[str]]:
    """By code the slots that hold what is routed to experts."""
    if not small.routed_slots:
        return {}
    return {
        code: small.routed_slots.get(instance, frozenset()) for code, instance in small.part.columns.pairs
    }


def _moves(instruction: Instruction) -> bool:
    """Whether an instruction communicates or copies."""
    return not runs_kernels(instruction) and instruction.action is not InstructionKind.COMPUTE
