"""``simcluster compare``: the command, and the runs that it compares."""
