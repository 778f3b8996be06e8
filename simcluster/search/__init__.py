"""Choosing plans: what calls the simulation many times. So far the first plan that fits, by a plain rule."""

from simcluster.search.plan_search import find_first_fit
from simcluster.tuning import Attempt, FirstFit, SearchRequest

__all__ = ["Attempt", "FirstFit", "SearchRequest", "find_first_fit"]
