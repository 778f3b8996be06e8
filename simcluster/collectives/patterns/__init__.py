"""Communication patterns that algorithms are made of: rounds, rings and chains, trees, two levels, reduction
in switches.
"""

from simcluster.collectives.patterns.rings_and_chains import chains, rings
from simcluster.collectives.patterns.rounds import (
    all_to_all_round,
    halving_rounds,
    halving_skips,
    hop_counts,
    ring_rounds,
    star_round,
    uneven_ring_rounds,
)
from simcluster.collectives.patterns.switch_reduction import network_reduce, switch_broadcast, switch_reduce
from simcluster.collectives.patterns.trees import double_tree, single_tree, tree_depth, tree_reduction
from simcluster.collectives.patterns.two_level import (
    BETWEEN,
    INSIDE,
    TwoLevel,
    column_major_blocks,
    root_exchange,
)

__all__ = [
    "BETWEEN",
    "INSIDE",
    "TwoLevel",
    "all_to_all_round",
    "chains",
    "column_major_blocks",
    "double_tree",
    "halving_rounds",
    "halving_skips",
    "hop_counts",
    "network_reduce",
    "ring_rounds",
    "rings",
    "root_exchange",
    "single_tree",
    "star_round",
    "switch_broadcast",
    "switch_reduce",
    "tree_depth",
    "tree_reduction",
    "uneven_ring_rounds",
]
