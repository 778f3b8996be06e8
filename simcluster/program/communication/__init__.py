"""The collectives of a Program: what they load on links, which algorithm is asked for, how often the host
calls for them.
"""

from simcluster.program.communication.collective_overrides import CollectiveRequests
from simcluster.program.communication.host_calls import FREE_CALLS, CollectiveCalls, HostCalls
from simcluster.program.communication.program_loads import PhaseKey, ProgramLoads, load_program, phase_key
from simcluster.program.communication.redundant_links import without_redundant_links

__all__ = [
    "FREE_CALLS",
    "CollectiveCalls",
    "CollectiveRequests",
    "HostCalls",
    "PhaseKey",
    "ProgramLoads",
    "load_program",
    "phase_key",
    "without_redundant_links",
]
