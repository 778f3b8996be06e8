"""Waits, allocations and what is reserved, found one by one, in loops: what columns must come to."""

from __future__ import annotations

import math
from collections import defaultdict
from itertools import pairwise

from simcluster.analysis import instruction_times
from simcluster.model import MemoryPlace
from simcluster.program import COMPUTE, Scope, charged_to, is_host_stream

OF_RUNTIME = ("runtime", "workspaces", "communicators")


def waits_of(timing, end, stage_axis, num_stages):
    """(start, end, cause) of every wait of a class, in order."""
    streams = timing.part.streams
    compute = next(number for number, stream in enumerate(streams) if stream.name == COMPUTE)
    starts, ends = timing.starts[compute].tolist(), timing.ends[compute].tolist()
    episodes, before = [], 0
    for entry, (start, over) in enumerate(zip(starts, ends, strict=True)):
        if start > before:
            episodes.append((before, start, compute, entry))
        before = over
    pieces = []
    for since, until, stream, entry in episodes:
        pieces += blamed(timing, stage_axis, since, until, *charged(timing, stream, entry))
    idle = ends[-1] if ends else 0
    last = [
        (each[-1], stream.name, at)
        for at, (each, stream) in enumerate(zip(timing.ends, streams, strict=True))
        if len(each)
    ]
    over, name, number = max(last)
    if over > idle and is_host_stream(name):
        pieces += blamed(timing, stage_axis, idle, over, number, len(timing.ends[number]) - 1)
    elif over > idle:
        pieces.append((idle, over, "+".join(charged_to(name, stage_axis))))
    pieces.append((max(idle, over), end, "pipeline wait" if num_stages > 1 else "idle"))
    return [(int(start), int(over), cause) for start, over, cause in pieces if over > start]


def awaited(timing, stream, entry):
    """The (stream, entry) that an entry waits for, in their order."""
    return [(other, position - 1) for other, position in timing.part.waits[stream][entry]]


def charged(timing, stream, entry):
    """The first of those that ended last; entry -1: none."""
    places = awaited(timing, stream, entry)
    return max(places, key=lambda place: timing.ends[place[0]][place[1]], default=(-1, -1))


def blamed(timing, stage_axis, since, until, stream, entry):
    """A wait for an entry, cut by what this waited for in turn."""
    while until > since and entry >= 0:
        axes = charged_to(timing.part.streams[stream].name, stage_axis)
        start = max(since, min(until, timing.starts[stream][entry]))
        yield start, until, "+".join(axes)
        until = max(since, min(start, timing.arrivals[stream][entry]))
        yield until, start, "pipeline wait" if stage_axis in axes else "+".join(axes)
        late = [
            (other, at) for other, at in awaited(timing, stream, entry) if timing.ends[other][at] >= until
        ]
        stream, entry = late[-1] if late else (stream, entry - 1)


def allocations_of(program, part, timing):
    """(time, bytes, buffer, category, micro-batch) of a class's rows, sorted, but those of the runtime."""
    plan, linked = program.parts[part], timing.part
    rows = [
        (0, held.num_bytes, held.name, held.category, -1)
        for held in plan.residents
        if held.num_bytes and held.place is MemoryPlace.DEVICE
    ]
    begun, over, kinds = defaultdict(list), defaultdict(list), {}
    for number, times in instruction_times(timing).items():
        code = program.codes[number]
        for row, place in enumerate(times.executions.tolist()):
            run, step = linked.executions[place], place * linked.steps // len(linked.executions)
            for index, each in enumerate(code.instructions):
                if each.scratch:
                    what = f"{run.instance}.{each.name} (scratch)", "temporary", run.micro_batch
                    rows.append((times.arrivals[row, index], each.scratch, *what))
                    rows.append((times.ends[row, index], -each.scratch, *what))
            for index, slot in enumerate(code.slots):
                if slot.scope is Scope.STEP or slot.place is not MemoryPlace.DEVICE or not slot.num_bytes:
                    continue
                local = slot.scope is Scope.LOCAL
                name, label = plan.buffer(run.instance, slot.name), run.label(slot.scope)
                key = (name, run.micro_batch, place) if local else (name, label, step, "shared")
                kinds[key] = slot.num_bytes, slot.category
                for writer in code.books.get(index, ()):
                    first = code.instructions[code.books[index][0]]
                    when = times.ends if first.in_place else times.arrivals
                    begun[key].append((when if index in first.writes else times.starts)[row, writer])
                over[key] += [times.ends[row, reader] for reader in code.dropped.get(index, ())]
    for (name, label, *rest), (size, category) in kinds.items():
        key = name, label, *rest
        rows += [(min(begun[key]), size, name, category, label)] if begun[key] else []
        rows += [(max(over[key]), -size, name, category, label)] if over[key] else []
    return sorted((int(time), size, name, str(category), label) for time, size, name, category, label in rows)


class ReservedOneByOne:
    """A pool of an allocator, asked one request at a time: what is reserved, as lists of blocks."""

    def __init__(self, rules):
        self.rules, self.reserved = rules, 0
        self.segments = []  # of blocks [address, size, name], in order; free ones have no name
        self.names = {}  # the blocks of a name, in the order in which they were taken

    def asked(self, name, size):
        """A request, or a release where the size is below zero: how much more is reserved for it."""
        if size < 0:
            self.names[name].pop(0)[2] = None
            self._join()
            return 0
        before = self.reserved
        if not self._fitting(size):
            self._reserve(size)
        segment, block = min(self._fitting(size), key=lambda found: (found[1][1], found[1][0]))
        left = block[1] - size
        if left > self.rules.remainder:
            segment.insert(segment.index(block) + 1, [block[0] + size, left, None])
            block[1] = size
        block[2] = name
        self.names.setdefault(name, []).append(block)
        return self.reserved - before

    def _fitting(self, size):
        return [
            (segment, block)
            for segment in self.segments
            for block in segment
            if block[2] is None and block[1] >= size
        ]

    def _reserve(self, size):
        rules = self.rules
        if rules.expandable:
            segment = self.segments[0] if self.segments else []
            free = segment[-1][1] if segment and segment[-1][2] is None else 0
            more = math.ceil((size - free) / rules.segment) * rules.segment
            self.segments = [segment]
        else:
            large = size >= rules.own_segment
            more = math.ceil(size / rules.granule) * rules.granule if large else rules.segment
            segment = []
            self.segments.append(segment)
        segment.append([self.reserved, more, None])
        self.reserved += more
        self._join()

    def _join(self):
        """Makes one block of free neighbours."""
        for segment in self.segments:
            for block, following in reversed(list(pairwise(segment))):
                if block[2] is None and following[2] is None:
                    block[1] += following[1]
                    segment[:] = [each for each in segment if each is not following]
