"""A run of many classes: by a sweep whose transfers are checked on the links, or by the compiled loop."""

from __future__ import annotations

from collections.abc import Sequence

from simcluster.engine.check import first_meeting
from simcluster.engine.coalesced_links import coalesce_links
from simcluster.engine.fabric import NO_LINKS
from simcluster.engine.flights import flights
from simcluster.engine.implementation import Implementation, choose_implementation
from simcluster.engine.lanes import Lane
from simcluster.engine.paced import paced
from simcluster.engine.prices import UnequalDurations
from simcluster.engine.stage import Stage
from simcluster.engine.sweep import Swept, sweep, untimed_lanes
from simcluster.engine.timing import SweptClasses, Timing
from simcluster.engine.workload import Progress, Workload

MOST_LOOPED = 8_000_000
"""Entries up to which the compiled loop ends before vectors do where kernels give way to communication."""

MANY = 8
"""Classes of a stage from which on they are swept.

A sweep times an entry in a few NumPy calls, whatever the number of classes; events cost as much again for
every class. For one class of a stage they take about half the time of a sweep, for two as much, for eight
seven times as long. A few classes are left to events all the same: a sweep also looks for their peaks in a
way that only pays for many.
"""


def swept(workload: Workload, progress: Progress, chosen: Implementation | None) -> Timing | None:
    """What a Program does alone on the cluster; None if that is for events to say.

    That is so where few classes are different, in mixed clusters, and where those who meet are not busy
    equally long.
    """
    many = len(workload.classes) >= MANY * workload.program.num_stages
    if not (chosen is Implementation.SWEEP or (chosen is None and many)) or not _even(workload):
        return None
    try:
        return _swept(workload, progress, chosen)
    except UnequalDurations:
        return None


def _even(workload: Workload) -> bool:
    """Whether all ranks of a stage do the same, at a pace of their own."""
    return not (workload.cluster.mixed or workload.program.num_variants > 1)


def _swept(workload: Workload, progress: Progress, chosen: Implementation | None) -> Timing | None:
    program, classes, prices = workload.program, workload.classes, workload.prices()
    members: list[list[int]] = [[] for _ in range(program.num_stages)]
    for index, rank in enumerate(classes.representatives):
        members[program.stage_of(rank)].append(index)
    stages = [
        Stage.of(program, number, indices, prices, workload.steps) for number, indices in enumerate(members)
    ]
    num_entries = sum(stage.num_entries * len(stage.columns) for stage in stages)
    progress.total = num_entries
    quick = choose_implementation(num_entries) is Implementation.COMPILED
    slowed = workload.cluster.models_interference
    if chosen is None and quick and slowed and num_entries <= MOST_LOOPED:
        lanes = untimed_lanes(program, classes, stages)
        timed = _by_loop(workload, stages, lanes, progress)
    else:
        swept = (paced if slowed else sweep)(program, classes, stages, progress.update)
        timed = swept, 0, 0
        if workload.fabric:
            flown = flights(program, classes, swept)
            timed = swept, sum(flight.num_flows for flight in flown), 0
            if first_meeting(flown, coalesce_links(workload.fabric.links)) is not None:
                if chosen is None and not quick:
                    return None
                del flown
                timed = _by_loop(workload, stages, swept.lanes, progress)
    if timed is None:
        return None
    found, num_flows, num_solves = timed
    timings = SweptClasses.of(found, prices.timed)
    return Timing(timings, found.end, found.num_entries, num_flows, num_solves, found)


def _by_loop(
    workload: Workload, stages: Sequence[Stage], lanes: Sequence[Sequence[Lane]], progress: Progress
) -> tuple[Swept, int, int] | None:
    """The lanes as the compiled loop times them, with the numbers of flows and of re-solves; None if links
    that carry nothing keep the run from ending.
    """
    from simcluster.engine.compiled import run_stages

    links = coalesce_links(workload.fabric.links if workload.fabric else NO_LINKS)
    ended = run_stages(workload.program, workload.classes, stages, lanes, links, progress)
    if ended is None:
        return None
    end, num_flows, num_solves = ended
    return Swept(stages, lanes, end, progress.total), num_flows, num_solves
