"""The executions of a part of a Program, linked: what every entry of every stream waits for."""

from simcluster.engine.linking.class_program import ClassProgram
from simcluster.engine.linking.deadlock import HEADING, LATE, STILL, stuck
from simcluster.engine.linking.linked_part import LinkedPart
from simcluster.engine.linking.part_linker import link_part
from simcluster.engine.linking.segments import PARTS, Segments
from simcluster.engine.linking.timed_code import NOTHING, CodeEntries, Priced, TimedCode

__all__ = [
    "HEADING",
    "LATE",
    "NOTHING",
    "PARTS",
    "STILL",
    "ClassProgram",
    "CodeEntries",
    "LinkedPart",
    "Priced",
    "Segments",
    "TimedCode",
    "link_part",
    "stuck",
]
