"""``simcluster lint``: the command, and what it says of a scenario."""
