"""What the steps of an algorithm load on links, for one group or many, with equal parts or unequal ones."""

from simcluster.collectives.traffic.group_loads import group_loads_of
from simcluster.collectives.traffic.imbalance import MOST_RANKS, Imbalance, ImbalanceLaw
from simcluster.collectives.traffic.link_loads import GRAIN, PhaseLoad, normalised, phases
from simcluster.collectives.traffic.unequal_parts import UnequalParts, UnequalPartsByGroup

__all__ = [
    "GRAIN",
    "MOST_RANKS",
    "Imbalance",
    "ImbalanceLaw",
    "PhaseLoad",
    "UnequalParts",
    "UnequalPartsByGroup",
    "group_loads_of",
    "normalised",
    "phases",
]
