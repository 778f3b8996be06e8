"""What the instructions of every class of ranks cost, and the programs that classes run at these prices."""

from simcluster.engine.pricing.priced_classes import PricedClasses
from simcluster.engine.pricing.priced_groups import DifferentClasses, PricedGroup
from simcluster.engine.pricing.workload import Workload

__all__ = [
    "DifferentClasses",
    "PricedClasses",
    "PricedGroup",
    "Workload",
]
