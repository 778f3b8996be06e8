"""What the instructions of every class of ranks cost, and the programs that classes run at these prices."""

from simcluster.engine.pricing.deadlock import deadlock_error
from simcluster.engine.pricing.priced_classes import PricedClasses
from simcluster.engine.pricing.prices import PricedGroup, Prices
from simcluster.engine.pricing.workload import Workload

__all__ = [
    "PricedClasses",
    "PricedGroup",
    "Prices",
    "Workload",
    "deadlock_error",
]
