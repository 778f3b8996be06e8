"""``simcluster init``: the command, and the scenario that it writes."""
