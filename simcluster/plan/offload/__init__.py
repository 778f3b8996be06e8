"""Offload to hosts and disks: activations, gradients, optimizer states, parameters, and operators on host
CPUs.
"""

from simcluster.plan.offload.host_operators import check_hosts, place_on_hosts
from simcluster.plan.offload.offload_passes import offload, place_offloaded_state, report_not_offloaded

__all__ = ["check_hosts", "offload", "place_offloaded_state", "place_on_hosts", "report_not_offloaded"]
