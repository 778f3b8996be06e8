"""Choosing plans: what calls the simulation many times. So far the first plan that fits, by a plain rule."""

from simcluster.search.first_fit import Attempt, FirstFit, Start, first_fit

__all__ = ["Attempt", "FirstFit", "Start", "first_fit"]
