"""Executions strung together one after another: what linking them all at once must give."""

from __future__ import annotations

from collections import defaultdict

from simcluster.program import COMPUTE, SENDER_OF, TRANSFER_STREAMS, record_producer


def kernel_durations(timing):
    """Nanoseconds of the entries of a class's kernels that nothing slows."""
    (different, which), segments = timing.group.group.kernels(), timing.part.segments
    return segments.durations(different[which[timing.column]])[segments.segment_of]


def linked_one_by_one(program, part, codes, steps):
    """By stream the entries (execution, meeting, waits: by other stream how many entries of it must have
    ended), and where each execution begins: by stream the number of its first entry.
    """
    plan = program.parts[part]
    entries, known, written, begins = defaultdict(list), {}, defaultdict(dict), []
    used = {COMPUTE, *(stream for run in plan.executions for stream in codes[run.code].streams)}
    for index, run in enumerate(plan.executions * steps):
        code, slots = codes[run.code], program.codes[run.code].slots
        begins.append({stream: len(entries[stream]) for stream in used})
        waits = defaultdict(dict)

        def wait(stream, entry, other, position, waits=waits):
            if stream != other and known.get((stream, other), 0) < position:
                known[stream, other] = position
                # What is waited for again is waited for last.
                waits[stream, entry].pop(other, None)
                waits[stream, entry][other] = position

        for slot, where in code.incoming:
            name = plan.buffer(run.instance, slots[slot].name), run.label(slots[slot].scope)
            for maker, position in written[name].items():
                wait(code.streams[where], 0, maker, position)
        for stream in TRANSFER_STREAMS if run.wait_for_transfers and COMPUTE in code.streams else ():
            wait(COMPUTE, 0, stream, begins[-1].get(stream, 0))
        for stream in run.after_streams:
            for own in code.streams:
                wait(own, 0, stream, begins[-1].get(stream, 0))
        if code.streams[0] in SENDER_OF:
            wait(code.streams[0], 0, COMPUTE, begins[-1][COMPUTE])
        for place, ago in run.after:
            earlier = index - index % len(plan.executions) - ago * len(plan.executions) + place
            awaited = codes[plan.executions[place].code]
            for stream, meetings in (
                zip(awaited.streams, awaited.meetings, strict=True) if earlier >= 0 else ()
            ):
                for own in code.streams:
                    wait(own, 0, stream, begins[earlier][stream] + len(meetings))
        for stream, entry, other, position in code.waits:
            other = code.streams[other]
            wait(code.streams[stream], entry, other, begins[-1][other] + position + 1)
        for stream, meetings in zip(code.streams, code.meetings, strict=True):
            for entry, meeting in enumerate(meetings):
                entries[stream].append((index, meeting, list(waits[stream, entry].items())))
        for slot, where, position, adds in code.outgoing:
            name = plan.buffer(run.instance, slots[slot].name), run.label(slots[slot].scope)
            stream = code.streams[where]
            record_producer(written[name], stream, begins[-1][stream] + position + 1, adds=adds)
    return entries, begins
