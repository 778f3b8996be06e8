"""What the steps of an algorithm load on links, for one group or many, with equal parts or unequal ones."""

from simcluster.collectives.traffic.group_loads import loads
from simcluster.collectives.traffic.imbalance import MOST_RANKS, Imbalance, Law
from simcluster.collectives.traffic.link_loads import GRAIN, Load, normal, phases
from simcluster.collectives.traffic.unequal_parts import Parts, PartsByGroup

__all__ = [
    "GRAIN",
    "MOST_RANKS",
    "Imbalance",
    "Law",
    "Load",
    "Parts",
    "PartsByGroup",
    "loads",
    "normal",
    "phases",
]
