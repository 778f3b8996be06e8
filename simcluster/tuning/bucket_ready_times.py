"""The best communication buckets for the ready times of a run, stage by stage.

Gradients travel when they are ready, and updates wait for them; of sharded gradients, which travel in every
micro-batch, the last one's count, since the others are beside more computation. Weights travel when they may
be gathered, and the kernels that read them wait; of those that are gathered for every use, the last ones
count, since the first find the network idle.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, chain, pairwise

import numpy as np

from simcluster.cluster import Cluster, nanoseconds
from simcluster.deferred_dataclass import dataclass
from simcluster.layout import Movement, MovementKind
from simcluster.model import Phase
from simcluster.plan import ALONE, BucketCost, Buckets, Fusion, ReadyTimes, movement_cost
from simcluster.plan import MovementCost as Price
from simcluster.program import (
    BACKWARD,
    FORWARD,
    PREPARE,
    REDUCE,
    BucketMember,
    InstructionKind,
    crossing_ties,
    unit_bucket_members,
)
from simcluster.tuning.trial_run import StageTrialRun, TrialRun

Group = Sequence["BucketItem"]
"""What may travel together on a stage, in its order."""


@dataclass(frozen=True, slots=True)
class BestBuckets:
    """The buffers behind which buckets of an operation end that are best for measured times, and what may
    travel together, by stage.
    """

    behind: frozenset[str]
    groups: tuple[tuple[Group, ...], ...]

    def cut(self, buckets: Buckets) -> frozenset[str]:
        """The buffers behind which the buckets of some rule end, but for the last of each group."""
        return frozenset(
            group[bucket[-1]].buffer
            for groups in self.groups
            for group in groups
            for bucket in _filled(group, buckets)[:-1]
        )

    def most(self, behind: frozenset[str]) -> int:
        """The most buckets of any stage that end behind some buffers."""
        rule = Buckets(closed_after=behind)
        return max((sum(len(_filled(group, rule)) for group in groups) for groups in self.groups), default=0)

    @property
    def borders(self) -> list[str]:
        """The buffers behind which layers could be parted, those at the ends of every group first: what is
        between them is mostly alike.
        """
        places: list[tuple[int, str]] = []
        for group in chain.from_iterable(self.groups):
            ends = [one.buffer for one, after in pairwise(group) if one.instance != after.instance]
            places += [(min(place, len(ends) - 1 - place), buffer) for place, buffer in enumerate(ends)]
        return [buffer for _, buffer in sorted(places, key=lambda border: border[0])]


def _filled(group: Group, buckets: Buckets) -> list[list[int]]:
    return buckets.fill(
        [item.num_bytes for item in group],
        [item.buffer for item in group],
        [item.instance for item in group],
    )


def best_buckets(alone: TrialRun, usual: TrialRun, cluster: Cluster, operation: str) -> BestBuckets:
    """The buckets of an operation that are best for the times of two runs.

    What is reduced once per step delays nothing but the updates: its times are those of a run in which every
    gradient travels ``alone``. Weights and gradients that travel for each micro-batch hold up all that
    follows, the more the more of them are alone: their times are those of the ``usual`` way.
    """
    plan = usual.plan
    fusion = plan.execution.fusion
    assert fusion is not None
    price = movement_cost(cluster, plan.mesh, plan.execution.algorithms)
    behind: set[str] = set()
    groups: list[tuple[Group, ...]] = []
    for probes in zip(alone.stages(), usual.stages(), strict=True):
        lines = list(_lines(*probes, fusion, operation, price))
        groups.append(tuple(group for group, _ in lines))
        for group, line in lines:
            behind.update(group[end - 1].buffer for end in line.best_ends())
    return BestBuckets(frozenset(behind), tuple(groups))


@dataclass(frozen=True, slots=True)
class BucketItem:
    """A gradient or weight: its instance, its buffer and the bytes of that, when it is ready (ns), and the
    collectives on its way with their bytes.
    """

    instance: str
    buffer: str
    num_bytes: int
    ready: int
    steps: tuple[tuple[Movement, int], ...]


_Key = tuple[object, ...]
_Lines = Iterator[tuple[Group, ReadyTimes]]


def _lines(
    alone: StageTrialRun, usual: StageTrialRun, fusion: Fusion, operation: str, price: Price
) -> _Lines:
    """What may travel together on a stage by an operation, in its order, as lines."""
    if operation == "all_gather":
        for phase in (Phase.BEGIN, Phase.GATHER, Phase.REGATHER):
            yield from _weights(usual, fusion, phase, price)
        return
    yield from _gradients(_reduced(alone, fusion, operation), alone, price)
    if operation == "reduce_scatter":
        yield from _gradients(_scattered(usual, fusion), usual, price)


def _ascending(travellers: Group) -> list[int]:
    return list(accumulate((item.ready for item in travellers), max))


def _cost(travellers: Group, price: Price) -> BucketCost:
    """The time of a bucket of consecutive travellers: that of its collectives one after another."""
    steps = [movement for movement, _ in travellers[0].steps]
    totals = np.zeros((len(travellers) + 1, len(steps)), dtype=np.int64)
    totals[1:] = np.cumsum([[size for _, size in item.steps] for item in travellers], axis=0)
    rows = totals.tolist()
    known: dict[tuple[int, ...], int] = {}

    def cost(begin: int, end: int) -> int:
        sizes = tuple(after - before for before, after in zip(rows[begin], rows[end], strict=True))
        if sizes not in known:
            seconds = sum(price(step, size) for step, size in zip(steps, sizes, strict=True))
            known[sizes] = max(1, nanoseconds(seconds))
        return known[sizes]

    return cost


# -- gradients --------------------------------------------------------------------------------------------


def _gradients(groups: Mapping[_Key, list[BucketItem]], stage: StageTrialRun, price: Price) -> _Lines:
    """Gradients that may travel together, with the updates that wait for them."""
    busy, updates = stage.updates()
    for travellers in groups.values():
        last = {item.instance: place for place, item in enumerate(travellers)}
        behind = [
            updates.get(item.instance, 0) if last[item.instance] == place else 0
            for place, item in enumerate(travellers)
        ]
        yield travellers, ReadyTimes(_ascending(travellers), behind, busy, _cost(travellers, price))


def _reduced(stage: StageTrialRun, fusion: Fusion, operation: str) -> Mapping[_Key, list[BucketItem]]:
    """Steps and fusion id -> the gradients that are reduced once per step and may travel together."""
    parameters = _parameters(stage)
    items: defaultdict[_Key, list[BucketItem]] = defaultdict(list)
    for place, _, code in stage.runs(REDUCE):
        moved = [
            (index, instruction) for index, instruction in enumerate(code.instructions) if instruction.group
        ]
        slot = code.slots[code.instructions[0].calls[0].inputs[0]]
        steps = tuple(
            (movement, instruction.num_bytes)
            for _, instruction in moved
            if isinstance(movement := instruction.calls[0].operator, Movement)
        )
        scattered = any(movement.kind is MovementKind.REDUCE_SCATTER for movement, _ in steps)
        if slot.name not in parameters or operation != ("reduce_scatter" if scattered else "all_reduce"):
            continue
        owner, parameter = parameters[slot.name]
        number = fusion.id_of(parameter)
        if number != ALONE:
            ready = stage.ready(place, moved[0][0])
            key = (*(movement for movement, _ in steps), number)
            items[key].append(BucketItem(owner, slot.name, slot.type.num_bytes, ready, steps))
    return items


def _parameters(stage: StageTrialRun) -> Mapping[str, tuple[str, str]]:
    """Buffer of a gradient -> the instance that updates its parameter, and the name under which that counts.

    Those tied to other stages are no part of any bucket.
    """
    graph = stage.run.plan.graph
    apart = crossing_ties(graph)
    parameters: dict[str, tuple[str, str]] = {}
    for instance in stage.instances:
        block = graph.block_of(instance)
        for name in block.parameters:
            gradient = block.gradients.get(name)
            if gradient is not None and (instance.name, gradient) not in apart:
                buffer = stage.part.buffer(instance.name, gradient)
                parameters.setdefault(buffer, (instance.name, graph.canonical(f"{instance.name}.{name}")))
    return parameters


def _scattered(stage: StageTrialRun, fusion: Fusion) -> Mapping[_Key, list[BucketItem]]:
    """What is equal for them -> sharded gradients that may travel together, ready as in the last backward."""
    carriers = stage.carriers(str(Phase.SCATTER))
    items: defaultdict[_Key, list[BucketItem]] = defaultdict(list)
    for part in _parts(stage, fusion, Phase.SCATTER):
        ready = stage.ready(*carriers[part.buffer][-1])
        items[part.key].append(_traveller(part, ready))
    return items


def _traveller(part: BucketMember, ready: int) -> BucketItem:
    return BucketItem(part.instance, part.buffer, part.num_bytes, ready, part.steps)


def _parts(stage: StageTrialRun, fusion: Fusion, phase: Phase) -> list[BucketMember]:
    """What travels in a phase, but for what does so alone."""
    plan = stage.run.plan
    backward = phase in (Phase.REGATHER, Phase.SCATTER)
    users = stage.instances[:: -1 if backward else 1]
    parts = unit_bucket_members(plan.graph, users, phase, fusion, plan.mesh, stage.part.buffer)
    return [part for part in parts if not part.alone]


# -- weights ----------------------------------------------------------------------------------------------


def _weights(stage: StageTrialRun, fusion: Fusion, phase: Phase, price: Price) -> _Lines:
    """Weights that may travel together, with the kernels of the first pass that wait for them."""
    parts = _parts(stage, fusion, phase)
    if not parts:
        return
    carriers = stage.carriers(str(phase))
    last = max(carriers[part.buffer][-1][0] for part in parts)
    busy, needed, over = _readers(stage, {part.buffer for part in parts}, phase, last)
    groups: defaultdict[_Key, list[BucketMember]] = defaultdict(list)
    for part in parts:
        if part.buffer in needed:
            groups[part.key].append(part)
    for members in groups.values():
        # What travels behind is there no earlier: a weight is as good as needed with the first behind it.
        starts = np.minimum.accumulate([needed[part.buffer] for part in members][::-1])[::-1]
        kernels = np.diff([*starts, over]).tolist()
        ready = [0 if phase is Phase.BEGIN else stage.ready(*carriers[part.buffer][-1]) for part in members]
        travellers = [_traveller(part, when) for part, when in zip(members, ready, strict=True)]
        line = ReadyTimes(
            _ascending(travellers), kernels, busy + int(starts[0]), _cost(travellers, price), by_first=True
        )
        yield travellers, line


def _readers(
    stage: StageTrialRun, buffers: set[str], phase: Phase, last: int
) -> tuple[int, dict[str, int], int]:
    """Of the pass for which the gather in ``last`` place is: when the kernels before it are over, how much
    kernel time of it lies before the first reader of each buffer, and all of it (ns).
    """
    runs = list(stage.runs(*((BACKWARD,) if phase is Phase.REGATHER else (PREPARE, FORWARD))))
    action = (runs[0][1] if phase is Phase.BEGIN else stage.part.executions[last]).action
    runs = [run for run in runs if run[1].action == action]
    needed: dict[str, int] = {}
    passed = 0
    for _, execution, code in runs:
        # The kernels of a code begin when all that they read of others is there.
        for instruction in code.instructions:
            for slot in instruction.reads if instruction.action is InstructionKind.COMPUTE else ():
                name = stage.part.buffer(execution.instance, code.slots[slot].name)
                if name in buffers:
                    needed.setdefault(name, passed)
        passed += int(stage.spent(execution.code).sum())
    return stage.busy(runs[0][0]), needed, passed
