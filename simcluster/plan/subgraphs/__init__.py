"""Subgraphs that run as one graph launch each: their operators, the layouts at their boundaries, and their
backward.
"""

from simcluster.plan.subgraphs.backward_subgraphs import enclose
from simcluster.plan.subgraphs.boundary_constraints import Pin, Pins, digits, dims_of, pins
from simcluster.plan.subgraphs.subgraph import (
    USUAL_GRAPHS,
    Graphs,
    Pieces,
    fits,
    marked,
    pieces_told,
    unlaunchable,
)

__all__ = [
    "USUAL_GRAPHS",
    "Graphs",
    "Pieces",
    "Pin",
    "Pins",
    "digits",
    "dims_of",
    "enclose",
    "fits",
    "marked",
    "pieces_told",
    "pins",
    "unlaunchable",
]
