"""Communication patterns that algorithms are made of: rounds, rings and chains, trees, two levels, reduction
in switches.
"""

from simcluster.collectives.patterns.rings_and_chains import chains, rings
from simcluster.collectives.patterns.rounds import around, everyone, halving, skips, star, uneven_ring, waits
from simcluster.collectives.patterns.switch_reduction import gathered, spread, through_network
from simcluster.collectives.patterns.trees import climb, depth, double_tree, single_tree
from simcluster.collectives.patterns.two_level import BETWEEN, INSIDE, TwoLevel, by_column, fan

__all__ = [
    "BETWEEN",
    "INSIDE",
    "TwoLevel",
    "around",
    "by_column",
    "chains",
    "climb",
    "depth",
    "double_tree",
    "everyone",
    "fan",
    "gathered",
    "halving",
    "rings",
    "single_tree",
    "skips",
    "spread",
    "star",
    "through_network",
    "uneven_ring",
    "waits",
]
