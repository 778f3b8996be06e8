"""Scenario -> Run, and verify: the one composition of all rooms below."""

from simcluster.simulation.build import Built, prepare
from simcluster.simulation.simulate import simulate
from simcluster.simulation.verify import Verification, verify

__all__ = ["Built", "Verification", "prepare", "simulate", "verify"]
