"""The collectives of a Program: what they load on links, which algorithm is asked for, how often the host
calls for them.
"""

from simcluster.program.communication.collective_overrides import Wants
from simcluster.program.communication.host_calls import FREE_CALLS, Calls, HostCalls
from simcluster.program.communication.program_loads import Key, Loaded, loaded, phase_key

__all__ = ["FREE_CALLS", "Calls", "HostCalls", "Key", "Loaded", "Wants", "loaded", "phase_key"]
