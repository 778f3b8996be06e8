"""Offload to hosts and disks: activations, gradients, optimizer states, parameters, and operators that run on
hosts.
"""

from simcluster.plan.offload.host_operators import check_hosts, on_host
from simcluster.plan.offload.offload_passes import away, offload, staying

__all__ = ["away", "check_hosts", "offload", "on_host", "staying"]
