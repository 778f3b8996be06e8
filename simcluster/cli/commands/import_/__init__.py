"""``simcluster import``: the command, and the files that it reads and writes."""
