"""Trying changes of a plan by simulation: recomputation, offload and gradient buckets. How a plan is
simulated is handed in.
"""

from simcluster.tuning.bucket_search import search_buckets
from simcluster.tuning.offload_search import search_offload
from simcluster.tuning.recompute_search import search_recompute

__all__ = ["search_buckets", "search_offload", "search_recompute"]
