"""A Program in time: when every instruction of every class of ranks starts and ends."""

from simcluster.engine.communication import (
    Choices,
    ClassGates,
    Fabric,
    Who,
    classes_on_links,
    classes_together,
    meeting_of,
)
from simcluster.engine.implementation import Implementation
from simcluster.engine.linking import NOTHING, CodeEntries, LinkedPart
from simcluster.engine.pricing import Prices, Workload
from simcluster.engine.progress import Progress
from simcluster.engine.run_programs import run, run_together
from simcluster.engine.spec import RunSpec
from simcluster.engine.timing import ClassTiming, GroupTiming, Timing

__all__ = [
    "NOTHING",
    "Choices",
    "ClassGates",
    "ClassTiming",
    "CodeEntries",
    "Fabric",
    "GroupTiming",
    "Implementation",
    "LinkedPart",
    "Prices",
    "Progress",
    "RunSpec",
    "Timing",
    "Who",
    "Workload",
    "classes_on_links",
    "classes_together",
    "meeting_of",
    "run",
    "run_together",
]
