"""Executions strung together one after another: what linking them all at once must give."""

from __future__ import annotations

from collections import defaultdict

from simcluster.engine.linking.class_program import BARRIER
from simcluster.engine.linking.timed_code import NOTHING
from simcluster.program import COMPUTE, SENDER_OF, TRANSFER_STREAMS, record_producer


def linked_one_by_one(program, part, timed, steps):
    """By stream the entries (execution, stream waited for, entries of it, duration, meeting), and where each
    execution begins: by stream the number of its first entry.
    """
    plan = program.parts[part]
    entries, known, written, begins = defaultdict(list), {}, defaultdict(dict), []
    used = {COMPUTE, *(stream for run in plan.executions for stream in timed[run.code].streams)}

    def wait(stream, other, position):
        if stream != other and known.get((stream, other), 0) < position:
            known[stream, other] = position
            entries[stream].append((BARRIER, other, position, 0, NOTHING))

    for index, run in enumerate(plan.executions * steps):
        code, slots = timed[run.code], program.codes[run.code].slots
        for where, slot in code.incoming:
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
            awaited = timed[plan.executions[place].code]
            for stream, track in zip(awaited.streams, awaited.tracks, strict=True) if earlier >= 0 else ():
                for own in code.streams:
                    wait(own, stream, begins[earlier][stream] + len(track))
        begins.append({stream: len(entries[stream]) for stream in used})
        for stream, track in zip(code.streams, code.tracks, strict=True):
            columns = (track.wait_stream, track.wait_position, track.duration, track.meeting)
            for other, position, duration, meeting in zip(*(each.tolist() for each in columns), strict=True):
                name = None if other == NOTHING else code.streams[other]
                place = position + (begins[-1][name] if name is not None else 0)
                entries[stream].append((index, name, place, duration, meeting))
        for slot, where, position, adds in code.outgoing:
            name = plan.buffer(run.instance, slots[slot].name), run.label(slots[slot].scope)
            stream = code.streams[where]
            record_producer(written[name], stream, begins[-1][stream] + position, adds=adds)
    return entries, begins
