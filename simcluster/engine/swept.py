"""A whole run by a sweep: swept, checked on the links, and from the first meeting on with events."""

from __future__ import annotations

import enum

from simcluster.engine.check import first_meeting
from simcluster.engine.coalesced_links import coalesce_links
from simcluster.engine.flights import flights
from simcluster.engine.paced import paced
from simcluster.engine.prices import UnequalDurations
from simcluster.engine.rest import Rest
from simcluster.engine.stage import Stage
from simcluster.engine.sweep import sweep
from simcluster.engine.timing import SweptClasses, Timing
from simcluster.engine.workload import Progress, Workload, no_collection


class Method(enum.StrEnum):
    """How a Program is timed; both give the same times."""

    EVENTS = "events"
    SWEEP = "sweep"


MANY = 8
"""Classes of a stage from which on they are swept.

A sweep times an entry in a few NumPy calls, whatever the number of classes; events cost as much again for
every class. For one class of a stage they take about half the time of a sweep, for two as much, for eight
seven times as long. A few classes are left to events all the same: a sweep also looks for their peaks in a
way that only pays for many.
"""


def swept(workload: Workload, progress: Progress, method: Method | None) -> Timing | None:
    """What a Program does alone on the cluster; None if that is for events to say.

    That is so where few classes are different, in mixed clusters, and where those who meet are not busy
    equally long.
    """
    many = len(workload.classes) >= MANY * workload.program.num_stages
    if method is Method.EVENTS or not (method or many) or not _even(workload):
        return None
    try:
        return _swept(workload, progress)
    except UnequalDurations:
        return None


def _even(workload: Workload) -> bool:
    """Whether all ranks of a stage do the same, at a pace of their own."""
    return not (workload.cluster.mixed or workload.program.num_variants > 1)


def _swept(workload: Workload, progress: Progress) -> Timing | None:
    program, classes, prices = workload.program, workload.classes, workload.prices()
    members: list[list[int]] = [[] for _ in range(program.num_stages)]
    for index, rank in enumerate(classes.representatives):
        members[program.stage_of(rank)].append(index)
    stages = [
        Stage.of(program, number, indices, prices, workload.steps) for number, indices in enumerate(members)
    ]
    progress.total = sum(stage.num_entries * len(stage.columns) for stage in stages)
    time = paced if workload.cluster.models_interference else sweep
    found = time(program, classes, stages, progress.swept)
    num_flows = num_solves = 0
    if workload.fabric:
        links = coalesce_links(workload.fabric.links)
        flown = flights(program, classes, found)
        num_flows = sum(each.num_flows for each in flown)
        since = first_meeting(flown, links)
        del flown
        if since is not None:
            rest = Rest(program, classes, found, links, since)
            progress.env, progress.streams, progress.ended = rest.env, rest.streams, 0
            with no_collection():
                whole = rest.run()
            if whole is None:
                return None
            found, num_solves = whole, rest.network.num_solves
    timings = SweptClasses.of(found, prices.timed)
    return Timing(timings, found.end, found.num_entries, num_flows, num_solves, found)
