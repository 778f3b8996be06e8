"""``simcluster search``: the command, and one call of it."""
