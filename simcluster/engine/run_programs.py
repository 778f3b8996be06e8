"""The engine: a Program on a cluster, in time.

Codes are priced per class and their executions linked. One SimPy process per stream says what happens; the
compiled loop gives the same times sooner. Handed back is when every entry started and ended.
"""

from __future__ import annotations

from collections.abc import Sequence

from simcluster.engine.communication import NO_LINKS
from simcluster.engine.implementation import Implementation, choose_implementation
from simcluster.engine.pricing import PricedClasses, Workload
from simcluster.engine.progress import Progress
from simcluster.engine.timing import Timing
from simcluster.errors import PlanError
from simcluster.garbage import no_collection


def run(
    workload: Workload, progress: Progress | None = None, implementation: Implementation | None = None
) -> Timing:
    """Runs a Program, ``steps`` times over; SimulationError names who waits for whom if it cannot end.

    ``implementation``: what times it; absent, what ends soonest. The times are the same.
    """
    return run_together([workload], progress, implementation)[0]


def run_together(
    workloads: Sequence[Workload],
    progress: Progress | None = None,
    implementation: Implementation | None = None,
) -> list[Timing]:
    """Runs Programs at once on the links they share, and says for each what it did in its own ``steps``.

    Whoever is through with them begins them anew, until all are, so that all of every Program's steps meet
    the traffic of all others. Every one of them must be able to end alone: nobody waits for another. The
    flows and re-solves in the timings are those of all together.
    Raises as ``run`` does.
    """
    links = workloads[0].fabric.links if workloads[0].fabric else NO_LINKS
    if len(workloads) > 1 and any(
        workload.fabric is None or workload.fabric.links is not links for workload in workloads
    ):
        raise ValueError("Programs that run at once need fabrics with common links")
    if len(workloads) > 1 and any(workload.program.has_gates for workload in workloads):
        raise ValueError("a Program with gates runs alone: who begins anew would find them open")
    watched = progress or Progress()
    try:
        # What the events leave behind goes before anybody looks for cycles in it.
        with no_collection():
            classes = [PricedClasses(workload) for workload in workloads]
            chosen = implementation or choose_implementation(
                sum(workload.num_entries for workload in classes)
            )
            if chosen is Implementation.COMPILED:
                from simcluster.engine.compiled import run_compiled as timed
            else:
                from simcluster.engine.reference import run_by_processes as timed
            return timed(classes, links, watched)
    except OverflowError:
        raise PlanError(
            "the run takes longer than 292 years, all that 64 bits of nanoseconds hold",
            hint="look at the sizes of the model and the rates of the devices",
        ) from None
