"""How large a run may be for its critical path to be looked for."""

from simcluster.engine import Timing

MOST_ENTRIES = 2**24
"""Entries of all classes that are looked at: some gigabytes."""


def may_have_critical_path(timing: Timing) -> bool:
    """Whether a run has few enough entries for it."""
    return timing.num_events <= MOST_ENTRIES
