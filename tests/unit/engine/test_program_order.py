"""Many classes in program order: who meets whom."""

from __future__ import annotations

import numpy as np

from simcluster.engine.compiled.program_order import _Group, _Lane, _Meeting
from simcluster.engine.timing import StreamTimes

RECORD = np.dtype([("slot", np.int64), ("size", np.int64)])


def lane(*entries):
    """A stream of one class, each entry of which takes 10 ns in a meeting of two, by its slot."""
    number = range(len(entries))
    times = StreamTimes(*np.zeros((2, len(entries), 1), dtype=np.int64), np.zeros(1, dtype=np.int64))
    waits = [[before] if before >= 0 else [] for before in range(-1, len(entries) - 1)]
    group = _Group([*number], [0 for _ in number], [*number], waits, bytearray(len(entries)))
    kinds = [np.array([(slot, 2)], dtype=RECORD) for _, slot in entries]
    spent = [np.array([10]) for _ in number]
    return _Lane(group, 0, len(entries), times, spent, kinds, [meeting for meeting, _ in entries])


def test_who_waits_in_one_meeting_is_not_there_in_another():
    early, late = _Meeting(), _Meeting()
    both, first, second = lane((early, 7), (late, 5)), lane((early, 7)), lane((late, 5))
    assert [both.run(), second.run(), first.run(), both.run()] == [0, 0, 2, 2]
    assert both.times.ends.ravel().tolist() == [10, 20]
    assert second.times.starts.ravel().tolist() == [10]
