"""Many classes in program order: who meets whom."""

from __future__ import annotations

import numpy as np

from simcluster.engine.compiled.program_order import _Columns, _Lane, _Meeting
from simcluster.engine.timing import CommunicationStarts

RECORD = np.dtype([("slot", np.int64), ("size", np.int64)])


def lane(*entries):
    """A stream of one class, each entry of which takes 10 ns in a meeting of two, by its slot."""
    ends, begun = np.zeros((2, len(entries) + 1, 1), dtype=np.int64)
    starts = CommunicationStarts(begun, np.zeros(1, dtype=np.int64))
    number = range(len(entries))
    columns = _Columns(ends, [() for _ in number], [*number], bytearray(len(entries)))
    kinds = [np.array([(slot, 2)], dtype=RECORD) for _, slot in entries]
    spent = [np.array([10]) for _ in number]
    return _Lane(columns, 0, len(entries), spent, kinds, [meeting for meeting, _ in entries], starts)


def test_who_waits_in_one_meeting_is_not_there_in_another():
    early, late = _Meeting(), _Meeting()
    both, first, second = lane((early, 7), (late, 5)), lane((early, 7)), lane((late, 5))
    assert [both.run(), second.run(), first.run(), both.run()] == [0, 0, 2, 2]
    assert both.columns.ends[:-1].ravel().tolist() == [10, 20]
    assert second.begun.times[:-1].ravel().tolist() == [10]
