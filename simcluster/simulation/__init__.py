"""Scenario -> Run, and verify: the one composition of all rooms below."""

from simcluster.simulation.build import Built, prepare
from simcluster.simulation.simulate import simulate

__all__ = ["Built", "prepare", "simulate"]
