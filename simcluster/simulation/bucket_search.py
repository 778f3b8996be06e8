"""The search for gradient buckets (``fusion: {all_reduce: {mode: search}}``).

The step is timed once with every gradient by itself; that tells when each is ready on the slowest ranks of
every stage. For these times the partition into consecutive buckets after which the updates end first is found
exactly (``plan/cuts``), with the cost model's time of every bucket. That model has one network stream and
nothing behind the updates; so the step is timed with it as well, and with 64 MB, with one bucket and with
none, and the fastest is taken. Ties go to 64 MB, one bucket, none and the partition in this order.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from simcluster import units
from simcluster.cluster import Cluster
from simcluster.cluster.price import nanoseconds
from simcluster.engine import ClassTiming, Timing, run
from simcluster.layout import Kind, Movement
from simcluster.plan import Plan
from simcluster.plan.conduct import SINGLE, Buckets
from simcluster.plan.costs import movement_cost
from simcluster.plan.cuts import Line
from simcluster.plan.fusion import AUTO_MB, MB
from simcluster.plan.fusion_ids import ALONE
from simcluster.program import Action, Classes, Code, Program
from simcluster.program.calls import HostCalls
from simcluster.program.instruction import COMPUTE
from simcluster.program.lower import MEASURE, NORM, REDUCE, UPDATE
from simcluster.program.ties import crossing_ties
from simcluster.simulation.classes import classes_on_links

Lower = Callable[[Plan], Program]

_RULE, _ONE, _NONE = f"{AUTO_MB} MB", "one bucket", "none fused"


def searched(plan: Plan, cluster: Cluster, lower: Lower, host: HostCalls) -> Plan:
    """The plan with the buckets of the fastest step, and a note on what was compared; as it is if it leaves
    nothing to be searched.
    """
    fusion = plan.conduct.fusion
    if fusion is None or not fusion.searched:
        return plan
    timings: dict[str, tuple[Plan, int]] = {}

    def tried(name: str, buckets: Buckets) -> tuple[Program, Classes, Timing]:
        conduct = replace(plan.conduct, fusion=fusion.having(dict.fromkeys(fusion.searched, buckets)))
        candidate = replace(plan, conduct=conduct)
        program = lower(candidate)
        classes, fabric = classes_on_links(program, cluster, plan.algorithms)
        timing = run(
            program,
            cluster,
            classes,
            dispatch=plan.dispatch,
            algorithms=plan.algorithms,
            fabric=fabric,
            host=host,
        )
        timings[name] = candidate, timing.end
        return program, classes, timing

    probe = tried(_NONE, SINGLE)
    tried(_ONE, Buckets())
    tried(_RULE, Buckets(AUTO_MB * MB))
    cuts, most = _cuts(plan, cluster, *probe)
    found = f"up to {most} buckets on a stage"
    if cuts:
        tried(found, Buckets(behind=cuts))
    order = [name for name in (_RULE, _ONE, _NONE, found) if name in timings]
    best = min(order, key=lambda name: timings[name][1])
    least = timings[best][1]
    more = {name: timings[name][1] - least for name in order if name != best}
    told = ", ".join(f"{name} {units.seconds(lost * 1e-9)}" for name, lost in more.items())
    note = f"search for gradient buckets: {best}; a step would take longer with {told}"
    return replace(timings[best][0], notes=(*plan.notes, note))


@dataclass(frozen=True, slots=True)
class _Gradient:
    """A gradient that travels by itself: the instance that updates it, its buffer, when it is ready (ns), and
    the bytes of every step.
    """

    instance: str
    buffer: str
    ready: int
    sizes: tuple[int, ...]


def _cuts(
    plan: Plan, cluster: Cluster, program: Program, classes: Classes, timing: Timing
) -> tuple[frozenset[str], int]:
    """The buffers of gradients behind which buckets end, and the most buckets of any stage."""
    price = movement_cost(cluster, plan.mesh, plan.algorithms)
    behind: set[str] = set()
    counts: dict[int, int] = defaultdict(int)
    for (stage, steps, _), gradients in _groups(plan, program, classes, timing).items():
        ready = np.maximum.accumulate([each.ready for each in gradients]).tolist()
        busy, updates = _updates(program, classes, timing, stage)
        last = {each.instance: place for place, each in enumerate(gradients)}
        behind_each = [
            updates.get(each.instance, 0) if last[each.instance] == place else 0
            for place, each in enumerate(gradients)
        ]
        ends = Line(ready, behind_each, busy, _cost(gradients, steps, price)).best_ends()
        behind.update(gradients[end - 1].buffer for end in ends)
        counts[stage] += len(ends) + 1
    return frozenset(behind), max(counts.values(), default=0)


def _cost(
    gradients: Sequence[_Gradient], steps: Sequence[Movement], price: Callable[[Movement, int], float]
) -> Callable[[int, int], int]:
    """The time of a bucket of consecutive gradients: that of its collectives one after another."""
    totals = np.zeros((len(gradients) + 1, len(steps)), dtype=np.int64)
    totals[1:] = np.cumsum([each.sizes for each in gradients], axis=0)
    rows = totals.tolist()
    known: dict[tuple[int, ...], int] = {}

    def cost(begin: int, end: int) -> int:
        sizes = tuple(after - before for before, after in zip(rows[begin], rows[end], strict=True))
        if sizes not in known:
            seconds = sum(price(step, size) for step, size in zip(steps, sizes, strict=True))
            known[sizes] = max(1, nanoseconds(seconds))
        return known[sizes]

    return cost


def _groups(
    plan: Plan, program: Program, classes: Classes, timing: Timing
) -> dict[tuple[int, tuple[Movement, ...], int], list[_Gradient]]:
    """(stage, steps, fusion id) -> the gradients that may travel together, in order."""
    fusion = plan.conduct.fusion
    assert fusion is not None
    found: dict[tuple[int, tuple[Movement, ...], int], list[_Gradient]] = {}
    for stage in range(plan.num_stages):
        members = _members(program, classes, timing, stage)
        parameters = _parameters(plan, program, stage)
        for place, execution in enumerate(program.parts[program.fullest(stage)].executions):
            code = program.codes[execution.code]
            if code.phase != REDUCE:
                continue
            buffer = code.slots[code.instructions[0].calls[0].inputs[0]].name
            moved = [each for each in code.instructions if each.action is Action.COLLECTIVE]
            steps = tuple(m for each in moved if isinstance(m := each.calls[0].operator, Movement))
            scattered = any(step.kind is Kind.REDUCE_SCATTER for step in steps)
            operation = "reduce_scatter" if scattered else "all_reduce"
            if buffer not in parameters or operation not in fusion.searched:
                continue
            owner, parameter = parameters[buffer]
            number = fusion.id_of(parameter)
            if number == ALONE:
                continue
            ready = max(_ready(each, place, code, execution.code) for each in members)
            sizes = tuple(each.num_bytes for each in moved)
            found.setdefault((stage, steps, number), []).append(_Gradient(owner, buffer, ready, sizes))
    return found


def _members(program: Program, classes: Classes, timing: Timing, stage: int) -> list[ClassTiming]:
    """What the classes of a stage did, those that train most micro-batches."""
    ranks, part = classes.representatives, program.fullest(stage)
    return [each for each, rank in zip(timing.classes, ranks, strict=True) if program.part_of(rank) == part]


def _updates(program: Program, classes: Classes, timing: Timing, stage: int) -> tuple[int, dict[str, int]]:
    """When the kernels are over that wait for no reduction, and how long those of each instance's update
    take (ns), on the slowest rank; none where something of all gradients, their norm, is needed before.
    """
    executions = program.parts[program.fullest(stage)].executions
    phases = [program.codes[each.code].phase for each in executions]
    places = [place for place, phase in enumerate(phases) if phase == UPDATE]
    own = [place for place, phase in enumerate(phases) if phase not in (REDUCE, NORM, MEASURE, UPDATE)]
    busy = 0
    took: dict[str, int] = {}
    for each in _members(program, classes, timing, stage):
        names = [stream.name for stream in each.linked.streams]
        kernels = names.index(COMPUTE)
        stream = each.linked.streams[kernels]
        mine = np.isin(stream.execution, own)
        ended = each.ends[kernels][mine]
        busy = max(busy, int(ended.max(initial=0)))
        for place in places if NORM not in phases and MEASURE not in phases else ():
            code = program.codes[executions[place].code]
            compute = [one.action is Action.COMPUTE for one in code.instructions]
            spent = int(each.codes[executions[place].code].duration[compute].sum())
            name = executions[place].instance
            took[name] = max(spent, took.get(name, 0))
    return busy, took


def _parameters(plan: Plan, program: Program, stage: int) -> Mapping[str, tuple[str, str]]:
    """Buffer of a gradient -> the instance that updates its parameter, and the name under which that counts.

    Those tied to other stages are no part of any bucket.
    """
    apart = crossing_ties(plan.graph)
    found: dict[str, tuple[str, str]] = {}
    for instance in plan.graph.instances:
        if instance.stage != stage:
            continue
        block = plan.graph.block_of(instance)
        for name in block.parameters:
            gradient = block.gradients.get(name)
            if gradient is not None and (instance.name, gradient) not in apart:
                buffer = program.parts[program.fullest(stage)].buffer(instance.name, gradient)
                parameter = plan.graph.canonical(f"{instance.name}.{name}")
                found.setdefault(buffer, (instance.name, parameter))
    return found


def _ready(each: ClassTiming, place: int, code: Code, number: int) -> int:
    """When all has ended on other streams that the first collective of an execution waits for (ns)."""
    timed = each.codes[number]
    index = next(i for i, one in enumerate(code.instructions) if one.action is Action.COLLECTIVE)
    name = timed.streams[int(timed.stream_of[index])]
    names = [stream.name for stream in each.linked.streams]
    stream = each.linked.streams[names.index(name)]
    kernels = names.index(COMPUTE)
    last = int(each.linked.bases[place, names.index(name)]) + int(timed.entry[index])
    waits = stream.wait_stream[: last + 1] == kernels
    position = int(stream.wait_position[: last + 1][waits].max(initial=0))
    if not position:
        return 0
    return int(each.ends[kernels][position - 1])
