"""Schedules run with equal times."""

from __future__ import annotations

from dataclasses import MISSING, fields

from simcluster.plan.pipeline.schedule import Schedule
from simcluster.registry import kinds

SCHEDULES = {
    kind: each
    for kind, each in kinds("simcluster.plan.schedules", Schedule).items()
    if not any(field.default is MISSING for field in fields(each))
}
"""Those that are rules; what is written out is in ``test_what_is_written_out``."""


def run(actions, chain, times, pair=None):
    """When the last action ends and how long each stage works, from dependencies alone.

    ``times`` are those of each kind by [chunk][stage]; of an overlapped pair ``pair``, or both together.
    """
    last = len(chain) - 1
    slices = 1 + max(half.slice for row in actions for each in row for half in each.parts)
    again = {
        (half.micro_batch, chain.places.index((stage, half.chunk)), half.slice)
        for stage, row in enumerate(actions)
        for each in row
        for half in each.parts
        if half.kind == "R"
    }
    ends: dict = {}
    clock, work = [0] * len(actions), [0] * len(actions)
    queues = [list(each) for each in actions]
    while any(queues):
        moved = False
        for stage, queue in enumerate(queues):
            while queue:
                halves = [(each, chain.places.index((stage, each.chunk))) for each in queue[0].parts]
                before = []
                for half, virtual in halves:
                    index, part = half.micro_batch, half.slice
                    if half.kind == "F":
                        before += [("F", virtual - 1, index, part)] if virtual else []
                        before += [("F", virtual, index, part - 1)] if part else []
                    elif half.kind == "W":
                        before.append(("B", virtual, index, part))
                    elif half.kind == "R":
                        before.append(("F", virtual, index, part))
                    else:
                        before.append(("F", virtual, index, part))
                        before += [("B", virtual + 1, index, part)] if virtual < last else []
                        before += [("B", virtual, index, part + 1)] if part + 1 < slices else []
                        before += [("R", virtual, index, part)] if (index, virtual, part) in again else []
                if any(each not in ends for each in before):
                    break
                start = max([clock[stage], *(ends[each] for each in before)])
                length = sum(times[half.kind][half.chunk][stage] for half, _ in halves)
                if len(halves) == 2 and pair is not None:
                    length = pair
                for half, virtual in halves:
                    kind = "B" if half.kind == "I" else half.kind
                    ends[kind, virtual, half.micro_batch, half.slice] = start + length
                clock[stage], work[stage] = start + length, work[stage] + length
                queue.pop(0)
                moved = True
        assert moved, f"deadlock: {[str(queue[0]) for queue in queues if queue]}"
    return max(clock), work


def equal(chain, f, i, w):
    """Times of equal chunks."""
    lengths = {"F": f, "I": i, "W": w, "B": i + w}
    return {
        kind: [[time] * chain.num_stages for _ in range(chain.num_chunks)] for kind, time in lengths.items()
    }
