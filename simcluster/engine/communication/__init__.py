"""Who meets in collectives and transfers, how they do it, and what that puts on which links."""

from simcluster.engine.communication.choices import Choices
from simcluster.engine.communication.class_meetings import ClassGates, Who, meeting_of
from simcluster.engine.communication.fabric import (
    MOST,
    NEVER,
    NO_LINKS,
    Background,
    CapacityChange,
    Fabric,
    FlowPhase,
    Links,
    Moves,
    Transfer,
    Vectors,
)
from simcluster.engine.communication.link_loads import classes_on_links, classes_together

__all__ = [
    "MOST",
    "NEVER",
    "NO_LINKS",
    "Background",
    "CapacityChange",
    "Choices",
    "ClassGates",
    "Fabric",
    "FlowPhase",
    "Links",
    "Moves",
    "Transfer",
    "Vectors",
    "Who",
    "classes_on_links",
    "classes_together",
    "meeting_of",
]
