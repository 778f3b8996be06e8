"""A Program on a cluster: what all ranks execute, send and dispatch in a step."""

from simcluster.program.placed.host_dispatch import call_counts, dispatch_counts
from simcluster.program.placed.placed_program import PlacedProgram
from simcluster.program.placed.sent_bytes import sent_bytes

__all__ = ["PlacedProgram", "call_counts", "dispatch_counts", "sent_bytes"]
