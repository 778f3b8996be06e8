"""The executions of a part of a Program, linked: what every entry of every stream waits for."""

from simcluster.engine.linking.code_entries import NOTHING, CodeEntries
from simcluster.engine.linking.linked_part import LinkedPart, LinkedStream
from simcluster.engine.linking.part_linker import link_part
from simcluster.engine.linking.segments import PARTS, Segments

__all__ = [
    "NOTHING",
    "PARTS",
    "CodeEntries",
    "LinkedPart",
    "LinkedStream",
    "Segments",
    "link_part",
]
