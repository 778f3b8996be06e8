"""A timed step of a plan: memory excess of its stages, and when gradients and weights are ready."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property

import numpy as np

from simcluster.analysis import AllocationAccount, MemoryRule
from simcluster.cluster import Cluster
from simcluster.deferred_dataclass import dataclass
from simcluster.engine import NOTHING, ClassTiming, Timing, Workload, classes_on_links, run
from simcluster.model import Instance
from simcluster.number_arrays import Ints
from simcluster.plan import Plan
from simcluster.program import (
    MEASURE,
    NORM,
    REDUCE,
    UPDATE,
    BlockExecution,
    HostCalls,
    InstructionBlock,
    InstructionKind,
    PlacedProgram,
    Program,
    RankClasses,
    StageProgram,
    build,
)


@dataclass(frozen=True)
class TrialRun:
    """A run of a plan."""

    plan: Plan
    program: Program
    classes: RankClasses
    timing: Timing

    @classmethod
    def of(cls, plan: Plan, cluster: Cluster) -> TrialRun:
        """A step of a plan by itself on a cluster."""
        program = build(plan)
        classes, fabric = classes_on_links(program, cluster, plan.execution.algorithms)
        timing = run(
            Workload(
                program,
                cluster,
                classes,
                dispatch=plan.execution.dispatch,
                algorithms=plan.execution.algorithms,
                fabric=fabric,
                host=HostCalls.of(plan),
            )
        )
        return cls(plan, program, classes, timing)

    def excesses(
        self, cluster: Cluster, rule: MemoryRule, limit: Callable[[int], int] | None = None
    ) -> list[int]:
        """By how many bytes the fullest device of every stage exceeds what it may hold, below zero where some
        are left: a ``limit`` for so much memory, else what fits by the rule.

        One class of every part and device is looked at.
        """
        chosen: dict[tuple[int, str], int] = {}
        for index, rank in enumerate(self.classes.representatives):
            chosen.setdefault((self.program.part_of(rank), cluster.device(rank).name), index)
        by_stage: dict[int, int] = {}
        placed = PlacedProgram(self.program, self.classes, cluster, self.plan.num_stages)
        account = AllocationAccount(placed, self.timing)
        for index in chosen.values():
            rank = self.classes.representatives[index]
            device = cluster.device(rank)
            use = rule.use(account.rows(index), device.memory)
            lacking = use.lacking if limit is None else use.needed - limit(device.memory)
            stage = self.program.stage_of(rank)
            by_stage[stage] = max(lacking, by_stage.get(stage, lacking))
        return [by_stage[stage] for stage in sorted(by_stage)]

    def stages(self) -> Iterator[StageTrialRun]:
        """The stages of the run, first to last."""
        for stage in range(self.plan.num_stages):
            yield StageTrialRun(self, stage)


@dataclass(frozen=True)
class StageTrialRun:
    """The run of one stage, of those of its ranks that train the most micro-batches."""

    run: TrialRun
    stage: int

    @cached_property
    def part(self) -> StageProgram:
        """The part of the Program that these ranks run."""
        return self.run.program.parts[self.run.program.fullest(self.stage)]

    @cached_property
    def members(self) -> list[ClassTiming]:
        """The timings of their classes."""
        program, ranks = self.run.program, self.run.classes.representatives
        wanted = program.fullest(self.stage)
        timings = zip(self.run.timing.classes, ranks, strict=True)
        return [timing for timing, rank in timings if program.part_of(rank) == wanted]

    @property
    def instances(self) -> list[Instance]:
        """The instances of blocks on the stage, in the order of the forward pass."""
        return [instance for instance in self.run.plan.graph.instances if instance.stage == self.stage]

    def runs(self, *phases: str) -> Iterator[tuple[int, BlockExecution, InstructionBlock]]:
        """(place, execution, code) of everything in some phases, in program order."""
        for place, execution in enumerate(self.part.executions):
            code = self.run.program.codes[execution.code]
            if code.phase in phases:
                yield place, execution, code

    def carriers(self, *phases: str) -> Mapping[str, list[tuple[int, int]]]:
        """Buffer -> (place, instruction) of every collective that carries it in some phases, in order."""
        carriers: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for place, execution, code in self.runs(*phases):
            for index, instruction in enumerate(code.instructions):
                if instruction.action is InstructionKind.COLLECTIVE:
                    for slot in (*instruction.reads, *instruction.writes):
                        name = self.part.buffer(execution.instance, code.slots[slot].name)
                        carriers[name].append((place, index))
        return carriers

    def ready(self, place: int, index: int) -> int:
        """When all kernels are over that a collective of an execution waits for, on the slowest rank (ns)."""
        return max(_ready(member, place, self.part.executions[place].code, index) for member in self.members)

    def busy(self, before: int) -> int:
        """When the kernels of all executions before a place are over (ns)."""
        return max(_last(member, np.arange(before)) for member in self.members)

    def spent(self, code: int) -> Ints:
        """What each kernel of a code takes on the slowest rank (ns); 0 for what is no kernel."""
        kernels = [
            instruction.action is InstructionKind.COMPUTE
            for instruction in self.run.program.codes[code].instructions
        ]
        durations = [member.durations(code) for member in self.members]
        return np.asarray(np.where(kernels, np.max(durations, axis=0), 0))

    def updates(self) -> tuple[int, dict[str, int]]:
        """When the kernels are over that wait for no reduction, and how long those of each instance's update
        take (ns), on the slowest rank; none where something of all gradients, their norm, is needed before.
        """
        phases = [self.run.program.codes[execution.code].phase for execution in self.part.executions]
        own = [place for place, phase in enumerate(phases) if phase not in (REDUCE, NORM, MEASURE, UPDATE)]
        busy = max(_last(member, np.array(own, dtype=np.int64)) for member in self.members)
        took: dict[str, int] = {}
        if NORM not in phases and MEASURE not in phases:
            for _, execution, _ in self.runs(UPDATE):
                took[execution.instance] = int(self.spent(execution.code).sum())
        return busy, took


def _last(timing: ClassTiming, places: Ints) -> int:
    """When the last kernel of some executions is over."""
    kernels = timing.part.compute
    chosen = np.isin(timing.part.streams[kernels].execution, places)
    return int(timing.ends[kernels][chosen].max(initial=0))


def _ready(timing: ClassTiming, place: int, code: int, index: int) -> int:
    """When all kernels have ended that an instruction of another stream waits for (ns)."""
    part, entries = timing.part, timing.part.codes[code]
    name = entries.streams[int(entries.stream_of[index])]
    number = [stream.name for stream in part.streams].index(name)
    first = int(part.begins[number])
    last = first + int(part.bases[place, number]) + int(entries.entry[index])
    awaited = part.awaited[part.first_wait[first] : part.first_wait[last + 1]]
    kernels = awaited[part.stream_of[awaited] == part.compute]
    return int(timing.group.ends(np.array([kernels.max(initial=NOTHING)]), timing.columns)[0, 0])
