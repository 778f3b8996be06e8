"""Events come in the order of their times and, of one time, of their making, even if room is short."""

from __future__ import annotations

import numpy as np
import pytest

from simcluster.engine.compiled.arrays import KINDS, NEVER, NONE, Arrays
from simcluster.engine.compiled.events import FLOW_ENDS, GO_ON, add_event, drop_first, is_stale
from simcluster.engine.compiled.tables import records

ROOM = 16


@pytest.mark.parametrize("seed", range(20))
def test_events_come_in_their_order(seed):
    """Against a sorted list; ends of flows that are made anew leave stale ones, which have to give way."""
    draw = np.random.default_rng(seed)
    counts = {"totals": 1, "slots": 4}
    own = {name: records(name, counts.get(name, 0)) for name in KINDS}
    own["heap"] = records("heap", ROOM, time=NEVER, order=NEVER)
    rows = {name: of_one.view(np.recarray) for name, of_one in own.items()}
    r = Arrays(*(rows.get(name, np.zeros(0, dtype=np.int64)) for name in Arrays._fields))
    r.slots.ends = NONE
    expected: dict[int, tuple[int, int]] = {}
    made = 0

    def come():
        heap = r.heap[0]
        time, order, event = int(heap.time), int(heap.order), int(heap.event)
        drop_first(r)
        if not is_stale(r, order, event):
            assert (time, order) == min(expected.values())
            expected.pop(order)
            if event & 7 == FLOW_ENDS:
                r.slots[event >> 3].ends = NONE

    for _ in range(400):
        if r.totals[0].heap and (len(expected) == ROOM - 4 or draw.random() < 0.3):
            come()
            continue
        time, slot = int(draw.integers(12)), int(draw.integers(4))
        if draw.random() < 0.6:
            expected.pop(int(r.slots[slot].ends), None)
            r.slots[slot].ends = NONE
            order = add_event(r, time, FLOW_ENDS, slot)
            r.slots[slot].ends = order
        else:
            order = add_event(r, time, GO_ON, slot)
        assert order == made
        made += 1
        expected[int(order)] = (time, int(order))
    while r.totals[0].heap:
        come()
    assert not expected
