"""Up to which size of a run something is said of its traffic."""

from __future__ import annotations

from simcluster.simulation.compose import BuiltScenario

MOST_CLASSES = 512
"""Classes of ranks beyond which nothing is said of traffic: each would have to be looked at."""

MOST_LINKS = 2**21
"""Links of a cluster beyond which nothing is said of traffic."""


def may_have_traffic(built: BuiltScenario) -> bool:
    """Whether the document is made at all: not for one rank, nor where there is too much to look at."""
    return (
        built.placed.num_ranks > 1
        and len(built.classes) <= MOST_CLASSES
        and built.cluster.topology.num_links <= MOST_LINKS
    )
