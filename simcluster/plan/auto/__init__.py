"""Automatic parallelism: searches that find a strategy for every operator (DESIGN 4.3)."""

from simcluster.plan.auto.candidates import unit_sub_axes
from simcluster.plan.auto.network_search import SearchSettings, find_strategies

__all__ = ["SearchSettings", "find_strategies", "unit_sub_axes"]
