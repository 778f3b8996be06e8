"""Choosing plans: what calls the simulation many times. So far the first plan that fits, by a plain rule."""

from simcluster.search.first_fit import Attempt, FirstFit, SearchRequest
from simcluster.search.plan_search import find_first_fit

__all__ = ["Attempt", "FirstFit", "SearchRequest", "find_first_fit"]
