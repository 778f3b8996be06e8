"""``simcluster collective``: the command, its table and its plot."""
