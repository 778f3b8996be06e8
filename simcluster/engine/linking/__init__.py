"""The executions of a part of a Program, linked: what every entry of every stream waits for."""

from simcluster.engine.linking.code_entries import NOTHING, CodeEntries
from simcluster.engine.linking.deadlock import HEADING, LATE, STILL, stuck
from simcluster.engine.linking.linked_part import LinkedPart
from simcluster.engine.linking.part_linker import link_part
from simcluster.engine.linking.segments import PARTS, Segments

__all__ = [
    "HEADING",
    "LATE",
    "NOTHING",
    "PARTS",
    "STILL",
    "CodeEntries",
    "LinkedPart",
    "Segments",
    "link_part",
    "stuck",
]
