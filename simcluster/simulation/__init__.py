"""Scenario -> Run, and verify: the one composition of all rooms below."""

from simcluster.simulation.compose.build import Built, prepare
from simcluster.simulation.run_scenario import simulate
from simcluster.simulation.verification.single_device_comparison import Verification, verify

__all__ = ["Built", "Verification", "prepare", "simulate", "verify"]
