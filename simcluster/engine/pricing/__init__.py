"""What the instructions of every class of ranks cost, and the programs that classes run at these prices."""

from simcluster.engine.pricing.priced_classes import PricedClasses
from simcluster.engine.pricing.priced_groups import ManyClasses, PricedGroup
from simcluster.engine.pricing.priced_program import PricedProgram
from simcluster.engine.pricing.workload import Workload

__all__ = [
    "ManyClasses",
    "PricedClasses",
    "PricedGroup",
    "PricedProgram",
    "Workload",
]
