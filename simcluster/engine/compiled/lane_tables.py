"""The lanes of a run in program order, from the records of its streams; and the run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

import numpy as np

from simcluster.deferred_dataclass import dataclass
from simcluster.engine.communication import NEVER, Links, Transfer
from simcluster.engine.compiled.arrays import NONE, Arrays, Ints, Records
from simcluster.engine.compiled.lanes import LANE, LANE_KIND, MEETING, Lanes
from simcluster.engine.compiled.link_demand import flows_alone
from simcluster.engine.compiled.program_order import run_lanes
from simcluster.engine.compiled.tables import GroupRows, joined, offsets, records, table
from simcluster.engine.pricing import PricedClasses, PricedGroup
from simcluster.engine.progress import Progress

SLICE = 10_000_000
"""Entries of classes that one slice times: a tenth of a second or so."""


def time_in_program_order(
    classes: PricedClasses,
    rows: Sequence[GroupRows],
    arrays: Arrays,
    transfers: Sequence[Transfer],
    links: Links,
    progress: Progress,
) -> tuple[int, int] | None:
    """Records the times of all entries as if every flow had its links to itself; None if even so only events
    can say what happens. Says up to which time (ns) they are right, and how many flows there are.
    """
    alone = np.array([*(links.alone(transfer) for transfer in transfers), 0], dtype=np.int64)
    lanes = _LaneTables(classes, rows, alone).run(arrays)
    if lanes is None or alone.max() >= NEVER:
        return None
    more = True
    while more:
        more = run_lanes(lanes, SLICE)
        progress.update(int(lanes.totals[0]), int(lanes.totals[1]))
    if lanes.totals[2] or (lanes.lanes["done"] < lanes.lanes["length"]).any():
        return None
    num_flows, overload = flows_alone(classes.groups, rows, arrays.starts, transfers, links)
    return overload - 1, num_flows


@dataclass
class _LaneTables:
    classes: PricedClasses
    rows: Sequence[GroupRows]
    takes: Ints
    lanes: list[tuple[int, ...]] = field(default_factory=list)
    durations: list[Ints] = field(default_factory=list)
    kinds: list[tuple[int, int]] = field(default_factory=list)
    slots: list[Ints] = field(default_factory=list)
    spent: list[Ints] = field(default_factory=list)
    meetings: dict[bytes, int] = field(default_factory=dict)
    members: list[dict[int, Records]] = field(default_factory=list)

    def run(self, arrays: Arrays) -> Lanes | None:
        """All lanes, nothing of which has been timed; None if only some classes of a lane meet those of
        another, or wait for others that never come.
        """
        for group, own in zip(self.classes.groups, self.rows, strict=True):
            self._add_group(group, own)
        if not all(_all_are_there(list(lanes.values())) for lanes in self.members):
            return None
        return Lanes(
            lanes=table(LANE, self.lanes),
            entries=arrays.entries,
            durations=joined(self.durations),
            kinds=table(LANE_KIND, self.kinds),
            slots=joined(self.slots),
            spent=joined(self.spent),
            meetings=records(
                MEETING, len(self.members) + 1, first_member=offsets(list(map(len, self.members)))
            ),
            members=np.array([lane for lanes in self.members for lane in lanes], dtype=np.int64),
            met_at=np.full(len(arrays.slots), NONE),
            takes=np.full(len(arrays.slots), NONE),
            starts=arrays.starts,
            arrivals=arrays.arrivals,
            ends=arrays.ends,
            totals=np.zeros(3, dtype=np.int64),
        )

    def _add_group(self, group: PricedGroup, own: GroupRows) -> None:
        first, width = len(self.lanes), len(group.indices)
        segments, (different, which) = group.part.segments, group.kernels()
        durations = np.array([segments.durations(kernels) for kernels in different])[which]
        for number, stream in enumerate(group.part.streams):
            kernels = number == group.part.compute
            row = sum(map(len, self.durations)) if kernels else len(self.kinds)
            place = own.entries[number], len(stream), first, kernels, own.times[number]
            self.lanes.append((*place, width, row, 0, 0))
            if not kernels:
                self._add_kinds(first + number, own.kinds[number])
        self.durations.append(durations.T.ravel())

    def _add_kinds(self, lane: int, kinds: Records) -> None:
        """Adds what the classes of a lane, the rows of ``kinds``, do."""
        for kind in range(kinds.shape[1]):
            own = kinds[:, kind]
            meeting = self.meetings.setdefault(np.unique(own["slot"]).tobytes(), len(self.meetings))
            if meeting == len(self.members):
                self.members.append({})
            self.members[meeting][lane] = own
            self.kinds.append((sum(map(len, self.slots)), meeting))
            self.slots.append(own["slot"].copy())
            self.spent.append(np.where(own["transfer"] == NONE, own["time"], self.takes[own["transfer"]]))


def _all_are_there(kinds: Sequence[Records]) -> bool:
    """Whether all those whom the classes of some lanes meet are among them."""
    slots, sizes = (np.concatenate([own[name] for own in kinds]) for name in ("slot", "size"))
    _, first, counts = np.unique(slots, return_index=True, return_counts=True)
    return bool((counts == sizes[first]).all())
