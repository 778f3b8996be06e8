"""``simcluster catalog``: the command, and what it lists."""
