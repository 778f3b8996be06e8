"""Trying changes of a plan by simulation: recomputation, offload and gradient buckets. How a plan is
simulated is handed in.
"""

from simcluster.tuning.bucket_search import searched
from simcluster.tuning.offload_search import offloaded
from simcluster.tuning.recompute_search import fitted

__all__ = ["fitted", "offloaded", "searched"]
