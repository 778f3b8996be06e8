"""``simcluster sweep``: the command, and one call of it."""
