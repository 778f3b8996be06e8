"""Stages of many classes beside each other by the compiled loop: their rows, and their times as lanes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from simcluster.engine.class_meetings import meeting_of
from simcluster.engine.compiled.arrays import NONE, Arrays, Ints
from simcluster.engine.compiled.run import arrays_after, slowed_segments
from simcluster.engine.compiled.tables import TableBuilder
from simcluster.engine.entry_types import EntryTypes
from simcluster.engine.fabric import Links
from simcluster.engine.lanes import Lane, Longer
from simcluster.engine.segments import Segments
from simcluster.engine.stage import Stage
from simcluster.engine.workload import Progress
from simcluster.program import COMPUTE, Program, RankClasses


@dataclass(frozen=True)
class _StageRows:
    """Where the streams of a stage are recorded: by stream an array over its columns."""

    stage: Stage
    segments: Segments
    starts: list[Ints]
    ends: list[Ints]
    paces: Ints


def run_stages(
    program: Program,
    classes: RankClasses,
    stages: Sequence[Stage],
    lanes: Sequence[Sequence[Lane]],
    links: Links,
    progress: Progress,
) -> tuple[int, int, int] | None:
    """Times all stages on links and puts the times into their lanes; the end of the run (ns), the number of
    flows, and how often rates were worked out anew. None if links that carry nothing keep it from ending.
    """
    builder = TableBuilder(links)
    rows = [_add_stage(builder, program, classes, stage) for stage in stages]
    builder.workloads.append(len(builder.streams))
    arrays = arrays_after(builder, progress)
    if not arrays.workloads["round"][0]:
        return None
    slowed = slowed_segments(arrays)
    for stage_rows, stage_lanes in zip(rows, lanes, strict=True):
        for lane in stage_lanes:
            if lane.drops:
                lane.longer = _longer(stage_rows, lane, arrays, slowed)
            else:
                _fill(stage_rows, lane, arrays)
            lane.done = lane.length
    totals = arrays.totals[0]
    return int(totals["over"]), int(totals["num_flows"]), int(totals["num_solves"])


def _add_stage(builder: TableBuilder, program: Program, classes: RankClasses, stage: Stage) -> _StageRows:
    width, streams = len(stage.columns), stage.linked.streams
    gives_way = any(priced.takes for priced in stage.priced.values())
    segments = Segments.of(stage.linked, stage.codes)
    first_segment = builder.num_segments
    for column in range(width):
        builder.add_segments(segments.priced(stage.kernel_parts(segments.kernels, column)))
    whats, kinds = [], []
    for number, stream in enumerate(streams):
        types = EntryTypes.of(program, stage.linked, number)
        whats.append(segments.which if stream.name == COMPUTE else types.which)
        kinds.append([] if stream.name == COMPUTE else _kinds(builder, program, classes, stage, types))
    entries = [builder.add_entries(stream, what) for stream, what in zip(streams, whats, strict=True)]
    starts, ends, paces = [], [], []
    for column in range(width):
        row = first_segment + column * (len(segments.first) - 1)
        placed = builder.add_streams(
            0,
            streams,
            entries,
            row,
            [[kind[column] for kind in of_stream] for of_stream in kinds],
            segments.longest if gives_way and len(streams) > 1 else None,
        )
        starts.append(placed.start_rows)
        ends.append(placed.end_rows)
        paces.append(placed.pace)
    by_stream = [list(np.array(table, dtype=np.int64).T) for table in (starts, ends)]
    return _StageRows(stage, segments, by_stream[0], by_stream[1], np.array(paces, dtype=np.int64))


def _kinds(
    builder: TableBuilder, program: Program, classes: RankClasses, stage: Stage, types: EntryTypes
) -> list[list[tuple[int, ...]]]:
    """By kind of communication and column a row of ``KIND``."""
    rows = []
    for code, place in types.places:
        instruction = program.codes[code].instructions[place]
        priced = stage.priced[code]
        carried, takes = priced.carried.get(place), priced.takes.get(place)
        transfers = [builder.add_transfer(transfer) for transfer in carried.transfers] if carried else []
        nodes = [builder.most_links(transfer) for transfer in carried.transfers] if carried else []
        own: list[tuple[int, ...]] = []
        for column, index in enumerate(stage.columns.tolist()):
            who, size = meeting_of(classes, index, instruction)
            which = int(carried.which[column]) if carried else 0
            slot = builder.add_slot((0, who), nodes[which] if carried else 0)
            units = int(takes.units[column]) if takes else NONE
            memory = int(takes.memory[column]) if takes else 0
            time = NONE if carried else int(priced.duration[place, column])
            own.append((slot, size, time, transfers[which] if carried else NONE, units, memory))
        rows.append(own)
    return rows


def _fill(rows: _StageRows, lane: Lane, arrays: Arrays) -> None:
    """Puts the times of a stream of communication into its lane."""
    entries = np.arange(lane.length)[:, None]
    ends = arrays.ends[rows.ends[lane.number] + entries]
    spent = ends - arrays.starts[rows.starts[lane.number] + entries]
    for entry in range(lane.length):
        duration = lane.durations[entry]
        # All members of a group that meets most often are busy equally long, and kept once.
        common = duration is not None and duration.ndim == 1
        lane.ends[entry] = _shaped(ends[entry], lane.stage, common)
        if duration is not None:
            lane.durations[entry] = _shaped(spent[entry], lane.stage, common)


def _shaped(times: Ints, stage: Stage, common: bool) -> Ints:
    by_group = times.reshape(stage.shape)
    return by_group[0] if common else by_group


def _longer(
    rows: _StageRows, lane: Lane, arrays: Arrays, slowed: dict[int, tuple[Ints, Ints, Ints]]
) -> dict[int, Longer]:
    """By entry of the compute stream the columns in which communication slowed it, and by how much."""
    rows_of_paces: list[Ints] = []
    for column, pace in enumerate(rows.paces.tolist()):
        if pace not in slowed:
            continue
        entries, sizes, kernel_ends = slowed[pace]
        spent = kernel_ends[np.cumsum(sizes) - 1] - arrays.starts[rows.starts[lane.number][column] + entries]
        alone = rows.stage.durations[rows.stage.rows(lane.number)[entries], column]
        rows_of_paces.append(np.stack([entries, np.full(len(entries), column), spent - alone]))
    if not rows_of_paces:
        return {}
    table = np.concatenate(rows_of_paces, axis=1)
    table = table[:, table[2] > 0]
    if not table.size:
        return {}
    table = table[:, np.lexsort((table[1], table[0]))]
    entries, first = np.unique(table[0], return_index=True)
    return {
        int(entry): (columns, more)
        for entry, columns, more in zip(
            entries, np.split(table[1], first[1:]), np.split(table[2], first[1:]), strict=True
        )
    }
