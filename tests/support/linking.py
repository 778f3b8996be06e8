"""Executions strung together one after another: what linking them all at once must give."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from simcluster.engine.linking.code_entries import NOTHING
from simcluster.engine.linking.linked_part import BARRIER
from simcluster.program import COMPUTE, SENDER_OF, TRANSFER_STREAMS, record_producer


def kernel_durations(timing):
    """Nanoseconds of the entries of a class's kernels that nothing slows; 0 where they only wait."""
    (different, which), segments = timing.group.group.kernels(), timing.part.segments
    return np.append(segments.durations(different[which[timing.column]]), 0)[segments.which]


def linked_one_by_one(program, part, codes, steps):
    """By stream the entries (execution, stream waited for, entries of it, meeting), and where each execution
    begins: by stream the number of its first entry.
    """
    plan = program.parts[part]
    entries, known, written, begins = defaultdict(list), {}, defaultdict(dict), []
    used = {COMPUTE, *(stream for run in plan.executions for stream in codes[run.code].streams)}

    def wait(stream, other, position):
        if stream != other and known.get((stream, other), 0) < position:
            known[stream, other] = position
            entries[stream].append((BARRIER, other, position, NOTHING))

    for index, run in enumerate(plan.executions * steps):
        code, slots = codes[run.code], program.codes[run.code].slots
        for slot, where in code.incoming:
            name = plan.buffer(run.instance, slots[slot].name), run.label(slots[slot].scope)
            for maker, position in written[name].items():
                wait(code.streams[where], maker, position)
        for stream in TRANSFER_STREAMS if run.wait_for_transfers else ():
            if stream in used:
                wait(COMPUTE, stream, len(entries[stream]))
        for stream in run.after_streams:
            for own in code.streams if stream in used else ():
                wait(own, stream, len(entries[stream]))
        if code.streams[0] in SENDER_OF:
            wait(code.streams[0], COMPUTE, len(entries[COMPUTE]))
        for place, ago in run.after:
            earlier = index - index % len(plan.executions) - ago * len(plan.executions) + place
            awaited = codes[plan.executions[place].code]
            for stream, track in zip(awaited.streams, awaited.tracks, strict=True) if earlier >= 0 else ():
                for own in code.streams:
                    wait(own, stream, begins[earlier][stream] + len(track))
        begins.append({stream: len(entries[stream]) for stream in used})
        for stream, track in zip(code.streams, code.tracks, strict=True):
            columns = (track.wait_stream, track.wait_position, track.meeting)
            for other, position, meeting in zip(*(column.tolist() for column in columns), strict=True):
                name = None if other == NOTHING else code.streams[other]
                place = position + (begins[-1][name] if name is not None else 0)
                entries[stream].append((index, name, place, meeting))
        for slot, where, position, adds in code.outgoing:
            name = plan.buffer(run.instance, slots[slot].name), run.label(slots[slot].scope)
            stream = code.streams[where]
            record_producer(written[name], stream, begins[-1][stream] + position, adds=adds)
    return entries, begins
