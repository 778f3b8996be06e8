"""What many classes in program order are timed with: a *lane* is one stream of all classes of a group."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from simcluster.engine.compiled.arrays import ENTRY, Ints, Records, record

LANE = record("first_entry length first_lane kernels times width row done arrived")
"""A lane: its first entry, and how many it has; the first lane of its group; 1 if it runs kernels; where the
times of its first entry are recorded; how many classes there are; where the durations of its first segment
are, or its first kind of communication. Then how many entries have ended; 1 if the next waits for those whom
it meets.
"""

LANE_KIND = record("place meeting")
"""A kind of communication: where the slots of the classes are, and the lanes that meet in it."""

MEETING = record("first_member arrived")
"""Lanes that meet: the first of them, and how many have arrived. One more at the end."""


class Lanes(NamedTuple):
    """A run in program order: what it is made of, and where it is."""

    lanes: Records
    """Those of one group after another."""
    entries: Records
    """As ``Arrays`` has them."""
    durations: Ints
    """By segment, and by class: nanoseconds."""
    kinds: Records
    """Kinds of communication, lane after lane."""
    slots: Ints
    """By kind of communication, and by class: the slot of those who meet."""
    spent: Ints
    """Likewise: nanoseconds."""
    meetings: Records
    """Lanes that meet."""
    members: Ints
    """The lanes of one meeting after another."""
    met_at: Ints
    """By slot: when the last of those who have arrived did; -1 if nobody has."""
    takes: Ints
    """By slot: the nanoseconds of those who have arrived; -1 if nobody has."""
    starts: Ints
    """As ``Arrays`` has them."""
    arrivals: Ints
    """Likewise."""
    ends: Ints
    """Likewise."""
    totals: Ints
    """Entries that ended; a time that was reached; 1 if only events can say what happens."""


LANES_RECORDS = (
    *(LANE, ENTRY, np.int64, LANE_KIND, np.int64, np.int64),
    *(MEETING, np.int64, np.int64, np.int64, np.int64, np.int64, np.int64, np.int64),
)
"""What the arrays hold, in their order."""
